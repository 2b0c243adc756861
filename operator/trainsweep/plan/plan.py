"""`plan(spec)`: everything about a sweep that can be known before it runs.

What is wrong between fields says `trainsweep.api.checks`; here is refused only what no pod could ever hold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from trainsweep.api.space import grid_size
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.plan import quantity
from trainsweep.plan.shapes import Refusal, Shape, capacity, cut, head_memory, head_resources, shapes
from trainsweep.plan.space import Reach, reach


@dataclass(frozen=True)
class WorstCase:
    """How often things may be done again; the factors multiply."""

    tries_per_trial: int
    """Tries of a trial by Tune in one attempt."""
    starts_per_try: int
    """Starts of a trial's workers by Train in one try."""
    attempts: int
    """RayJobs."""

    @property
    def worker_starts(self) -> int:
        """Starts of one trial's workers at worst."""
        return self.tries_per_trial * self.starts_per_try * self.attempts


@dataclass(frozen=True)
class Plan:
    """A sweep in numbers. With refusals it can never run as written."""

    trials: int
    max_concurrent: int
    """Trials that can train at the same time: maxConcurrent, or fewer where a ceiling or a maxReplicas cuts it."""
    workers_per_trial: int
    head: dict[str, str]
    shapes: tuple[Shape, ...]
    autoscaling: bool
    worst: WorstCase
    reaches: tuple[Reach, ...]
    grid: int | None
    gpu_hours: float | None
    """Upper bound over the whole sweep, where a budget or a deadline bounds it."""
    notes: tuple[str, ...]
    refusals: tuple[Refusal, ...]

    @property
    def max_pods(self) -> int:
        """Worker pods at most."""
        return sum(s.max_replicas for s in self.shapes)

    @property
    def max_gpus(self) -> int:
        """GPUs at most, over all pods."""
        return sum(s.max_replicas * s.gpus for s in self.shapes)

    @property
    def max_cpus(self) -> int:
        """CPUs at most, the head included."""
        return sum(s.max_replicas * s.cpus for s in self.shapes) + quantity.cpus(self.head)


def worst_case(spec: TrainSweepSpec) -> WorstCase:
    """The product of all retry budgets."""
    policy, attempts = spec.failure_policy, spec.failure_policy.attempts
    return WorstCase(
        policy.trial_retries + 1,
        policy.worker_restarts + 1,
        1 + attempts.application + attempts.infrastructure + attempts.eviction + attempts.startup,
    )


def _early_stopping_notes(spec: TrainSweepSpec, trials: int) -> list[str]:
    early = spec.trials.early_stopping
    if early is None:
        return []
    name = early.name
    notes = []
    if spec.trials.max_concurrent == 1:
        notes.append(
            f"spec.trials.earlyStopping.{name} with maxConcurrent 1: the early trials have nothing to be compared with "
            "and run to the end; raise maxConcurrent to save time"
        )
    asha = early.asha or early.hyperband
    if asha is None:
        if early.median is not None and trials <= early.median.min_trials:
            notes.append(
                f"spec.trials.earlyStopping.median: minTrials is {early.median.min_trials}, so that none of {trials} "
                "trial(s) is stopped: lower minTrials"
            )
        return notes
    stop = spec.trials.stop
    last = (
        min(asha.max_epochs, stop.max_epochs) if stop is not None and stop.max_epochs is not None else asha.max_epochs
    )
    if asha.grace_epochs >= last:
        notes.append(
            f"spec.trials.earlyStopping.{name}: trials end after {last} epochs, so the rung at {asha.grace_epochs} stops "
            "none: lower graceEpochs"
        )
    if trials < asha.reduction_factor:
        notes.append(
            f"spec.trials.earlyStopping.{name}: with {trials} trial(s) and reductionFactor {asha.reduction_factor} "
            "hardly any is stopped"
        )
    return notes


def _gpu_hours(spec: TrainSweepSpec, gpus: int, attempts: int) -> float | None:
    found = [] if spec.budget.gpu_hours is None else [spec.budget.gpu_hours]
    if spec.deadlines.total_seconds is not None:
        found.append(gpus * spec.deadlines.total_seconds / 3600)
    elif spec.deadlines.run_seconds is not None:
        found.append(gpus * spec.deadlines.run_seconds * attempts / 3600)
    return min(found, default=None)


def _size_notes(spec: TrainSweepSpec, concurrent: int) -> tuple[list[str], list[Refusal]]:
    notes, refusals = [], []
    head = head_resources(spec, concurrent)
    if quantity.parse(head["memory"]) < (need := head_memory(concurrent)):
        notes.append(
            f"spec.cluster.head.resources.memory is {head['memory']}; {concurrent} concurrent trial(s) were measured "
            f"to need {need // 10**6}M: the head may be killed for memory"
        )
    if quantity.gpus(head):
        refusals.append(Refusal("spec.cluster.head.resources", "the head trains nothing: remove the GPUs"))
    return notes, refusals


