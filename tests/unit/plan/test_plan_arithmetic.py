"""The numbers of a plan, and what it says about them."""

import copy

import pytest

from trainsweep.api.resolve import merge, resolve
from trainsweep.plan.plan import plan
from trainsweep.plan.space import reach

BASE = {
    "objective": {"metric": "loss", "mode": "Minimize"},
    "search": {"algorithm": {"random": {}}, "parameters": [{"name": "lr", "float": {"min": 0.1, "max": 1.0}}]},
    "trials": {"count": 8, "maxConcurrent": 4},
    "training": {"entrypoint": "a:b", "workers": {"count": 2, "resources": {"cpu": 2, "nvidia.com/gpu": 1}}},
}


def planned(gpu_limit=None, **changes):
    return plan(resolve(merge(copy.deepcopy(BASE), changes), None), gpu_limit=gpu_limit)


def workers(count, **resources):
    return {"training": {"workers": {"count": count, "resources": resources}}}


def groups(*found):
    return {"cluster": {"workerGroups": list(found)}}


def test_derived_gpu_group_holds_one_worker_a_pod():
    out = planned()
    (shape,) = out.shapes
    assert (shape.workers_per_pod, shape.gpus, shape.cpus, shape.max_replicas) == (1, 1, 2, 8)
    assert (out.max_pods, out.max_gpus, out.max_cpus) == (8, 8, 18)
    assert any("a pod gets 16384Mi" in n for n in out.notes)


def test_derived_cpu_group_packs_a_trial_into_one_pod():
    out = planned(**workers(4, cpu=2, memory="1Gi"))
    (shape,) = out.shapes
    assert (shape.workers_per_pod, shape.cpus, shape.max_replicas) == (4, 8, 4)
    assert shape.resources == {"cpu": "8", "memory": "4096Mi"}


def test_derived_cpu_pods_stay_below_16_cpus():
    (shape,) = planned(**workers(10, cpu=4, memory="1Gi")).shapes
    assert (shape.workers_per_pod, shape.max_replicas) == (4, 10)


