"""Where a sweep's run may be read, and only there: the class's prefixes and endpoints are checked before any request.

The check is made again here although decide() makes it before a launch: a class can change, and a status can be forged
by whoever may write it. Of a class that is gone its copy in the status serves (`core.grant`), by the same checks.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainsweep.api.resolve import SpecError
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.contract.documents import SweepRef
from trainsweep.contract.layout import Location, StorageURIError, parse_uri, run_location
from trainsweep.core.grant import covering, permitted_endpoints
from trainsweep.core.model import ClassView, SweepView, Unreadable
from trainsweep.core.resolved import resolved
from trainsweep.runtime.s3_clients import Role


@dataclass(frozen=True)
class Access:
    """A run's prefix that may be read, and how to reach it."""

    sweep: SweepRef
    location: Location
    region: str
    endpoint: str
    spec: TrainSweepSpec
    expected_trials: int
    role: Role | None = None
    """The class's role that is assumed to read."""
    export: Location | str | None = None
    """Where the sweep exports to; text: why it must not be looked at."""


def access_of(sweep: SweepView, sweep_class: ClassView | None) -> Access | Unreadable | None:
    """Where the sweep's run lies; None before its first launch; Unreadable where it must not be read."""
    status = sweep.status
    if not status.run or not status.run_uri:
        return None
    if sweep_class is None:
        return Unreadable(
            "no TrainSweepClass allows this storage: name one in spec.className, or mark one as default", True
        )
    storage = sweep_class.spec.storage
    try:
        spec = resolved(sweep.spec, sweep_class.spec)
        location = parse_uri(status.run_uri)
        ref = SweepRef(namespace=sweep.namespace, name=sweep.name, uid=sweep.uid, run=status.run)
    except (SpecError, StorageURIError, ValueError) as error:
        return Unreadable(str(error)[:1024], True)
    if not f"/{location.prefix}".endswith(f"/{sweep.namespace}/{sweep.name}/{status.run}"):
        return Unreadable(f"status.runURI {location.uri} is not this sweep's run", True)
    if location.scheme != "s3" or covering(storage.allowed_prefixes, sweep.namespace, location.uri) is None:
        return Unreadable(f"{location.uri} lies below none of the prefixes that class {sweep_class.name} allows", True)
    endpoint = spec.storage.endpoint_url.rstrip("/")
    if endpoint and endpoint not in permitted_endpoints(sweep_class.spec):
        return Unreadable(f"endpoint {endpoint} is not among those that class {sweep_class.name} allows", True)
    role = Role(storage.verifier_role_arn, sweep.namespace) if storage.verifier_role_arn else None
    return Access(
        ref,
        location,
        spec.storage.region,
        endpoint,
        spec,
        status.trials.expected,
        role,
        _export(spec, ref, storage.allowed_prefixes, sweep_class.name),
    )


def _export(spec: TrainSweepSpec, ref: SweepRef, allowed: list[str], class_name: str) -> Location | str | None:
    if spec.checkpoints.export is None:
        return None
    try:
        place = run_location(spec.checkpoints.export.uri, ref.namespace, ref.name, ref.run)
    except StorageURIError as error:
        return str(error)[:1024]
    if place.scheme != "s3" or covering(allowed, ref.namespace, place.uri) is None:
        return f"{place.uri} lies below none of the prefixes that class {class_name} allows"
    return place
