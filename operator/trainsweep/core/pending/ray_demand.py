"""Layer RayDemand: the pods run, and Ray still finds no room for a trial's workers."""

from __future__ import annotations

import re

from trainsweep.api.pending import Layer, Why
from trainsweep.core.fields import items, mapping, seconds, whole
from trainsweep.core.pending.situation import Answer, Finding, Situation, cut, is_head, live, phase

QUIET_AFTER = 120.0
"""Seconds after the head was ready in which a first trial has normally begun."""
_INFEASIBLE = re.compile(r"No available node types can fulfill (?:resource request|cluster constraint)[^\n]*")
_ADDING = re.compile(r"Adding (\d+) node\(s\) of type ([^\s.]+)")


def look(seen: Situation) -> Answer:
    """What the autoscaler logs, else what the counts of pods and trials show."""
    infeasible = _INFEASIBLE.findall(seen.autoscaler_log)
    adding = _ADDING.findall(seen.autoscaler_log)
    if infeasible:
        cure = "make a pod of a group hold one whole worker: cluster.workerGroups[].resources >= training.workers.resources"
        return Finding(Layer.RAY_DEMAND, Why.DEMAND_INFEASIBLE, f"Ray's autoscaler: {cut(infeasible[-1], 300)}", cure)
    head = next((p for p in live(seen.pods) if is_head(p)), None)
    if head is None or phase(head) != "Running":
        return None
    workers = [p for p in live(seen.pods) if not is_head(p)]
    running = sum(1 for p in workers if phase(p) == "Running")
    trials = seen.status.trials
    if trials.running or not trials.pending or seen.status.progress.phase not in ("Running", "Starting", ""):
        return None
    desired = whole(mapping(mapping(seen.ray_cluster).get("status")).get("desiredWorkerReplicas")) or len(workers)
    if adding and running < desired:
        number, group = adding[-1]
        words = f"Ray's autoscaler is adding {number} pod(s) to group {group}; {running} worker pod(s) run"
        return Finding(Layer.RAY_DEMAND, Why.WORKERS_AWAITED, words, "", True)
    if running < desired:
        words = f"{running} of {desired} worker pods run, and no trial does yet"
        return Finding(Layer.RAY_DEMAND, Why.WORKERS_AWAITED, words, "", True)
    return _no_trial(seen, running)


def _no_trial(seen: Situation, running: int) -> Finding | None:
    attempt = seen.status.attempts[-1] if seen.status.attempts else None
    ready = seconds(attempt.ready_at) if attempt else None
    if ready is None or seen.now - ready < QUIET_AFTER:
        return None
    if attempt is not None and attempt.first_report_at is not None:
        return None  # trials have run here: it is between two of them
    groups = items(mapping(mapping(seen.ray_cluster).get("spec")).get("workerGroupSpecs"))
    most = sum(whole(g.get("maxReplicas")) or 0 for g in groups)
    words = f"the head has been ready for {int(seen.now - ready)} s, {running} of at most {most} worker pods run, no trial does"
    return Finding(Layer.RAY_DEMAND, Why.NO_TRIAL_PLACED, words, "trainsweep logs NAME shows what the driver waits for")
