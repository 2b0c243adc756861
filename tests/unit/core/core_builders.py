"""Builders for the tests of decide(): a stage that holds what a pass sees, and takes over what the pass writes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from trainsweep.api.conditions import Condition
from trainsweep.api.resolve import merge
from trainsweep.api.status import AttemptStatus, ConditionStatus, TrainSweepStatus
from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.contract.documents import (
    Best,
    Control,
    End,
    FailureReason,
    MissingFile,
    Outcome,
    Phase,
    Progress,
    TrialCounts,
)
from trainsweep.contract.layout import attempt_id
from trainsweep.core import model
from trainsweep.core.decide import decide
from trainsweep.core.model import (
    FINALIZER,
    ClassView,
    ClusterView,
    HoldView,
    InLine,
    Observed,
    Plan,
    PodView,
    Proof,
    RayJobView,
    Settlement,
    StoreView,
    SweepView,
    Unreadable,
)
from trainsweep.core.pending.situation import Situation
from trainsweep.render.rayjob import hold_name, rayjob_name

NOW = 1_750_000_000.0
UID = "0b0e6c1e-8a53-4f4e-9a43-0d2f6f1f5a11"
DIGEST = "d" * 64
OTHER_DIGEST = "e" * 64
BASE: dict[str, Any] = {
    "objective": {"metric": "val_loss", "mode": "Minimize"},
    "search": {
        "algorithm": {"random": {"seed": 7}},
        "parameters": [{"name": "lr", "float": {"min": 1e-5, "max": 0.1, "log": True}}],
    },
    "trials": {"count": 4, "maxConcurrent": 2},
    "training": {
        "entrypoint": "train:loop",
        "image": "registry.example/train:1",
        "workers": {"count": 1, "resources": {"cpu": 1, "memory": "1Gi"}},
    },
    "storage": {"uri": "s3://bucket/team"},
    "checkpoints": {"verify": {"timeoutSeconds": 100}},
    "cleanup": {"holdSeconds": 200, "maxHoldSeconds": 600, "deletionGraceSeconds": 300, "stopGraceSeconds": 10},
    "deadlines": {"startupSeconds": 1000},
    "failurePolicy": {"backoff": {"initialSeconds": 10, "maxSeconds": 60}},
}
A = TypeVar("A")


def spec(**changes: Any) -> dict[str, Any]:
    """A valid spec with some top-level fields merged in."""
    return merge(BASE, changes)


def klass(**changes: Any) -> ClassView:
    """A class that allows the base spec's storage."""
    allowed = {"storage": {"allowedPrefixes": ["s3://bucket"]}}
    return ClassView("default", "class-uid", 1, TrainSweepClassSpec.model_validate(merge(allowed, changes)))


