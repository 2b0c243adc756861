"""What of a class must outlive it: enough to read, prove and release a run that was launched with it, and nothing more.

A class that exists always wins: this copy is written from it, follows its changes while an attempt is live, and is only
read once the API server has said that no class of that name is there. It is as good as the status that holds it, which
only the operator may write. It can never allow more than the class did: its prefixes are the class's own entries, only
those below which this very run and its export lay, and whoever reads by it makes the same checks as by a class
(`runtime.access`): the run's prefix must end in this sweep's namespace, name and run. And no attempt starts from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.status import GrantStatus, ResolvedStatus
from trainsweep.api.sweepclass import ClassStorage, Limits, TrainSweepClassSpec
from trainsweep.contract.layout import StorageURIError, run_location, within
from trainsweep.core.draft import Draft
from trainsweep.core.model import ClassView

COPIED = ("budget", "checkpoints", "cleanup", "deadlines", "failurePolicy")
"""Defaults that say what is owed and how an attempt ends; without them a class's `require` would fall back to ours."""
_STORAGE = ("region", "endpointURL")
_TRAINING = ("entrypoint",)
"""Required of every sweep: without it the spec of a sweep that leaves it to its class could not be read."""


def covering(prefixes: Iterable[str], namespace: str, uri: str) -> str | None:
    """The first entry of a class's prefixes below which a place lies; None where none allows it."""
    return next((p for p in prefixes if within(uri, p.replace("{namespace}", namespace))), None)


def permitted_endpoints(found: TrainSweepClassSpec) -> set[str]:
    """Endpoints that a class allows. Its own default is as good as its list: both are written by the platform team."""
    own = found.defaults.get("storage")
    default = own.get("endpointURL") if isinstance(own, dict) else None
    listed = [*found.storage.endpoints, *([default] if isinstance(default, str) else [])]
    return {e.rstrip("/") for e in listed}


def grant(
    found: TrainSweepClassSpec, spec: TrainSweepSpec, namespace: str, name: str, run: str, run_uri: str
) -> GrantStatus | None:
    """What a class gives to a run; None where it does not (any more) allow its place."""
    place, endpoint = (
        covering(found.storage.allowed_prefixes, namespace, run_uri),
        spec.storage.endpoint_url.rstrip("/"),
    )
    if place is None or (endpoint and endpoint not in permitted_endpoints(found)):
        return None
    prefixes = [place]
    if spec.checkpoints.export is not None:
        copies = _export_prefix(found, spec.checkpoints.export.uri, namespace, name, run)
        prefixes += [copies] if copies is not None and copies != place else []
    limits = found.limits
    return GrantStatus(
        allowed_prefixes=prefixes,
        endpoint=endpoint,
        verifier_role_arn=found.storage.verifier_role_arn,
        total_seconds=limits.total_seconds,
        gpu_hours="" if limits.gpu_hours is None else repr(limits.gpu_hours),
        defaults=_defaults(found.defaults),
    )


def _export_prefix(found: TrainSweepClassSpec, uri: str, namespace: str, name: str, run: str) -> str | None:
    try:
        place = run_location(uri, namespace, name, run)
    except StorageURIError:
        return None
    return covering(found.storage.allowed_prefixes, namespace, place.uri)


def _defaults(all_of_them: Mapping[str, Any]) -> dict[str, Any]:
    out = {key: all_of_them[key] for key in COPIED if key in all_of_them}
    for key, fields in (("storage", _STORAGE), ("training", _TRAINING)):
        part = all_of_them.get(key)
        kept = {f: part[f] for f in fields if f in part} if isinstance(part, Mapping) else {}
        if kept:
            out[key] = kept
    return out


def keep_grant(draft: Draft, spec: TrainSweepSpec) -> None:
    """Follows the class while an attempt is live: a prefix that is removed is not allowed again by a later deletion."""
    found, status, sweep = draft.observed.sweep_class, draft.status, draft.observed.sweep
    if found is None or draft.observed.class_error or not status.run_uri or found.name != status.resolved.class_name:
        return
    now = grant(found.spec, spec, sweep.namespace, sweep.name, status.run, status.run_uri)
    if now != status.resolved.granted:
        draft.set(resolved=status.resolved.model_copy(update={"granted": now}))


def class_of_grant(resolved: ResolvedStatus, named: str) -> ClassView | None:
    """The class as far as it was copied; None where it was not, or where the sweep names another one.

    Args:
        resolved: the sweep's `status.resolved`.
        named: its `spec.className`, which cannot be changed; "" where it took the default class.
    """
    given = resolved.granted
    if given is None or not resolved.class_name or named not in ("", resolved.class_name):
        return None
    try:
        spec = TrainSweepClassSpec(
            defaults=given.defaults,
            limits=Limits.model_validate({"totalSeconds": given.total_seconds, "gpuHours": given.gpu_hours or None}),
            storage=ClassStorage.model_validate(
                {
                    "allowedPrefixes": given.allowed_prefixes,
                    "endpoints": [given.endpoint] if given.endpoint else [],
                    "verifierRoleARN": given.verifier_role_arn,
                }
            ),
        )
    except ValidationError:
        return None
    return ClassView(resolved.class_name, resolved.class_uid, resolved.class_generation, spec)
