"""Launching an attempt: write ahead, then a hold, then the RayJob under its deterministic name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.status import AttemptStatus, ResolvedStatus, TrialsStatus
from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.contract.canonical import run_name
from trainsweep.contract.documents import Limits, Progress
from trainsweep.contract.layout import run_location
from trainsweep.core import deadlines
from trainsweep.core.deadlines import Deadline
from trainsweep.core.draft import Draft
from trainsweep.core.grant import keep_grant
from trainsweep.core.model import FINALIZER, AddFinalizer, CreateRayJob, EnsureHold
from trainsweep.core.pending.record import find_pending, record_pending, record_refusal
from trainsweep.core.times import to_seconds, to_text
from trainsweep.core.usage import budget_seconds
from trainsweep.plan.plan import plan
from trainsweep.render.rayjob import RenderInput, check, hold_name, rayjob_name, render, spec_digest

KEPT_ATTEMPTS = 20
REPOST_SECONDS = 5.0


def class_of(draft: Draft) -> TrainSweepClassSpec | None:
    """The class's spec."""
    return draft.observed.sweep_class.spec if draft.observed.sweep_class else None


def class_total_limit(draft: Draft) -> int | None:
    """The class's ceiling on total seconds."""
    found = class_of(draft)
    return found.limits.total_seconds if found else None


def driver_limits(draft: Draft, spec: TrainSweepSpec, started: float, gpu_before: int, cpu_before: int) -> Limits:
    """What the driver of an attempt keeps itself, as spec and class are now.

    Args:
        draft: the plan in the making.
        spec: the resolved spec.
        started: when the attempt was recorded.
        gpu_before: GPU-seconds used before it.
        cpu_before: CPU-seconds used before it.
    """
    gpu, cpu = budget_seconds(spec, class_of(draft))
    return Limits(
        deadline_at=deadlines.driver_deadline(spec, started, first_start(draft), class_total_limit(draft)),
        stall_seconds=spec.deadlines.stall_seconds,
        trial_seconds=spec.deadlines.trial_seconds,
        gpu_seconds=None if gpu is None else max(0, gpu - gpu_before),
        cpu_seconds=None if cpu is None else max(0, cpu - cpu_before),
    )


def first_start(draft: Draft) -> float:
    """When the sweep was first launched; now, where it was not."""
    return to_seconds(draft.status.started_at) or float(int(draft.now))


def _body(draft: Draft, spec: TrainSweepSpec, attempt: AttemptStatus) -> tuple[Mapping[str, Any], list[str]]:
    """The RayJob of an attempt, and what is wrong with it; with problems it must not be posted."""
    sweep, found = draft.observed.sweep, draft.observed.sweep_class
    started = to_seconds(attempt.started_at) or draft.now
    limits = driver_limits(draft, spec, started, attempt.gpu_seconds_before, attempt.cpu_seconds_before)
    try:
        body = render(
            RenderInput(
                spec=spec,
                sweep_class=found.spec if found else None,
                namespace=sweep.namespace,
                name=sweep.name,
                uid=sweep.uid,
                run=draft.status.run or run_name(sweep.spec),
                attempt=attempt.number,
                kuberay=draft.observed.kuberay,
                limits=limits,
                active_deadline_seconds=deadlines.backstop_seconds(spec, started, limits.deadline_at),
            )
        )
    except ValueError as error:
        return {}, [str(error)]
    return body, check(body, kueue=bool(spec.scheduling.queue_name))


def current_digest(draft: Draft, spec: TrainSweepSpec) -> str:
    """Digest of the newest attempt's RayJob as it would be rendered now; "" where it cannot be."""
    body, problems = _body(draft, spec, draft.status.attempts[-1])
    return "" if problems else spec_digest(dict(body))


def _refused_without_class(draft: Draft) -> bool:
    """Whether an attempt that is recorded must not be made now: the class that it would be rendered with is not there."""
    why = draft.observed.class_error
    if why:
        draft.condition(Condition.ADMITTED, False, Reason.CLASS_NOT_FOUND, why)
        draft.stalled(Reason.CLASS_NOT_FOUND, why)
        record_refusal(draft, Reason.CLASS_NOT_FOUND, why)
        draft.wake(draft.now + REPOST_SECONDS)
    return bool(why)


def _refused(draft: Draft, problems: list[str]) -> None:
    text = "; ".join(problems)
    draft.condition(Condition.ADMITTED, False, Reason.KUBERAY_REFUSED, text)
    draft.stalled(Reason.KUBERAY_REFUSED, f"KubeRay would refuse the RayJob: {text}")
    record_refusal(draft, Reason.KUBERAY_REFUSED, text)