@dataclass
class Stage:
    """What a pass sees. `decide()` makes the pass and takes over the status and the finalizer that it wants."""

    spec: dict[str, Any] = field(default_factory=spec)
    now: float = NOW
    status: TrainSweepStatus = field(default_factory=TrainSweepStatus)
    finalizers: tuple[str, ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)
    deleted_at: float | None = None
    sweep_class: ClassView | None = field(default_factory=klass)
    class_error: str = ""
    job: RayJobView | Unreadable | None = None
    cluster: ClusterView | Unreadable | None = None
    orphans: tuple[ClusterView, ...] = ()
    pods: tuple[PodView, ...] | Unreadable | None = ()
    hold: HoldView | Unreadable | None = None
    progress: Progress | Unreadable | None = None
    end: End | Unreadable | None = None
    settlement: Settlement | None = None
    settling: bool = False
    started: bool = False
    refusal: str = ""
    situation: Situation | None = None
    line: tuple[InLine, ...] | Unreadable | None = ()
    written_at: float | None = None
    generation: int = 1

    def observed(self) -> Observed:
        """The observation as it stands."""
        return Observed(
            sweep=SweepView(
                namespace="team",
                name="digits",
                uid=UID,
                generation=self.generation,
                resource_version="1",
                spec=self.spec,
                status=self.status,
                annotations=self.annotations,
                finalizers=self.finalizers,
                deletion_requested_at=self.deleted_at,
            ),
            sweep_class=self.sweep_class,
            class_error=self.class_error,
            ray_job=self.job,
            cluster=self.cluster,
            orphans=self.orphans,
            pods=self.pods,
            hold=self.hold,
            store=StoreView(self.progress, self.end, self.settlement, self.settling, started=self.started),
            situation=self.situation or Situation(self.now, self.status, self.refusal),
            line=self.line,
            refusal=self.refusal,
            last_status_write=self.written_at,
        )

    def decide(self, after: float = 0.0) -> Plan:
        """Makes a pass `after` seconds later."""
        self.now += after
        plan = decide(self.observed(), self.now)
        goes_on = plan.wake_at is None or plan.wake_at >= self.now or plan.status is not None
        assert goes_on, "a pass that changes nothing asks for the next one at once, and for ever"
        if plan.status is not None:
            self.status, self.written_at = plan.status, self.now
        if only(plan, model.AddFinalizer, most=1):
            self.finalizers = (*self.finalizers, FINALIZER)
        if only(plan, model.RemoveFinalizer, most=1):
            self.finalizers = tuple(f for f in self.finalizers if f != FINALIZER)
        return plan

    @property
    def attempt(self) -> AttemptStatus:
        """The newest attempt."""
        return self.status.attempts[-1]

    @property
    def own(self) -> str:
        """Id of the newest attempt."""
        return attempt_id(self.attempt.number, UID)

    def condition(self, kind: Condition) -> ConditionStatus:
        """A condition that must be there."""
        return next(c for c in self.status.conditions if c.type == kind)

    def has(self, kind: Condition) -> bool:
        """Whether a condition is there."""
        return any(c.type == kind for c in self.status.conditions)

    @property
    def state(self) -> str:
        """Status and reason of Succeeded, such as Unknown/Running."""
        found = self.condition(Condition.SUCCEEDED)
        return f"{found.status}/{found.reason}"

    # ------------------------------------------------------------------ what the world does

    def launched(self) -> Stage:
        """Launches the next attempt; the world then has its hold and its RayJob."""
        self.decide()
        name = rayjob_name("digits", UID, self.attempt.number)
        self.hold = HoldView(hold_name(name), f"hold-{self.attempt.number}")
        self.job = RayJobView(
            name=name,
            uid=f"job-{self.attempt.number}",
            sweep_uid=UID,
            digest=self.attempt.spec_digest,
            deployment_status="Initializing",
            cluster=f"{name}-abcde",
            ttl_seconds=200,
            has_hold_owner=True,
        )
        self.cluster, self.pods, self.progress, self.end, self.settlement = None, (), None, None, None
        return self

    def running(self) -> Stage:
        """Launched, and its head is ready."""
        self.launched()
        assert isinstance(self.job, RayJobView)
        self.job = replace(self.job, deployment_status="Running", job_status="RUNNING")
        self.cluster = ClusterView(name=self.job.cluster, state="ready", head_ready=True, provisioned=True)
        self.pods = (head(),)
        self.decide(10)
        return self

    def reporting(self, phase: Phase = Phase.RUNNING, **changes: Any) -> Stage:
        """Running, with a heartbeat of this attempt."""
        if not self.status.attempts:
            self.running()
        self.progress = progress(self.own, phase, self.now, **changes)
        return self

    def waiting(self, digest: str = DIGEST) -> Stage:
        """The driver waits for the verdict on a receipt."""
        return self.reporting(Phase.WAITING_FOR_VERDICT, receipt_digest=digest)

    def looked(self, proof: Proof = Proof.PERSISTED, digest: str = DIGEST, **changes: Any) -> Stage:
        """A look has come back."""
        self.settlement = settlement(self.own, proof, digest, self.now, **changes)
        return self

    def job_is(self, deployment: str, job: str = "", **changes: Any) -> Stage:
        """KubeRay says this of the RayJob."""
        assert isinstance(self.job, RayJobView)
        ended = self.now if deployment in ("Complete", "Failed") else None
        self.job = replace(self.job, deployment_status=deployment, job_status=job, ended_at=ended, **changes)
        return self

    def head_is_lost(self) -> Stage:
        """The head pod is gone; only the RayCluster shows it."""
        assert isinstance(self.cluster, ClusterView)
        self.cluster, self.pods = replace(self.cluster, head_ready=False, head_reason="HeadPodNotFound"), ()
        return self

    def orphaned(self) -> Stage:
        """Somebody deleted the RayJob with `--cascade=orphan`: its cluster stays, and with it the pods."""
        assert isinstance(self.cluster, ClusterView)
        self.job, self.cluster = None, replace(self.cluster, uid="cluster-1", orphan=True)
        self.orphans = (self.cluster,)
        return self

    def ended(self, deployment: str = "Failed", job: str = "FAILED", **end: Any) -> Stage:
        """Ran, and ended so; the driver left `end.json`, if anything of it is given."""
        if not self.status.attempts:
            self.running()
        self.job_is(deployment, job)
        self.end = last_word(self.own, **end) if end else None
        return self

    def settled(self, proof: Proof = Proof.PERSISTED, digest: str = "", **changes: Any) -> Plan:
        """The end is seen, the look comes back, and is taken; the plan that took it."""
        self.decide()
        self.now += 1
        self.looked(proof, digest, **changes)
        return self.decide()

    def without_its_first(self) -> Stage:
        """The first attempt ran, reported and lost its head; it is gone, and the second one may start."""
        self.running().reporting().decide(20)
        self.head_is_lost().settled()
        self.torn_down()
        self.now += 40
        return self

    def torn_down(self) -> Stage:
        """What the release asked for has happened; passes until the attempt is gone."""
        plan = self.decide(3)
        if only(plan, model.DeleteRayJob, most=1) or not isinstance(self.job, RayJobView):
            self.job = None
        else:
            self.job = replace(self.job, ttl_seconds=0)
        self.pods, self.cluster, self.hold = (), None, None
        self.decide(3)
        return self


