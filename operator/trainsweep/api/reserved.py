"""Names of environment variables that a sweep must not set, and the keys that `runtimeEnv` may have."""

from __future__ import annotations

RESERVED_PREFIXES = ("RAY_", "TRAINSWEEP_", "KUBERAY_", "TUNE_")
_IDENTITY = "set storage.serviceAccountName instead, or let the class name a Secret"
_ENDPOINT = "set storage.endpointURL instead, to an endpoint that the class allows"
RESERVED_NAMES = {
    "AWS_EC2_METADATA_DISABLED": "it follows from storage.serviceAccountName",
    "AWS_REQUEST_CHECKSUM_CALCULATION": "it follows from storage.endpointURL",
    "AWS_RESPONSE_CHECKSUM_VALIDATION": "it follows from storage.endpointURL",
    "AWS_REGION": "set storage.region instead",
    "AWS_DEFAULT_REGION": "set storage.region instead",
    "AWS_ENDPOINT_URL": _ENDPOINT,
    "AWS_ENDPOINT_URL_S3": _ENDPOINT,
    "AWS_ENDPOINT_URL_STS": _ENDPOINT,
    "AWS_ROLE_ARN": _IDENTITY,
    "AWS_WEB_IDENTITY_TOKEN_FILE": _IDENTITY,
    "AWS_CONTAINER_CREDENTIALS_FULL_URI": _IDENTITY,
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": _IDENTITY,
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": _IDENTITY,
    "REDIS_PASSWORD": "KubeRay sets it",
    "REDIS_USERNAME": "KubeRay sets it",
    "FQ_RAY_IP": "KubeRay sets it",
}
RUNTIME_ENV_KEYS = ("pip", "uv", "working_dir", "py_modules", "env_vars")
# runtime_env replaces a variable of the container, where the container's env only adds to ours.
ONLY_IN_ENV = {"PYTHONPATH": "put it into training.env, where it is joined to the path of the sweep's own code"}


def reserved(name: str, *, in_runtime_env: bool = False) -> str:
    """What to do instead of setting this variable; empty when a sweep may set it."""
    if name in RESERVED_NAMES:
        return RESERVED_NAMES[name]
    if in_runtime_env and name in ONLY_IN_ENV:
        return ONLY_IN_ENV[name]
    if name.upper().startswith(RESERVED_PREFIXES):
        return "names that start with RAY_, TRAINSWEEP_, KUBERAY_ or TUNE_ are set by TrainSweep, Ray and KubeRay"
    return ""
