"""A RayJob that was deleted with `--cascade=orphan`: its cluster is stopped, settled, proven, and deleted by us."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.core.core_builders import DIGEST, NOW, Stage, control_of, events, head, kinds, only, spec
from trainsweep.api.conditions import Condition
from trainsweep.contract.documents import Control, Outcome, Phase
from trainsweep.core import model
from trainsweep.core.model import ClusterView, PodView, Proof, RayJobView, Unreadable
from trainsweep.core.running import SILENT_SECONDS

PATIENCE = 10 + 100 + 60
"""Grace, verdict time-out and margin of the base spec."""


def left(stage: Stage | None = None) -> Stage:
    """A driver trains on in a cluster that its RayJob left behind."""
    return (stage or Stage()).running().reporting().orphaned()


def head_of(stage: Stage) -> PodView:
    assert isinstance(stage.pods, tuple)
    return stage.pods[0]


def told(stage: Stage, control: Control) -> None:
    stage.pods = (replace(head_of(stage), control=control),)


def gone(stage: Stage) -> None:
    stage.orphans, stage.cluster, stage.pods = (), None, ()


def test_a_driver_that_lives_on_is_asked_to_stop_and_nothing_is_torn_down() -> None:
    stage = left()
    plan = stage.decide(5)
    control = control_of(plan)
    assert control.stop is not None
    assert control.stop.reason == "RayJobDeleted"
    assert stage.attempt.stop_reason == "RayJobDeleted"
    assert stage.attempt.ended_at is None
    assert stage.state == "Unknown/Stopping"
    assert events(plan) == ["Stopping"]
    assert kinds(plan) == ["WriteStatus", "PatchControl"]
    told(stage, control)
    assert kinds(stage.reporting(Phase.STOPPING).decide(5)) == []


def test_it_gets_its_verdict_ends_is_settled_by_its_receipt_and_only_then_its_cluster_goes() -> None:
    stage = left()
    told(stage, control_of(stage.decide(5)))
    plan = stage.waiting().decide(5)
    assert only(plan, model.Settle) == [model.Settle(stage.own, DIGEST)]
    plan = stage.looked(outcome=Outcome.STOPPED).decide(5)
    verdict = control_of(plan).verdict
    assert verdict is not None
    assert verdict.result == "Persisted"
    assert stage.attempt.ended_at is None
    told(stage, control_of(plan))
    assert not only(stage.decide(5), model.DeleteRayCluster)
    stage.reporting(Phase.ENDED, receipt_digest=DIGEST)
    stage.decide(5)
    assert (stage.attempt.reason, stage.attempt.settled_at) == ("RayJobDeleted", None)
    assert "left" in stage.attempt.message
    plan = stage.decide(5)
    assert stage.attempt.end_class == "Eviction"
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "True"
    assert only(plan, model.DeleteRayCluster) == [model.DeleteRayCluster(stage.orphans[0].name, "cluster-1")]
    assert kinds(plan).index("WriteStatus") < kinds(plan).index("DeleteRayCluster")


def test_no_further_attempt_while_the_cluster_is_there() -> None:
    stage = left()
    stage.reporting(Phase.ENDED)
    stage.decide(5)
    stage.settled()
    stage.hold, stage.pods = None, ()
    for _ in range(5):
        plan = stage.decide(100)
        assert only(plan, model.DeleteRayCluster)
        assert not only(plan, model.CreateRayJob)
    gone(stage)
    stage.decide(5)
    assert stage.attempt.gone_at is not None
    assert only(stage.decide(100), model.CreateRayJob)
    assert stage.status.attempt == 2


def test_a_training_that_was_complete_and_proven_is_a_success_whoever_deleted_its_ray_job() -> None:
    stage = left()
    stage.reporting(Phase.ENDED)
    stage.decide(5)
    stage.settled(digest=DIGEST, outcome=Outcome.COMPLETED)
    assert stage.state == "True/Completed"
    assert only(stage.decide(5), model.DeleteRayCluster)


def test_a_silent_driver_is_given_a_minute_an_unreadable_store_the_patience_of_a_stop() -> None:
    silent, blind = left(), left()
    blind.progress = Unreadable("503")
    for stage in (silent, blind):
        stage.decide(5)
    silent.decide(SILENT_SECONDS - 1)
    assert silent.attempt.ended_at is None
    silent.decide(2)
    assert silent.attempt.ended_at is not None
    blind.decide(PATIENCE - 1)
    assert blind.attempt.ended_at is None
    blind.decide(2)
    assert blind.attempt.ended_at is not None


def test_a_driver_that_does_not_obey_holds_nothing_up_for_ever() -> None:
    stage = left()
    for _ in range(PATIENCE // 10):
        stage.reporting().decide(10)
    assert stage.attempt.ended_at is None
    stage.reporting().decide(15)
    assert stage.attempt.ended_at is not None


def test_an_unsettled_cluster_stays_until_the_longest_hold_is_over() -> None:
    stage = left()
    stage.reporting(Phase.ENDED)
    stage.decide(5)
    stage.looked(Proof.UNKNOWN, "")
    for _ in range(11):
        assert not only(stage.decide(50), model.DeleteRayCluster)
    stage.decide(60)
    assert stage.attempt.settled_at is not None
    assert only(stage.decide(5), model.DeleteRayCluster)


@pytest.mark.parametrize("what", ["pods", "cluster"])
def test_unknown_is_not_missing(what: str) -> None:
    stage = left()
    setattr(stage, what, Unreadable("503"))
    if what == "cluster":
        stage.orphans = ()
    stage.decide(5)
    assert (stage.attempt.ended_at, stage.attempt.stop_reason) == (None, "")


def test_an_unreadable_list_of_clusters_does_not_say_that_none_is_left() -> None:
    stage = left()
    stage.reporting(Phase.ENDED)
    stage.decide(5)
    stage.settled()
    gone(stage)
    stage.hold, stage.cluster = None, Unreadable("503")
    stage.decide(5)
    assert stage.attempt.gone_at is None


def test_a_cluster_that_the_garbage_collector_has_yet_to_find_is_waited_for_and_left_to_it() -> None:
    stage = Stage().running()
    stage.job = None
    stage.decide(5)
    assert stage.attempt.reason == "RayJobDeleted"
    stage.settled()
    stage.hold, stage.pods = None, ()
    plan = stage.decide(5)
    assert not only(plan, model.DeleteRayCluster)
    assert stage.attempt.gone_at is None
    assert isinstance(stage.cluster, ClusterView)
    stage.cluster = replace(stage.cluster, deleting=True)
    stage.decide(5)
    assert stage.attempt.gone_at is not None


def test_a_cluster_without_a_pod_yet_proves_that_the_ray_job_was_there() -> None:
    stage = Stage()
    stage.decide()
    stage.cluster = ClusterView("digits-x-a1-abcde", uid="cluster-1", orphan=True)
    stage.orphans = (stage.cluster,)
    assert not only(stage.decide(5), model.CreateRayJob)
    assert stage.attempt.reason == "RayJobDeleted"


@pytest.mark.parametrize("what", ["pods", "cluster"])
def test_nothing_is_posted_again_before_it_is_known_what_is_there(what: str) -> None:
    stage = Stage()
    stage.decide()
    setattr(stage, what, Unreadable("503"))
    assert not only(stage.decide(5), model.CreateRayJob)
    setattr(stage, what, () if what == "pods" else None)
    assert only(stage.decide(5), model.CreateRayJob)


def test_a_driver_that_was_asked_before_keeps_the_first_reason() -> None:
    stage = Stage().running().reporting()
    stage.spec = spec(suspend=True)
    told(stage, control_of(stage.decide(5)))
    stage.orphaned().reporting(Phase.STOPPING).decide(5)
    assert stage.attempt.stop_reason == "Suspended"
    stage.reporting(Phase.ENDED).decide(5)
    stage.settled(outcome=Outcome.STOPPED)
    assert stage.attempt.end_class == "Suspended"


def test_a_cluster_that_no_driver_ever_reached_is_not_waited_for() -> None:
    stage = Stage().launched()
    stage.pods = (head(phase="Pending"),)
    stage.cluster = ClusterView("c", uid="cluster-1", orphan=True)
    stage.decide(5)
    stage.orphaned().decide(5)
    assert stage.attempt.ended_at is not None
    assert stage.attempt.stop_reason == ""


def test_deleting_the_sweep_stops_settles_and_takes_the_cluster_along() -> None:
    stage = left()
    stage.deleted_at = stage.now
    stage.reporting()
    control = control_of(stage.decide(5))
    assert control.stop is not None
    assert control.stop.reason == "Deleted"
    told(stage, control)
    stage.reporting(Phase.ENDED)
    stage.decide(5)
    assert stage.attempt.settled_at is None
    plan = stage.settled()
    assert only(plan, model.DeleteRayCluster)
    stage.hold = None
    assert not only(stage.decide(5), model.RemoveFinalizer)
    gone(stage)
    assert only(stage.decide(5), model.RemoveFinalizer)


def test_a_ray_job_of_somebody_else_under_the_name_changes_nothing() -> None:
    """Its name is free again once it is gone: who takes it says nothing of ours, and is not touched."""
    job = Stage().launched().job
    assert isinstance(job, RayJobView)
    other = replace(job, uid="theirs", sweep_uid="", deployment_status="Failed", ended_at=NOW, ttl_seconds=0)
    stage = left()
    stage.job = other
    stage.decide(5)
    assert (stage.attempt.stop_reason, stage.attempt.ended_at) == ("RayJobDeleted", None)
    stage.reporting(Phase.ENDED).decide(5)
    assert stage.attempt.reason == "RayJobDeleted"
    assert kinds(stage.decide(5)) == ["Settle"]  # no lease of theirs is extended
    plan = stage.settled()
    assert only(plan, model.DeleteRayCluster)
    assert not only(plan, model.DeleteRayJob)
    assert not only(plan, model.PatchRayJob)
    gone(stage)
    stage.hold = None
    stage.decide(5)
    assert stage.attempt.gone_at is not None
    assert only(stage.decide(100), model.CreateRayJob)[0].body["metadata"]["name"].endswith("-a2")


def test_its_deletion_settles_too_when_the_name_is_taken() -> None:
    stage = left()
    stage.job = replace(Stage().launched().job, uid="theirs", sweep_uid="")  # type: ignore[type-var]  # a RayJobView: it was launched
    stage.deleted_at = stage.now
    plan = stage.decide(5)
    assert stage.attempt.settled_at is None
    assert not only(plan, model.DeleteRayCluster)


def test_a_forced_release_takes_it_at_once() -> None:
    stage = left()
    stage.deleted_at, stage.annotations = stage.now, {"trainsweep.io/force-release": "yes"}
    assert only(stage.decide(1), model.DeleteRayCluster)


def test_a_ray_job_deleted_after_the_settlement_leaves_nothing_behind() -> None:
    stage = Stage().running().ended("Complete", "SUCCEEDED", outcome=Outcome.COMPLETED)
    stage.settled(digest=DIGEST, outcome=Outcome.COMPLETED)
    assert stage.state == "True/Completed"
    stage.orphaned()
    stage.hold = None
    assert only(stage.decide(5), model.DeleteRayCluster)
    gone(stage)
    assert kinds(stage.decide(5))[-1] == "RemoveFinalizer"
    assert stage.condition(Condition.RELEASED).status == "True"


def test_the_verdict_of_before_is_kept_in_the_stop() -> None:
    """A driver that has its verdict and is asked to stop meanwhile must not lose it."""
    stage = left().waiting()
    stage.looked(outcome=Outcome.COMPLETED)
    control = control_of(stage.decide(5))
    assert control.stop is not None
    assert control.verdict is not None
