"""Launching an attempt: write ahead, then a hold, then the RayJob under its deterministic name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.status import AttemptStatus, DeadlinesStatus, ResolvedStatus, TrialsStatus
from trainsweep.contract.canonical import run_name
from trainsweep.contract.layout import run_location
from trainsweep.core import deadlines
from trainsweep.core.draft import Draft
from trainsweep.core.model import FINALIZER, AddFinalizer, CreateRayJob, EnsureHold
from trainsweep.core.times import to_seconds, to_text
from trainsweep.plan.plan import plan
from trainsweep.render.rayjob import RenderInput, check, hold_name, rayjob_name, render, spec_digest

KEPT_ATTEMPTS = 20


def class_total_limit(draft: Draft) -> int | None:
    """The class's ceiling on total seconds."""
    found = draft.observed.sweep_class
    return found.spec.limits.total_seconds if found else None


def _body(draft: Draft, spec: TrainSweepSpec, number: int, started: float) -> Mapping[str, Any]:
    sweep, found = draft.observed.sweep, draft.observed.sweep_class
    first = to_seconds(draft.status.started_at) or started
    deadline = deadlines.driver_deadline(spec, started, first, class_total_limit(draft))
    return render(
        RenderInput(
            spec=spec,
            sweep_class=found.spec if found else None,
            namespace=sweep.namespace,
            name=sweep.name,
            uid=sweep.uid,
            run=draft.status.run or run_name(sweep.spec),
            attempt=number,
            kuberay=draft.observed.kuberay,
            deadline_at=deadline,
            active_deadline_seconds=deadlines.backstop_seconds(spec, started, deadline),
        )
    )


def launch(draft: Draft, spec: TrainSweepSpec, number: int) -> None:
    """Records attempt `number` and then makes its RayJob; the order is what makes a crash harmless."""
    sweep, found = draft.observed.sweep, draft.observed.sweep_class
    started = float(int(draft.now))
    body = _body(draft, spec, number, started)
    problems = check(dict(body), kueue=bool(spec.scheduling.queue_name))
    if problems:
        draft.condition(Condition.ADMITTED, False, Reason.KUBERAY_REFUSED, "; ".join(problems))
        draft.stalled(Reason.KUBERAY_REFUSED, "KubeRay would refuse the RayJob: " + "; ".join(problems))
        return
    name = rayjob_name(sweep.name, sweep.uid, number)
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
    attempt = AttemptStatus(number=number, ray_job=name, started_at=to_text(started), spec_digest=spec_digest(dict(body)))
    draft.set(attempt=number, attempts=[*draft.status.attempts, attempt][-KEPT_ATTEMPTS:])
    refresh_deadlines(draft, spec)
    draft.condition(Condition.CLUSTER_READY, False, Reason.CLUSTER_STARTING, f"RayJob {name} is being started.")
    draft.condition(Condition.TRIALS_FINISHED, False, Reason.NOT_STARTED)
    draft.condition(Condition.CHECKPOINTS_VERIFIED, None, Reason.WAITING_FOR_RECEIPT)
    draft.drop_condition(Condition.RELEASED)
    _dashboard(draft, body)
    draft.state(Reason.STARTING, f"Attempt {number} is being started.")
    draft.event(Reason.STARTING, f"Starting attempt {number} as RayJob {name}.")
    if FINALIZER not in sweep.finalizers:
        draft.ahead.append(AddFinalizer())
    draft.after += [EnsureHold(hold_name(name), number), CreateRayJob(body, hold_name(name))]
    draft.wake(draft.now + 5)


def relaunch_same(draft: Draft, spec: TrainSweepSpec) -> None:
    """The attempt is recorded but its RayJob was never seen: post it (again); 409 means that it is there after all."""
    attempt = draft.status.attempts[-1]
    body = _body(draft, spec, attempt.number, to_seconds(attempt.started_at) or draft.now)
    draft.set_attempt(spec_digest=spec_digest(dict(body)))
    hold = hold_name(attempt.ray_job)
    draft.after += [EnsureHold(hold, attempt.number), CreateRayJob(body, hold)]
    draft.wake(draft.now + 5)


def refresh_deadlines(draft: Draft, spec: TrainSweepSpec) -> None:
    """`status.deadlines` of the running attempt, from the stamps and the spec as it is now."""
    attempt = draft.status.attempts[-1]
    started = to_seconds(attempt.started_at) or draft.now
    first = to_seconds(draft.status.started_at) or started
    draft.set(
        deadlines=DeadlinesStatus(
            startup=deadlines.as_text(deadlines.startup_at(spec, attempt)),
            run=deadlines.as_text(deadlines.run_at(spec, started)),
            total=deadlines.as_text(deadlines.total_at(spec, first, class_total_limit(draft))),
            hold=draft.status.deadlines.hold if attempt.ended_at else None,
            deletion=draft.status.deadlines.deletion,
        )
    )


def _dashboard(draft: Draft, body: Mapping[str, Any]) -> None:
    if body["spec"]["rayClusterSpec"].get("authOptions", {}).get("mode") == "token":
        draft.condition(Condition.DASHBOARD_PROTECTED, True, Reason.TOKEN_REQUIRED)
    else:
        draft.condition(
            Condition.DASHBOARD_PROTECTED,
            False,
            Reason.DASHBOARD_UNPROTECTED,
            "Whoever reaches the Ray dashboard in this cluster can run code: use KubeRay 1.5.1 or newer and Ray 2.52 or newer.",
        )
