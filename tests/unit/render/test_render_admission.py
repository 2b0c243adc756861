"""A sweep against its class: each refusal with reason and path, and the neighbour that is admitted."""

import pytest

from tests.unit.render.render_builders import GPU_TRAINING, klass, raw, render_input
from trainsweep.api.conditions import Reason
from trainsweep.api.resolve import merge
from trainsweep.render.admission import check_class


def problems(spec, sweep_class, namespace="team-a"):
    resolved = render_input(spec, sweep_class).spec
    return {p.path: p.reason for p in check_class(resolved, spec, sweep_class, namespace)}


def head_group(**more):
    return {"cluster": {"head": more}}


TOO_MUCH = {
    "trials": (raw(trials={"count": 5}), {"limits": {"trials": 4}}, "spec.trials.count"),
    "concurrency": (raw(trials={"maxConcurrent": 2}), {"limits": {"maxConcurrent": 1}}, "spec.trials.maxConcurrent"),
    "total time": (
        raw(deadlines={"startupSeconds": 60, "totalSeconds": 7201}),
        {"limits": {"totalSeconds": 7200}},
        "spec.deadlines.totalSeconds",
    ),
    "GPUs for one trial": (raw(**GPU_TRAINING), {"limits": {"gpus": 1}}, "spec.training.workers.count"),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_ceiling(name):
    spec, limits, path = TOO_MUCH[name]
    assert problems(spec, klass(**limits)) == {path: Reason.LIMIT_EXCEEDED}
    assert problems(spec, klass()) == {}


@pytest.mark.parametrize(
    ("field", "spec", "lists"),
    [
        ("spec.storage.serviceAccountName", raw(storage={"serviceAccountName": "admin"}), "serviceAccounts"),
        ("spec.scheduling.queueName", raw(scheduling={"queueName": "other"}), "queues"),
        ("spec.scheduling.priorityClassName", raw(scheduling={"priorityClassName": "top"}), "priorityClasses"),
        ("spec.cluster.head.nodeSelector.pool", raw(**head_group(nodeSelector={"pool": "x"})), "nodeSelectorKeys"),
        ("spec.training.image", raw(training={"image": "evil.example/x"}), "images"),
    ],
)
def test_names_that_a_class_does_not_allow(field, spec, lists):
    value = "registry.example/" if lists == "images" else "fine"
    assert problems(spec, klass(allowed={lists: [value]})) == {field: Reason.NOT_ALLOWED}
    assert problems(spec, klass()) == {}, "an absent list allows all"


def test_an_empty_list_allows_none_and_a_class_default_needs_no_permission():
    sweep_class = klass(allowed={"serviceAccounts": []}, defaults={"storage": {"serviceAccountName": "trainer"}})
    assert problems(raw(), sweep_class) == {}
    assert "spec.storage.serviceAccountName" in problems(raw(storage={"serviceAccountName": "x"}), sweep_class)


@pytest.mark.parametrize(
    ("image", "fine"),
    [
        ("reg.example/team/x:1", True),
        ("reg.example/team@sha256:0", True),
        ("reg.example/team:1", True),
        ("reg.example/team-evil/x", False),
        ("reg.example/teamx", False),
        ("reg.example", False),
    ],
)
def test_image_prefixes_end_at_a_boundary(image, fine):
    found = problems(raw(training={"image": image}), klass(allowed={"images": ["reg.example/team"]}))
    assert (found == {}) is fine


def test_images_of_sidecars_count_too():
    template = {"spec": {"containers": [{"name": "side", "image": "evil/x"}]}}
    spec = raw(**head_group(podTemplate=template))
    found = problems(spec, klass(allowed={"images": ["registry.example/"]}))
    assert found == {"spec.cluster.head.podTemplate.spec.containers[0].image": Reason.NOT_ALLOWED}


def test_an_affinity_is_a_node_selector_too():
    term = {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    spec = raw(**head_group(podTemplate={"spec": {"affinity": affinity}}))
    found = problems(spec, klass(allowed={"nodeSelectorKeys": ["zone"]}))
    assert found == {"spec.cluster.head.podTemplate.spec.affinity.nodeAffinity": Reason.NOT_ALLOWED}
    assert problems(spec, klass(allowed={"nodeSelectorKeys": ["pool"]})) == {}


@pytest.mark.parametrize(
    ("uri", "fine"),
    [
        ("s3://bucket/team-a", True),
        ("s3://bucket/team-a/", True),
        ("s3://bucket/team-a/deep/er", True),
        ("s3://bucket/team-b", False),
        ("s3://bucket/team-a-evil", False),
        ("s3://bucket/team", False),
        ("s3://bucket", False),
        ("s3://bucket2/team-a", False),
        ("s3://bucket/team-b/../team-a", False),
        ("s3://bucket/team-a/../team-b", False),
    ],
)
def test_prefixes_are_compared_segment_by_segment(uri, fine):
    sweep_class = klass(storage={"allowedPrefixes": ["s3://bucket/{namespace}"]})
    found = problems(raw(storage={"uri": uri}), sweep_class)
    assert (found == {}) is fine
    assert set(found) <= {"spec.storage.uri"}


@pytest.mark.parametrize(
    ("uri", "fine"),
    [
        ("s3://bucket/team-a/ns/name/v1-0123456789abcdef", True),
        ("s3://bucket/team-b/ns/name/v1-0123456789abcdef", False),
        ("s3://bucket/team-a/../team-b/x", False),
        ("s3://bucket/team-a-evil/x", False),
        ("file:///etc/passwd", False),
    ],
)
def test_a_warm_start_reads_only_below_the_prefixes(uri, fine):
    sweep_class = klass(storage={"allowedPrefixes": ["s3://bucket/{namespace}"]})
    spec = raw(storage={"uri": "s3://bucket/team-a"})
    spec["search"] = {**spec["search"], "algorithm": {"tpe": {}}, "warmStart": {"runURI": uri}}
    found = problems(spec, sweep_class)
    assert set(found) == (set() if fine else {"spec.search.warmStart.runURI"})
    assert set(found.values()) <= {Reason.STORAGE_NOT_ALLOWED, Reason.INVALID_SPEC}


def test_without_a_class_no_storage_is_allowed():
    assert problems(raw(), None) == {"spec.storage.uri": Reason.STORAGE_NOT_ALLOWED}


def test_a_class_default_must_lie_in_the_prefixes_too():
    spec = raw()
    del spec["storage"]
    assert problems(spec, klass(defaults={"storage": {"uri": "s3://elsewhere/x"}})) == {
        "spec.storage.uri": Reason.STORAGE_NOT_ALLOWED
    }


def test_endpoints_come_only_from_the_class():
    spec = raw(storage={"endpointURL": "http://evil:1"})
    assert problems(spec, klass()) == {"spec.storage.endpointURL": Reason.STORAGE_NOT_ALLOWED}
    assert problems(spec, klass(storage={"endpoints": ["http://evil:1/"]})) == {}
    assert problems(raw(), klass(defaults={"storage": {"endpointURL": "http://s3:1"}})) == {}


def test_a_sweep_may_not_starve_its_head_but_a_class_may():
    spec = raw(**head_group(resources={"cpu": 1, "memory": "1Gi"}))
    assert problems(spec, klass()) == {"spec.cluster.head.resources.memory": Reason.INVALID_SPEC}
    defaults = {"cluster": {"head": {"resources": {"cpu": 1, "memory": "1Gi"}}}}
    assert problems(raw(), klass(defaults=defaults)) == {}
    assert problems(raw(**head_group(resources={"memory": "5600M"})), klass()) == {}


def test_no_image_anywhere():
    spec = raw()
    del spec["training"]["image"]
    assert problems(spec, klass()) == {"spec.training.image": Reason.INVALID_SPEC}
    assert problems(spec, klass(defaults={"training": {"image": "x"}})) == {}


def test_a_pod_that_holds_no_worker_is_refused_before_any_cluster():
    group = {"name": "small", "resources": {"cpu": 2, "memory": "4Gi", "nvidia.com/gpu": 0}}
    found = problems(merge(raw(**GPU_TRAINING), {"cluster": {"workerGroups": [group]}}), klass())
    assert found == {"spec.cluster.workerGroups[0].resources": Reason.INVALID_SPEC}


@pytest.mark.parametrize(
    ("uri", "allowed"),
    [("s3://bucket/team/code.zip", True), ("s3://bucket/teamwork/code.zip", False), ("s3://other/code.zip", False)],
)
def test_code_comes_from_where_the_class_lets_pods_read(uri, allowed):
    sweep_class = klass(storage={"allowedPrefixes": ["s3://bucket/team"]})
    spec = raw(training={"source": {"s3": {"uri": uri, "sha256": "0" * 64}}})
    found = problems(spec, sweep_class)
    assert found == ({} if allowed else {"spec.training.source.s3.uri": Reason.STORAGE_NOT_ALLOWED})