def plan(spec: TrainSweepSpec, *, gpu_limit: int | None = None) -> Plan:
    """Plans a sweep.

    Args:
        spec: the resolved spec.
        gpu_limit: the class's `limits.gpus`.

    Returns:
        The plan; look at `refusals` first. Quantities that are none are refused with their path.
    """
    try:
        return _plan(spec, gpu_limit)
    except quantity.QuantityError as error:
        refusal = Refusal(_where(spec), str(error))
        return Plan(0, 0, spec.training.workers.most, {}, (), False, worst_case(spec), (), None, None, (), (refusal,))


def _where(spec: TrainSweepSpec) -> str:
    """Path of the first resource list with text that is no quantity."""
    lists = [
        ("spec.training.workers.resources", spec.training.workers.resources),
        ("spec.cluster.head.resources", spec.cluster.head.resources),
    ]
    lists += [
        (f"spec.cluster.workerGroups[{i}].resources", g.resources) for i, g in enumerate(spec.cluster.worker_groups)
    ]
    for path, resources in lists:
        for name, value in resources.items():
            try:
                quantity.parse(value)
            except quantity.QuantityError:
                return f"{path}.{name}"
    return "spec.training.workers.resources"


def _fractions(spec: TrainSweepSpec) -> list[Refusal]:
    """Ray counts whole CPUs and GPUs, and both sides round up: a fraction would promise what no pod has."""
    lists = [("spec.training.workers.resources", spec.training.workers.resources)]
    lists += [
        (f"spec.cluster.workerGroups[{i}].resources", g.resources) for i, g in enumerate(spec.cluster.worker_groups)
    ]
    found = []
    for path, resources in lists:
        for name, value in resources.items():
            amount = quantity.parse(value)
            if amount < 0:
                found.append(Refusal(f"{path}.{name}", f"{value} is negative"))
            elif (name == "cpu" or quantity.is_gpu(name)) and amount != int(amount):
                found.append(Refusal(f"{path}.{name}", f"{value} is no whole number: Ray counts whole CPUs and GPUs"))
    return found


def _plan(spec: TrainSweepSpec, gpu_limit: int | None) -> Plan:
    grid = grid_size(spec.search.parameters) if spec.search.algorithm.grid is not None else None
    trials = grid if grid is not None else spec.trials.count or 0
    refusals = _fractions(spec)
    wanted, unplaced, notes = shapes(spec)
    refusals += unplaced
    limited, cut_notes = cut(wanted, gpu_limit)
    notes += cut_notes
    per_trial, fewest = spec.training.workers.most, spec.training.workers.fewest
    held = capacity(limited)
    concurrent = min(spec.trials.max_concurrent, held // fewest)
    if not unplaced and limited and concurrent == 0:
        ceiling = f" under the class's limits.gpus {gpu_limit}" if cut_notes else ""
        field = "count" if fewest == per_trial else "min"
        path = (
            f"spec.training.workers.{field}" if cut_notes or limited[0].group is None else "spec.cluster.workerGroups"
        )
        refusals.append(
            Refusal(
                path,
                f"one trial needs {fewest} worker(s), all groups together hold {held}{ceiling}: no trial could ever "
                "start",
            )
        )
    elif 0 < concurrent < spec.trials.max_concurrent:
        notes.append(
            f"only {concurrent} of maxConcurrent {spec.trials.max_concurrent} trials can train at the same time"
        )
    if fewest < per_trial:
        notes.append(
            f"a trial trains with {fewest} to {per_trial} workers: the loop must keep its global batch, and a resize goes on "
            "from the last checkpoint"
        )
    queued = bool(spec.scheduling.queue_name)
    # Without a group that can change its size an autoscaler would only take its half CPU.
    autoscaling = not queued and any(s.min_replicas < s.max_replicas for s in limited)
    if queued:
        # Kueue admits in-tree autoscaling only with workload slicing: without it the size must be fixed.
        limited = _fixed(limited, spec.trials.max_concurrent * per_trial)
        notes.append(
            "spec.scheduling.queueName is set: the cluster has a fixed size, because Kueue admits it as a whole"
        )
    size_notes, size_refusals = _size_notes(spec, max(concurrent, 1))
    notes += size_notes
    worst = worst_case(spec)
    out = Plan(
        trials=trials,
        max_concurrent=max(concurrent, 1),
        workers_per_trial=per_trial,
        head=head_resources(spec, max(concurrent, 1)),
        shapes=tuple(limited),
        autoscaling=autoscaling,
        worst=worst,
        reaches=tuple(reach(p) for p in spec.search.parameters),
        grid=grid,
        gpu_hours=None,
        notes=(*notes, *_early_stopping_notes(spec, trials)),
        refusals=(*refusals, *size_refusals),
    )
    cut_ends = tuple(
        f"spec.search.parameters {r.name}: the step does not reach {r.cut}; the highest value is {r.last}"
        for r in out.reaches
        if r.cut
    )
    return replace(out, notes=out.notes + cut_ends, gpu_hours=_gpu_hours(spec, out.max_gpus, worst.attempts))


def _fixed(found: list[Shape], workers: int) -> list[Shape]:
    """Groups of a size that cannot change: what the workers need, the groups written first are filled first."""
    out = []
    for shape in found:
        size = max(shape.min_replicas, min(shape.max_replicas, -(-max(workers, 0) // shape.workers_per_pod)))
        workers -= size * shape.workers_per_pod
        out.append(replace(shape, min_replicas=size, max_replicas=size))
    return out
