"""The sweep that this driver runs: the sweep file read, checked and turned into the few numbers that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainjobs.outcome import DriverError
from trainjobs.proposals import Proposals
from trainjobs.space import Space, SpaceError
from trainsweep.api.resolve import problems_of
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.stopping import failure_limit
from trainsweep.contract import CONTRACT_VERSION
from trainsweep.contract.canonical import config_hash
from trainsweep.contract.documents import FailureReason, SweepFile

GPU = "nvidia.com/gpu"
_SUFFIX = {"": Decimal(1), "m": Decimal("0.001"), "k": Decimal(1000)}


@dataclass(frozen=True)
class Sweep:
    """What runs, where, and how much of it."""

    file: SweepFile
    spec: TrainSweepSpec
    proposals: Proposals
    count: int
    """Trials of the sweep: from the spec, or the size of the grid."""
    cpus: int
    """CPUs of one worker, as Ray counts them."""
    gpus: int

    @property
    def metric(self) -> str:
        """Name of the objective."""
        return self.spec.objective.metric

    @property
    def mode(self) -> str:
        """`Minimize` or `Maximize`."""
        return self.spec.objective.mode.value

    @property
    def workers(self) -> int:
        """Workers of one trial; the most where it is elastic."""
        return self.spec.training.workers.most

    @property
    def fewest_workers(self) -> int:
        """Workers without which no trial trains; fewer than `workers` where it is elastic."""
        return self.spec.training.workers.fewest

    @property
    def max_failed(self) -> int | None:
        """Trials that may fail for good, as a number."""
        return failure_limit(self.spec.trials.max_failed, self.count)

    @property
    def needs_epoch(self) -> bool:
        """Whether something is decided by the reported `epoch`."""
        stop = self.spec.trials.stop
        return self.spec.trials.early_stopping is not None or (
            stop is not None and (stop.max_epochs is not None or stop.plateau is not None)
        )

    def hash(self, parameters: dict[str, Any]) -> str:
        """Names a trial's whole configuration."""
        return config_hash(parameters, self.spec.training.config)


def trial_name(index: int) -> str:
    """A trial's id: stable across attempts."""
    return f"t{index:04d}"


def invalid(message: str) -> DriverError:
    """The sweep file cannot be run."""
    return DriverError(FailureReason.INVALID_SWEEP, message)


def whole(name: str, value: int | str) -> int:
    """A resource quantity that must be a whole number."""
    text = str(value).strip()
    suffix = next((s for s in ("m", "k") if text.endswith(s)), "")
    try:
        number = Decimal(text.removesuffix(suffix)) * _SUFFIX[suffix]
    except InvalidOperation:
        raise invalid(f"training.workers.resources.{name}: {value!r} is no quantity") from None
    if number != int(number) or number < 0:
        raise invalid(f"training.workers.resources.{name}: {value!r} must be a whole number, as Ray counts them")
    return int(number)


def load(path: Path) -> Sweep:
    """Reads a sweep file.

    Raises:
        DriverError: with InvalidSweep or Incompatible, naming the field.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise invalid(f"the sweep file {path} cannot be read: {error.strerror}") from None
    return parse(text)


def parse(text: bytes) -> Sweep:
    """The sweep of a sweep file's text; errors as `load`."""
    try:
        file = SweepFile.model_validate_json(text)
        if file.contract_version > CONTRACT_VERSION:
            raise DriverError(
                FailureReason.INCOMPATIBLE,
                f"the operator speaks contract {file.contract_version}, this trainjobs speaks {CONTRACT_VERSION}: "
                "use a training image with a newer trainsweep",
            )
        spec = TrainSweepSpec.model_validate(file.spec)
    except ValidationError as error:
        raise invalid("; ".join(f"{path}: {message}" for path, message in problems_of(error))[:1000]) from None
    try:
        space = Space(spec.search)
        count = space.count(spec.trials.count)
    except SpaceError as error:
        raise invalid(str(error)) from None
    resources = spec.training.workers.resources
    maximize = spec.objective.mode.value == "Maximize"
    return Sweep(
        file,
        spec,
        Proposals(space, maximize=maximize, concurrent=spec.trials.max_concurrent),
        count,
        cpus=whole("cpu", resources.get("cpu", 1)),
        gpus=whole(GPU, resources.get(GPU, 0)),
    )