def only(plan: Plan, kind: type[A], most: int = 99) -> list[A]:
    """The actions of a kind, at most so many."""
    found = [a for a in plan.actions if isinstance(a, kind)]
    assert len(found) <= most, found
    return found


def kinds(plan: Plan) -> list[str]:
    """Names of the actions, in order, Events left out."""
    return [type(a).__name__ for a in plan.actions if not isinstance(a, model.EmitEvent)]


def events(plan: Plan) -> list[str]:
    """Reasons of the Events."""
    return [a.reason for a in only(plan, model.EmitEvent)]


def head(**changes: Any) -> PodView:
    """A running head pod."""
    fields: dict[str, Any] = {"name": "head", "uid": "head-uid", "head": True, "phase": "Running", "ready": True}
    return PodView(**(fields | changes))


def progress(attempt: str, phase: Phase, at: float, **changes: Any) -> Progress:
    """A heartbeat."""
    fields: dict[str, Any] = {
        "attempt_id": attempt,
        "phase": phase,
        "heartbeat_at": at,
        "first_report_at": at,
        "trials": TrialCounts(expected=4, succeeded=1, running=2, pending=1),
        "best": Best(trial="t0", value=0.5, step=3, parameters={"lr": 0.01}, checkpoint="train/t0-x/checkpoint_000003"),
    }
    return Progress(**(fields | changes))


def settlement(attempt: str, proof: Proof, digest: str, at: float, **changes: Any) -> Settlement:
    """A look's result: of a receipt where it has a digest, else an inventory."""
    fields: dict[str, Any] = {
        "source": "Receipt" if digest else "Inventory",
        "required": 1,
        "verified": 1 if proof is Proof.PERSISTED else 0,
        "files": 3,
        "bytes": 3000,
        "outcome": Outcome.COMPLETED if digest else None,
        "receipt_uri": f"s3://bucket/team/team/digits/v1-x/attempts/{attempt}/receipt.json" if digest else "",
        "missing": (missing(),) if proof is Proof.MISSING else (),
        "message": "" if proof is Proof.PERSISTED else f"it is {proof}",
        "made_at": at,
    }
    return Settlement(attempt_id=attempt, digest=digest, proof=proof, **(fields | changes))


def missing() -> MissingFile:
    """A missing file."""
    return MissingFile(trial="t0", checkpoint="train/t0-x/checkpoint_000003", file="model.pt", problem="Absent")


def last_word(attempt: str, outcome: Outcome = Outcome.FAILED, reason: FailureReason | str = "", **more: Any) -> End:
    """`end.json`."""
    return End(attempt_id=attempt, outcome=outcome, reason=str(reason), ended_at=NOW, **more)


def control_of(plan: Plan) -> Control:
    """The control document that a plan writes."""
    return only(plan, model.PatchControl)[0].control


def pod_body(name: str, *, head: bool = False, unscheduled: str = "", **status: Any) -> dict[str, Any]:
    """A pending pod as the API server gives it; `unscheduled` is the scheduler's message."""
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": unscheduled}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"ray.io/node-type": "head" if head else "worker"}},
        "status": {"phase": "Pending", **({"conditions": [scheduled]} if unscheduled else {}), **status},
    }
