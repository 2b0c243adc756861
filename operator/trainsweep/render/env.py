"""Environment of the Ray containers. Which names a sweep must not set says `trainsweep.api.reserved`."""

from __future__ import annotations

from typing import Any

from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.contract import labels

PYTHONPATH = "PYTHONPATH"

# A cold GPU node with its image takes up to eight minutes; Ray's own 60 s would burn the retries of a trial meanwhile.
START_TIMEOUT = 1800
# A rank that never reports would block the others for ever, which is Ray's default.
COLLECTIVE_TIMEOUT = 1800
MIN_STOP_WAIT = 30
SETTLE_SECONDS = 60
"""Added to the stop's grace: settlement and receipt must fit before Ray kills the driver."""
ALLOCATE_TIMEOUT = 1800


def python_path(spec: TrainSweepSpec) -> str:
    """PYTHONPATH: the sweep's source, the place of our package, then what the user wrote."""
    written = [v.value for v in spec.training.env if v.name == PYTHONPATH and v.value]
    return ":".join([labels.SOURCE_DIR, labels.PACKAGE_DIR, *written])


def has_identity(spec: TrainSweepSpec, sweep_class: TrainSweepClassSpec | None) -> bool:
    """Whether an identity is declared: then a failed STS call must not fall back to the node's role."""
    return bool(spec.storage.service_account_name or (sweep_class and sweep_class.storage.credentials_secret))


def ray_env(spec: TrainSweepSpec, sweep_class: TrainSweepClassSpec | None, *, head: bool) -> list[dict[str, Any]]:
    """`env` of a Ray container: ours first, so that a user's `$(NAME)` can refer to it."""
    stop_wait = max(MIN_STOP_WAIT, spec.cleanup.stop_grace_seconds + SETTLE_SECONDS)
    ours: dict[str, str] = {
        PYTHONPATH: python_path(spec),
        "RAY_TRAIN_COLLECTIVE_TIMEOUT_S": str(COLLECTIVE_TIMEOUT),
        "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": str(START_TIMEOUT),
        "RAY_JOB_STOP_WAIT_TIME_S": str(stop_wait),
    }
    if spec.storage.region:
        ours["AWS_REGION"] = ours["AWS_DEFAULT_REGION"] = spec.storage.region
    if has_identity(spec, sweep_class):
        ours["AWS_EC2_METADATA_DISABLED"] = "true"
    if spec.storage.endpoint_url:
        # pyarrow and boto3 send checksum trailers by default, which older S3-compatible stores refuse.
        ours["AWS_REQUEST_CHECKSUM_CALCULATION"] = ours["AWS_RESPONSE_CHECKSUM_VALIDATION"] = "when_required"
    if head:
        ours[labels.ENV_SWEEP_FILE] = f"{labels.CONTROL_DIR}/{labels.SWEEP_FILE}"
        ours[labels.ENV_CONTROL_FILE] = f"{labels.CONTROL_DIR}/{labels.CONTROL_FILE}"
    out: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in ours.items()]
    out.append({"name": labels.ENV_POD_NAME, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
    out.append({"name": labels.ENV_NAMESPACE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}})
    for variable in spec.training.env:
        if variable.name == PYTHONPATH:
            continue
        if variable.value_from:
            out.append({"name": variable.name, "valueFrom": variable.value_from})
        else:
            out.append({"name": variable.name, "value": variable.value or ""})
    return out


def ray_env_from(spec: TrainSweepSpec, sweep_class: TrainSweepClassSpec | None) -> list[dict[str, Any]]:
    """`envFrom` of a Ray container: the user's, then the class's credentials, which win."""
    out: list[dict[str, Any]] = []
    for item in spec.training.env_from:
        entry: dict[str, Any] = {"prefix": item.prefix} if item.prefix else {}
        if item.secret_ref:
            entry["secretRef"] = {"name": item.secret_ref.name}
        if item.config_map_ref:
            entry["configMapRef"] = {"name": item.config_map_ref.name}
        out.append(entry)
    if sweep_class and sweep_class.storage.credentials_secret:
        out.append({"secretRef": {"name": sweep_class.storage.credentials_secret}})
    return out
