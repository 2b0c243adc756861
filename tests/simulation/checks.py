"""The invariants, checked at every write of the operator and after every change in the world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tests.simulation.faults import CONFLICT, LATE
from tests.simulation.kuberay import attempt_of, live
from trainsweep.contract import labels
from trainsweep.contract.documents import Control, Outcome
from trainsweep.core.ends import Cause
from trainsweep.core.model import FINALIZER, EnsureHold, Observed, Plan, RayJobView, RepairHoldReference
from trainsweep.core.times import to_seconds, to_text
from trainsweep.render.rayjob import rayjob_name
from trainsweep.runtime.kube import EVENT, HOLD, POD, RAY_CLUSTER, RAY_JOB, SWEEP, Kind, Object
from trainsweep.runtime.resync import ORPHAN_SECONDS

if TYPE_CHECKING:
    from tests.simulation.world import World

HONEST_UNPROVEN = ("NothingToVerify", "FilesMissing", "ReceiptInvalid")
"""Reasons of CheckpointsVerified with which a last attempt may go: a look was made, and this is what it found."""
UNSEEN = ("StoreUnreadable", "StoreDenied", "WaitingForReceipt")


class Violation(AssertionError):  # noqa: N818  # named for what it says
    """An invariant does not hold."""


def condition(sweep: Object, kind: str) -> tuple[str, str]:
    """Status and reason of a condition."""
    for item in (sweep.get("status") or {}).get("conditions", ()):
        if item["type"] == kind:
            return item["status"], item["reason"]
    return "", ""


class Checks:
    """Watches one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.writes: list[tuple[str, str]] = []
        self.events: list[str] = []
        self.jobs_made: dict[str, set[str]] = {}
        self._latched: dict[str, tuple[str, str]] = {}
        self._counts: dict[str, tuple[int, dict[str, int]]] = {}
        self._suspensions: dict[str, set[int]] = {}
        self._recorded: set[str] = set()
        """RayJobs of attempts that stood in a status once."""
        self.gone: dict[str, float] = {}
        """When a sweep has vanished, by uid."""
        self.quiet = False
        """At rest: any write is a violation."""
        self.late = False
        """What is written now was given up by its client some time ago."""

    def fail(self, rule: str, message: str) -> None:
        trouble = Violation(f"{rule}: {message}")
        self.world.clock.fail(trouble)
        raise trouble

    # ------------------------------------------------------------------ writes of the operator

    def _written(self, verb: str, plural: str) -> None:
        (self.events if plural == EVENT.plural else self.writes).append((verb, plural))
        if self.quiet:
            self.fail("I6", f"{verb} {plural} at rest")

    def on_create(self, kind: Kind, body: Mapping[str, Any]) -> None:
        if kind is EVENT:
            self._written("create", kind.plural)
            self._event(body)
            return
        sweep = self.world.sweep()
        name = body["metadata"]["name"]
        self._written("create", kind.plural)
        if kind is RAY_JOB:
            uid = body["metadata"]["labels"][labels.SWEEP_UID]
            if sweep is None or sweep["metadata"]["uid"] != uid:
                # Of two operators one may not know yet what the other has ended, and a request that was given up may be carried
                # out when all is over: the garbage collector takes what has no owner.
                if not self.late and not self.world.faults.made["second-operator"]:
                    self.fail("I9", f"RayJob {name} is posted for a sweep that is gone")
                return
            if condition(sweep, "Finished")[0] == "True":
                self.fail("I4", f"RayJob {name} is posted for a terminal sweep")
            if FINALIZER not in (sweep["metadata"].get("finalizers") or ()):
                self.fail("write-ahead", "a RayJob before the finalizer")
            if f"{attempt_of(dict(body))}-{self.world.uid8()}" in self.world.store.started:
                self.fail("I2", f"RayJob {name} is posted again although its driver had started")
            attempts = (sweep.get("status") or {}).get("attempts", [])
            if not attempts or attempts[-1]["rayJob"] != name:
                self.fail("write-ahead", f"RayJob {name} is posted before it is recorded")
            owners = {o["kind"]: o["uid"] for o in body["metadata"]["ownerReferences"]}
            hold = self.world.server.find(HOLD, f"{name}-hold")
            if hold is not None and owners["TrainSweepHold"] != hold["metadata"]["uid"]:
                self.fail("write-ahead", "a RayJob that another hold owns")

        elif kind is HOLD:
            # Only the newest attempt's, but for a request that comes when others have gone on.
            recorded = [a["rayJob"] for a in ((sweep or {}).get("status") or {}).get("attempts", [])][-1:]
            made = self.world.faults.made
            known = self._recorded if made[LATE] or made["second-operator"] else recorded
            if name.removesuffix("-hold") not in known:
                self.fail("write-ahead", f"hold {name} is made before its attempt is recorded")

    def _event(self, body: Mapping[str, Any]) -> None:
        """Events come last: what they tell has happened."""
        sweep = self.world.sweep()
        if sweep is None or sweep["metadata"]["uid"] != body["involvedObject"]["uid"]:
            return
        if body["reason"] == "Starting":
            name = body["message"].split()[-1].rstrip(".")
            attempts = (sweep.get("status") or {}).get("attempts", [])
            if not any(a["rayJob"] == name for a in attempts):
                self.fail("events", f"{body['message']!r} is told before it is recorded")
            excused = self.world.faults.hit["create rayjobs", CONFLICT] or self.world.faults.made[LATE]
            if name not in self.jobs_made and not excused:
                self.fail("events", f"{body['message']!r} is told before it is done")

    def on_plan(self, observed: Observed, plan: Plan) -> None:
        """While an attempt is live a missing hold is made again."""
        attempt = observed.sweep.status.attempts[-1] if observed.sweep.status.attempts else None
        job = observed.ray_job
        if attempt is None or attempt.ended_at is not None or not isinstance(job, RayJobView) or job.deleting:
            return
        mine = attempt.ray_job_uid == job.uid and job.sweep_uid == observed.sweep.uid
        ends = plan.status is not None and plan.status.attempts[-1].ended_at is not None
        made = any(isinstance(a, (RepairHoldReference, EnsureHold)) for a in plan.actions)
        if mine and observed.hold is None and not ends and not made:
            self.fail("hold", f"the hold of {job.name} is gone, and nothing makes it again")

    def on_patch(self, kind: Kind, before: Object, body: Mapping[str, Any]) -> None:
        if kind is SWEEP:
            extra = set(body) - {"metadata"} or set(body["metadata"]) - {"uid", "resourceVersion", "finalizers"}
            if extra:
                self.fail("I7", f"the sweep's {extra} is patched")
            ours = {FINALIZER}
            if set(before["metadata"].get("finalizers") or ()) - ours != set(body["metadata"]["finalizers"]) - ours:
                self.fail("write-ahead", "a finalizer of somebody else is written over")
        sweep = self.world.sweep()
        whose = before["metadata"].get("labels", {}).get(labels.SWEEP_UID)
        if kind is RAY_JOB and sweep is not None and whose != sweep["metadata"]["uid"]:
            self.fail("I2", f"RayJob {before['metadata']['name']} of somebody else is patched")
        if kind is RAY_JOB and "spec" in body:
            spec = body["spec"]
            if set(spec) - {"ttlSecondsAfterFinished", "activeDeadlineSeconds"}:
                self.fail("I2", f"{set(spec)} of the RayJob is patched")
            lease = before["spec"].get("ttlSecondsAfterFinished", 0)
            if spec.get("ttlSecondsAfterFinished", lease) < lease:
                self._may_release(before, "its lease is cut")
        if kind is POD:
            self._verdict(body["metadata"]["annotations"][labels.CONTROL])
        if kind is RAY_CLUSTER:
            self.fail("I2", "a RayCluster is patched")

    def _verdict(self, text: str) -> None:
        control = Control.model_validate_json(text)
        if control.verdict is None:
            return
        told = (control.attempt_id, control.verdict.receipt_digest)
        if control.verdict.result == "Persisted" and told not in self.world.store.proofs:
            self.fail("verdict", f"the driver is told that {told} is proven, and no look has found it so")
        if control.verdict.result == "Missing" and told not in self.world.store.losses:
            self.fail("verdict", f"the driver is told that {told} is missing, and no look has found it so")

    def on_delete(self, kind: Kind, before: Object) -> None:
        if kind is RAY_JOB:
            self._may_release(before, "it is deleted")
        elif kind is HOLD:
            job = self.world.server.find(RAY_JOB, before["metadata"]["name"].removesuffix("-hold"))
            if job is not None and live(job):
                self._may_release(job, "its hold is deleted")
        elif kind is RAY_CLUSTER:
            self._left_behind(before)
        else:
            self.fail("I2", f"a {kind.kind} is deleted")

    def on_written(self, kind: Kind, verb: str, before: Object, after: Object | None) -> None:
        self._written(verb, kind.plural)
        # What a late write or a second process has done already, a pass that could not know of it does again.
        alone = not self.world.faults.made[LATE] and not self.world.faults.made["second-operator"]
        if after is before and verb != "delete" and alone:
            self.fail("I6", f"{verb} of {kind.plural} changes nothing")

    # ------------------------------------------------------------------ releases

    def _may_release(self, job: Object, how: str) -> None:
        sweep, meta = self.world.sweep(), job["metadata"]
        if self._orphaned(job):
            return
        if sweep is None or meta["labels"].get(labels.SWEEP_UID) != sweep["metadata"]["uid"]:
            self.fail("I2", f"RayJob {meta['name']}: {how}, and it is another sweep's")
            return
        status = sweep.get("status") or {}
        attempt = next((a for a in status.get("attempts", []) if a["rayJob"] == meta["name"]), None)
        if attempt is None or "releasedAt" not in attempt:
            self.fail("I2", f"RayJob {meta['name']}: {how}, and the status does not say so")
            return
        deleting = sweep["metadata"].get("deletionTimestamp")
        if "settledAt" not in attempt:
            asked = labels.FORCE_RELEASE in (sweep["metadata"].get("annotations") or {})
            over = deleting and self.world.now + self.world.skew >= (to_seconds(deleting) or 0) + self.world.grace()
            if not (attempt.get("reason") == "Forced" and deleting and (asked or over)):
                self.fail("I2", f"RayJob {meta['name']}: {how} without a settlement")
            return
        if self._had_nothing(attempt):
            return
        self._settled_truly(sweep, attempt, meta["name"], how)

    def _left_behind(self, cluster: Object) -> None:
        """A cluster that its RayJob left behind goes as that would have gone; any other is KubeRay's."""
        meta = cluster["metadata"]
        if meta.get("ownerReferences"):
            self.fail("I2", f"RayCluster {meta['name']} is deleted, and a RayJob owns it")
        name = rayjob_name(meta["labels"][labels.SWEEP_NAME], meta["labels"][labels.SWEEP_UID], attempt_of(cluster))
        self._may_release({"metadata": {**meta, "name": name}}, "the cluster that it left is deleted")

    def _orphaned(self, job: Object) -> bool:
        """Its sweep is gone and nobody will ever settle it: it has ended, or has run on for an hour."""
        gone = self.gone.get((job["metadata"].get("labels") or {}).get(labels.SWEEP_UID, ""))
        ended = (job.get("status") or {}).get("jobDeploymentStatus") in ("Complete", "Failed")
        return gone is not None and (ended or self.world.now >= gone + ORPHAN_SECONDS)

    def _had_nothing(self, attempt: Object) -> bool:
        """No driver of it had started, as far as the operator could see: there is nothing to settle."""
        sweep = self.world.sweep()
        if sweep is not None and sweep["metadata"].get("deletionTimestamp") and "readyAt" not in attempt:
            return True
        return f"{attempt['number']}-{self.world.uid8()}" not in self.world.store.started

    def _settled_truly(self, sweep: Object, attempt: Object, name: str, how: str) -> None:
        verified, reason = condition(sweep, "CheckpointsVerified")
        number = attempt["number"]
        if number != sweep["status"].get("attempt"):
            return
        own = f"{number}-{self.world.uid8()}"
        if verified == "True":
            digest = sweep["status"]["checkpoints"].get("receiptDigest", "")
            if (own, digest) not in self.world.store.proofs:
                self.fail("I2", f"RayJob {name}: {how}, verified, but no look has ever found it so")
        elif reason in UNSEEN:
            # Two processes may stand at either end of the skew.
            over = (to_seconds(attempt["endedAt"]) or 0.0) + self.world.max_hold() - 2 * self.world.skew
            if self.world.now < over:
                self.fail("I2", f"RayJob {name}: {how} with {reason} before the longest hold is over")
        elif reason not in HONEST_UNPROVEN:
            self.fail("I2", f"RayJob {name}: {how} with CheckpointsVerified={verified} {reason}")

    # ------------------------------------------------------------------ the world

    def on_change(self, plural: str, before: Object | None, after: Object | None) -> None:
        if plural == SWEEP.plural and after is not None:
            self._sweep(before, after)
        elif plural == SWEEP.plural and before is not None:
            self.gone[before["metadata"]["uid"]] = self.world.now
        elif plural == RAY_JOB.plural and before is None and after is not None:
            meta = after["metadata"]
            self.jobs_made.setdefault(meta["name"], set()).add(meta["uid"])
            self._one_alive(meta["labels"].get(labels.SWEEP_UID, ""))
        elif plural == POD.plural and before is None and after is not None:
            self._one_alive(after["metadata"]["labels"].get(labels.SWEEP_UID, ""))

    def _one_alive(self, uid: str) -> None:
        server = self.world.server
        numbers = {attempt_of(j) for j in server.selected(RAY_JOB, f"{labels.SWEEP_UID}={uid}") if live(j)}
        numbers |= {attempt_of(p) for p in server.selected(POD, f"{labels.SWEEP_UID}={uid}")}
        if len(numbers) > 1:
            self.fail("I1", f"attempts {sorted(numbers)} live at the same time")

    def _sweep(self, before: Object | None, after: Object) -> None:
        uid = after["metadata"]["uid"]
        status = after.get("status") or {}
        used = {name: r.get("used", 0) for name, r in (status.get("retries") or {}).items()}
        number = status.get("attempt", 0)
        self._recorded |= {a["rayJob"] for a in status.get("attempts", [])}
        if uid in self._counts:
            old_number, old_used = self._counts[uid]
            if number < old_number or any(used.get(k, 0) < v for k, v in old_used.items()):
                self.fail("I3", f"counters went back: {old_number} {old_used} -> {number} {used}")
            if number > old_number:
                self._new_attempt(after)
            if number > old_number + 1:
                self.fail("I3", f"attempt {number} follows {old_number}")
        for name, retry in (status.get("retries") or {}).items():
            if retry.get("used", 0) > retry.get("limit", 0):
                self.fail("I3", f"{name}: {retry}")
        suspensions = self._suspended(uid, status)
        if number > 1 + sum(used.values()) + suspensions:
            self.fail("I3", f"attempt {number} with {used} booked and {suspensions} suspensions")
        self._counts[uid] = (number, used)
        reasons = {c["type"] for c in status.get("conditions", ())}
        if {"Reconciling", "Stalled"} <= reasons:
            self.fail("API", "Reconciling and Stalled at the same time")
        self._adopted(after)
        self._deleted_truly(after)
        self._proof(before, after)
        newly = before is None or condition(before, "Suspended")[0] != "True"
        if condition(after, "Suspended")[0] == "True" and newly:
            held = [o for kind in (RAY_JOB, POD) for o in self.world.server.selected(kind, f"{labels.SWEEP_UID}={uid}")]
            if any(o["kind"] == POD.kind or live(o) for o in held):
                self.fail("suspend", "Suspended is said, and something still runs")
        if condition(after, "Finished")[0] == "True":
            said = condition(after, "Succeeded")
            if self._latched.setdefault(uid, said) != said:
                self.fail("I4", f"terminal {self._latched[uid]} became {said}")
            if before is not None and condition(before, "Finished")[0] != "True":
                self._finished(after, said)
        elif uid in self._latched:
            self.fail("I4", "Finished was True")

    def _new_attempt(self, sweep: Object) -> None:
        """What an attempt begins with."""
        if FINALIZER not in (sweep["metadata"].get("finalizers") or ()):
            self.fail("write-ahead", "an attempt is recorded before the finalizer")
        if sweep["status"]["attempts"][-1].get("stopReason"):
            self.fail("stop", f"a new attempt is told to stop: {sweep['status']['attempts'][-1]['stopReason']}")
        budget, used = (sweep["spec"].get("budget") or {}).get("cpuHours"), (sweep["status"].get("usage") or {})
        if budget is not None and used.get("cpuSeconds", 0) >= int(budget * 3600):
            self.fail("budget", f"a new attempt is recorded, and {used} of {budget} CPU-hours are used")
        due = to_seconds((sweep["spec"].get("deadlines") or {}).get("notAfter"))
        if due is not None and to_seconds(sweep["status"]["attempts"][-1]["startedAt"]) >= due:
            self.fail("deadlines", f"a new attempt is recorded after {to_text(due)}")

    def _adopted(self, sweep: Object) -> None:
        """Only what carries our label is ours."""
        uid = sweep["metadata"]["uid"]
        attempts = (sweep.get("status") or {}).get("attempts", [])
        seen = self.world.server.find(RAY_JOB, attempts[-1]["rayJob"]) if attempts else None
        if seen is None or attempts[-1].get("rayJobUID") != seen["metadata"]["uid"]:
            return
        if seen["metadata"]["labels"].get(labels.SWEEP_UID) != uid:
            self.fail("adopt", f"RayJob {attempts[-1]['rayJob']} of somebody else is taken for ours")

    def _deleted_truly(self, sweep: Object) -> None:
        """What could not be read is not told as deleted: it would cost a retry, and end a driver that trains."""
        attempts = (sweep.get("status") or {}).get("attempts", [])
        if not attempts or attempts[-1].get("reason") != Cause.RAY_JOB_DELETED or "settledAt" in attempts[-1]:
            return
        name, uid = attempts[-1]["rayJob"], attempts[-1].get("rayJobUID")
        seen = self.world.server.find(RAY_JOB, name)
        if seen is not None and seen["metadata"]["uid"] == uid:
            self.fail("unknown", f"RayJob {name} is called deleted, and is there")

    def _suspended(self, uid: str, status: Object) -> int:
        """How many attempts have ended by a suspension: each may be followed by one that costs nothing."""
        found = self._suspensions.setdefault(uid, set())
        found |= {a["number"] for a in status.get("attempts", []) if a.get("endClass") == "Suspended"}
        return len(found)

    def _proof(self, before: Object | None, after: Object) -> None:
        """What is said to be proven was proven, and a proof is never unsaid."""
        status = after.get("status") or {}
        own = f"{status.get('attempt', 0)}-{self.world.uid8()}"
        digest = (status.get("checkpoints") or {}).get("receiptDigest", "")
        said = condition(after, "CheckpointsVerified")
        if said[0] == "True" and self.world.uid8() and (own, digest) not in self.world.store.proofs:
            self.fail("proof", f"{own} {digest} is called {said[1]}, and no look has found it so")
        old = (before or {}).get("status") or {}
        same = old.get("attempt") == status.get("attempt")
        if same and before is not None and condition(before, "CheckpointsVerified")[0] == "True" and said[0] != "True":
            self.fail("proof", f"{own} was proven and is now {said}")

    def _finished(self, sweep: Object, said: tuple[str, str]) -> None:
        self.world.last_word = said[1]
        status = sweep["status"]
        if said[1] == "RetriesExhausted":
            counter = status["retries"].get(status["attempts"][-1].get("endClass", "").lower())
            if counter is not None and counter["used"] < counter["limit"]:
                self.fail("I3", f"{said[1]} with {counter}")
        if said[0] != "True":
            return
        own = f"{sweep['status']['attempt']}-{self.world.uid8()}"
        said_by = (self.world.store.receipts.get(own), self.world.store.ends.get(own))
        if not any(d is not None and d.outcome in (Outcome.COMPLETED, Outcome.GOAL_REACHED) for d in said_by):
            self.fail("success", f"{said[1]} without a driver that says so")
        if said[1] != "CompletedUnverified" and not any(a == own for a, _ in self.world.store.proofs):
            self.fail("success", f"{said[1]} without a look that found everything")