def launch(draft: Draft, spec: TrainSweepSpec, number: int) -> None:
    """Records attempt `number` and then makes its RayJob; the order is what makes a crash harmless."""
    sweep, found = draft.observed.sweep, draft.observed.sweep_class
    started, name = float(int(draft.now)), rayjob_name(sweep.name, sweep.uid, number)
    attempt = AttemptStatus(
        number=number,
        ray_job=name,
        started_at=to_text(started),
        gpu_seconds_before=draft.status.usage.gpu_seconds,
        cpu_seconds_before=draft.status.usage.cpu_seconds,
    )
    body, problems = _body(draft, spec, attempt)
    if problems:
        _refused(draft, problems)
        return
    run = draft.status.run or run_name(sweep.spec)
    where = run_location(spec.storage.uri, sweep.namespace, sweep.name, run)
    if number == 1:
        trials = plan(spec).trials
        groups = body["spec"]["rayClusterSpec"]["workerGroupSpecs"]
        draft.set(
            run=run,
            run_uri=where.uri,
            started_at=to_text(started),
            trials=TrialsStatus(expected=trials, pending=trials, summary=f"0/{trials}"),
            resolved=ResolvedStatus(
                class_name=found.name if found else "",
                class_uid=found.uid if found else "",
                class_generation=found.generation if found else 0,
                storage_uri=where.uri,
                max_replicas=sum(int(g.get("maxReplicas", 0)) for g in groups),
            ),
        )
    keep_grant(draft, spec)
    attempt = attempt.model_copy(update={"spec_digest": spec_digest(dict(body))})
    draft.set(attempt=number, attempts=[*draft.status.attempts, attempt][-KEPT_ATTEMPTS:], pending=None)
    refresh_deadlines(draft, spec)
    draft.condition(Condition.CLUSTER_READY, False, Reason.CLUSTER_STARTING, f"RayJob {name} is being started.")
    draft.condition(Condition.TRIALS_FINISHED, False, Reason.NOT_STARTED)
    draft.condition(Condition.CHECKPOINTS_VERIFIED, None, Reason.WAITING_FOR_RECEIPT)
    draft.drop_condition(Condition.RELEASED)
    draft.drop_condition(Condition.EXPORTED)
    _dashboard(draft, body)
    draft.state(Reason.STARTING, f"Attempt {number} is being started.")
    draft.event(Reason.STARTING, f"Starting attempt {number} as RayJob {name}.")
    if FINALIZER not in sweep.finalizers:
        draft.ahead.append(AddFinalizer())
    _post(draft, body, attempt)


def relaunch_same(draft: Draft, spec: TrainSweepSpec) -> None:
    """The attempt is recorded but its RayJob was never seen: post it (again); 409 means that it is there after all.

    The recorded digest stays until the RayJob is seen: an earlier POST whose answer was lost may still show.
    """
    attempt = draft.status.attempts[-1]
    if _refused_without_class(draft):
        return
    body, problems = _body(draft, spec, attempt)
    if problems:
        _refused(draft, problems)
        return
    draft.condition(Condition.ADMITTED, True, Reason.ADMITTED)
    draft.state(Reason.STARTING, f"Attempt {attempt.number} is being started.")
    record_pending(draft, find_pending(draft) if draft.observed.refusal else None)
    _post(draft, body, attempt)


def _post(draft: Draft, body: Mapping[str, Any], attempt: AttemptStatus) -> None:
    hold = hold_name(attempt.ray_job)
    draft.after += [EnsureHold(hold, attempt.number), CreateRayJob(body, hold)]
    draft.wake(draft.now + REPOST_SECONDS)


def refresh_deadlines(draft: Draft, spec: TrainSweepSpec, progress: Progress | None = None) -> list[Deadline]:
    """The deadlines of the running attempt, from the stamps and the spec as it is now, and `status.deadlines`."""
    found = deadlines.all_of(spec, draft.status, draft.now, class_total_limit(draft), progress)
    ended = draft.status.attempts[-1].ended_at is not None
    draft.set(deadlines=deadlines.as_status(found, draft.status.deadlines, ended=ended))
    return found


def _dashboard(draft: Draft, body: Mapping[str, Any]) -> None:
    if body["spec"]["rayClusterSpec"].get("authOptions", {}).get("mode") == "token":
        draft.condition(Condition.DASHBOARD_PROTECTED, True, Reason.TOKEN_REQUIRED)
    else:
        draft.condition(
            Condition.DASHBOARD_PROTECTED,
            False,
            Reason.DASHBOARD_UNPROTECTED,
            "Whoever reaches the Ray dashboard in this cluster can run code: use KubeRay >= 1.5.1 and Ray >= 2.52.",
        )