@pytest.mark.parametrize(
    ("pod", "per_pod"),
    [
        ({"cpu": 8, "memory": "64Gi", "nvidia.com/gpu": 4}, 4),
        ({"cpu": 7, "memory": "64Gi", "nvidia.com/gpu": 4}, 3),
        ({"cpu": 8, "memory": "64Gi", "nvidia.com/gpu": 1}, 1),
    ],
)
def test_bundles_fit_by_their_scarcest_resource(pod, per_pod):
    (shape,) = planned(**groups({"name": "g", "resources": pod})).shapes
    assert shape.workers_per_pod == per_pod
    assert shape.max_replicas == -(-8 // per_pod)


def test_totals_prove_nothing_a_pod_must_hold_a_whole_worker():
    out = planned(**groups({"name": "g", "resources": {"cpu": 1, "nvidia.com/gpu": 1}, "maxReplicas": 100}))
    (refusal,) = out.refusals
    assert refusal.path == "spec.cluster.workerGroups[0].resources"
    assert "holds no whole training worker" in refusal.message


def test_one_trial_that_can_never_start_is_refused():
    out = planned(
        **merge(workers(4, cpu=1), groups({"name": "g", "resources": {"cpu": 1, "memory": "1Gi"}, "maxReplicas": 3}))
    )
    (refusal,) = out.refusals
    assert refusal.path == "spec.cluster.workerGroups"
    assert "no trial could ever start" in refusal.message


def test_a_ceiling_cuts_replicas_and_concurrency():
    out = planned(gpu_limit=5)
    assert (out.max_gpus, out.max_concurrent) == (5, 2)
    assert any("limits.gpus (5) cuts maxReplicas" in n for n in out.notes)
    assert any("only 2 of maxConcurrent 4" in n for n in out.notes)
    assert planned(gpu_limit=8).max_concurrent == 4
    assert [r.path for r in planned(gpu_limit=1).refusals] == ["spec.training.workers.count"]


def test_groups_written_first_are_served_first_under_a_ceiling():
    pod = {"cpu": 4, "memory": "8Gi", "nvidia.com/gpu": 2}
    out = planned(
        gpu_limit=6, **groups({"name": "a", "resources": pod, "maxReplicas": 2}, {"name": "b", "resources": pod})
    )
    assert [(s.name, s.max_replicas) for s in out.shapes] == [("a", 2), ("b", 1)]


def test_under_a_queue_the_size_is_fixed_and_not_larger_than_needed():
    pod = {"cpu": 4, "memory": "8Gi", "nvidia.com/gpu": 2}
    out = planned(
        scheduling={"queueName": "q"},
        **groups({"name": "a", "resources": pod, "maxReplicas": 3}, {"name": "b", "resources": pod}),
    )
    assert not out.autoscaling
    assert [(s.min_replicas, s.max_replicas) for s in out.shapes] == [(3, 3), (1, 1)]


def test_retries_multiply():
    policy = {
        "trialRetries": 1,
        "workerRestarts": 2,
        "attempts": {"application": 0, "infrastructure": 1, "eviction": 0, "startup": 0},
    }
    worst = planned(failurePolicy=policy).worst
    assert (worst.tries_per_trial, worst.starts_per_try, worst.attempts, worst.worker_starts) == (2, 3, 2, 12)


def test_gpu_hours_need_a_deadline():
    assert planned().gpu_hours is None
    assert planned(deadlines={"startupSeconds": 60, "totalSeconds": 7200}).gpu_hours == 16
    assert planned(deadlines={"startupSeconds": 60, "totalSeconds": 7200}, budget={"gpuHours": 5}).gpu_hours == 5
    assert planned(budget={"gpuHours": 5}).gpu_hours == 5
    none = {"application": 0, "infrastructure": 1, "eviction": 0, "startup": 0}
    assert (
        planned(deadlines={"startupSeconds": 60, "runSeconds": 3600}, failurePolicy={"attempts": none}).gpu_hours == 16
    )


def test_head_memory_below_the_measured_need_is_a_note():
    out = planned(cluster={"head": {"resources": {"memory": "1Gi"}}})
    assert any("may be killed for memory" in n for n in out.notes)
    assert not any("killed" in n for n in planned().notes)


def test_gpus_on_the_head_are_refused():
    out = planned(cluster={"head": {"resources": {"nvidia.com/gpu": 1}}})
    assert [r.path for r in out.refusals] == ["spec.cluster.head.resources"]


def test_a_worker_without_cpu_and_gpu_is_refused():
    assert [r.path for r in planned(**workers(1, cpu=0)).refusals] == ["spec.training.workers.resources"]


@pytest.mark.parametrize("cpu", ["1500m", 0.5, "0.5"])
def test_fractional_cpus_are_refused(cpu):  # D4
    if isinstance(cpu, float):
        cpu = str(cpu)
    out = planned(**groups({"name": "g", "resources": {"cpu": cpu, "nvidia.com/gpu": 4}}))
    assert "spec.cluster.workerGroups[0].resources.cpu" in [r.path for r in out.refusals]


def test_a_grid_counts_itself():
    search = {
        "algorithm": {"grid": {}},
        "parameters": [
            {"name": "a", "categorical": {"values": [1, 2, 3]}},
            {"name": "b", "int": {"min": 2, "max": 100, "step": 5}},
        ],
    }
    spec = merge(copy.deepcopy(BASE), {"trials": {"count": 60}}) | {"search": search}
    out = plan(resolve(spec, None))
    assert (out.trials, out.grid) == (60, 60)


@pytest.mark.parametrize(
    ("span", "count", "last", "cut"),
    [
        ({"float": {"min": 0.0229, "max": 0.4588, "step": 0.001}}, 436, "0.4579", "0.4588"),
        ({"float": {"min": 0.1, "max": 0.7, "step": 0.2}}, 4, "0.7", ""),
        ({"int": {"min": 2, "max": 100, "step": 5}}, 20, "97", "100"),
        ({"int": {"min": 1, "max": 4}}, 4, "4", ""),
        ({"float": {"min": 1e-5, "max": 0.1, "log": True}}, None, "0.1", ""),
    ],
)
def test_reachable_values(span, count, last, cut):  # C6
    spec = resolve(merge(copy.deepcopy(BASE), {"search": {"parameters": [{"name": "p", **span}]}}), None)
    found = reach(spec.search.parameters[0])
    assert (found.count, found.last, found.cut) == (count, last, cut)


@pytest.mark.parametrize(
    ("trials", "words"),
    [
        ({"maxConcurrent": 1, "earlyStopping": {"asha": {"maxEpochs": 9}}}, "nothing to be compared with"),
        ({"earlyStopping": {"asha": {"maxEpochs": 9, "graceEpochs": 5}}, "stop": {"maxEpochs": 5}}, "stops none"),
        ({"earlyStopping": {"asha": {"maxEpochs": 9, "reductionFactor": 16}}}, "hardly any"),
    ],
)
def test_early_stopping_that_cannot_work_is_said(trials, words):  # C10
    assert any(words in n for n in planned(trials=trials).notes)
    fine = {"earlyStopping": {"asha": {"maxEpochs": 9}}}
    assert not any(words in n for n in planned(trials=fine).notes)


def test_text_that_is_no_quantity_is_refused_with_its_path():
    spec = resolve(copy.deepcopy(BASE), None)
    bad = spec.training.workers.model_copy(update={"resources": {"cpu": 1, "memory": "1Q"}})
    spec = spec.model_copy(update={"training": spec.training.model_copy(update={"workers": bad})})
    assert [r.path for r in plan(spec).refusals] == ["spec.training.workers.resources.memory"]


def elastic(fewest, most):
    base = copy.deepcopy(BASE)
    base["training"]["workers"] = {"min": fewest, "max": most, "resources": {"cpu": 1, "nvidia.com/gpu": 1}}
    return resolve(base, None)


def test_elastic_workers_get_pods_by_the_most_and_trials_by_the_fewest():
    out = plan(elastic(1, 4))
    assert (out.workers_per_trial, out.max_pods, out.max_concurrent) == (4, 16, 4)
    assert any("trains with 1 to 4 workers" in n for n in out.notes)
    cut = plan(elastic(1, 4), gpu_limit=3)
    assert (cut.max_gpus, cut.max_concurrent, cut.refusals) == (3, 3, ())


def test_an_elastic_trial_that_could_never_start_names_min():
    (refusal,) = plan(elastic(3, 4), gpu_limit=2).refusals
    assert (refusal.path, "needs 3 worker(s)" in refusal.message) == ("spec.training.workers.min", True)
