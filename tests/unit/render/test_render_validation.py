"""Each rule of KubeRay and Kueue that `check` repeats, with a RayJob that breaks it."""

import copy

import pytest

from tests.unit.render.render_builders import GPU_TRAINING, klass, raw, render_input
from trainsweep.contract import labels
from trainsweep.render.rayjob import check, render

VALID = render(render_input(raw(**GPU_TRAINING), klass()))
QUEUED = render(render_input(raw(scheduling={"queueName": "q"}), klass()))


def spec(**changes):
    return lambda j: j["spec"].update(changes)


def cluster(**changes):
    return lambda j: j["spec"]["rayClusterSpec"].update(changes)


def group(**changes):
    return lambda j: j["spec"]["rayClusterSpec"]["workerGroupSpecs"][0].update(changes)


def head(**changes):
    return lambda j: j["spec"]["rayClusterSpec"]["headGroupSpec"].update(changes)


def head_env(name):
    def change(j):
        pod = j["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
        pod["containers"][0]["env"].append({"name": name, "value": "1"})

    return change


def pod(kind="headGroupSpec", **changes):
    def change(j):
        found = j["spec"]["rayClusterSpec"][kind]
        (found if isinstance(found, dict) else found[0])["template"]["spec"].update(changes)

    return change


def container(**changes):
    return lambda j: j["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0].update(changes)


def annotation(value):
    def change(j):
        j["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["metadata"]["annotations"][labels.SWEEP] = value

    return change


BROKEN = {
    "name too long": (lambda j: j["metadata"].update(name="a" * 48), "metadata.name has 48"),
    "name starts with a digit": (lambda j: j["metadata"].update(name="1a"), "must start with a letter"),
    "name with a dot": (lambda j: j["metadata"].update(name="a.b"), "must start with a letter"),
    "label value": (lambda j: j["metadata"]["labels"].update({"a/b": "x y"}), "no valid label value"),
    "label key": (lambda j: j["metadata"]["labels"].update({"a b": "x"}), "no valid label key"),
    "suspend without shutdown": (
        spec(suspend=True, shutdownAfterJobFinishes=False, ttlSecondsAfterFinished=0),
        "spec.suspend needs",
    ),
    "negative TTL": (spec(ttlSecondsAfterFinished=-1), "must not be negative"),
    "TTL without shutdown": (spec(shutdownAfterJobFinishes=False), "ttlSecondsAfterFinished needs"),
    "deletion rules": (spec(deletionStrategy={"deletionRules": []}), "deletionStrategy"),
    "no cluster": (spec(rayClusterSpec=None), "rayClusterSpec must be set"),
    "cluster selector": (spec(clusterSelector={"ray.io/cluster": "x"}), "clusterSelector"),
    "negative backoff": (spec(backoffLimit=-1), "backoffLimit must not be negative"),
    "retries of KubeRay": (spec(backoffLimit=1), "backoffLimit must be 0"),
    "no active deadline": (spec(activeDeadlineSeconds=0), "activeDeadlineSeconds must be a positive"),
    "no start-up deadline": (spec(preRunningDeadlineSeconds=-5), "preRunningDeadlineSeconds must be a positive"),
    "submission mode": (spec(submissionMode="Http"), "submissionMode"),
    "shell in the entrypoint": (spec(entrypoint="python -m trainjobs && rm x"), "no shell syntax"),
    "head without a container": (pod(containers=[]), "headGroupSpec: must have a container"),
    "worker without a container": (pod("workerGroupSpecs", containers=[]), "must have a container"),
    "resources twice": (head(rayStartParams={"num-cpus": "0"}), "must not both name resources"),
    "labels by start parameter": (head(rayStartParams={"labels": "a=b"}), "labels is refused"),
    "start parameter no string": (group(rayStartParams={"num-cpus": 1}), "must be a string"),
    "group label": (group(labels={"a": "b c"}), "no valid label value"),
    "group twice": (
        lambda j: j["spec"]["rayClusterSpec"]["workerGroupSpecs"].append(
            copy.deepcopy(j["spec"]["rayClusterSpec"]["workerGroupSpecs"][0])
        ),
        "is there twice",
    ),
    "no maxReplicas": (group(maxReplicas=None), "needs minReplicas and maxReplicas"),
    "negative minReplicas": (group(minReplicas=-1), "minReplicas is negative"),
    "negative maxReplicas": (group(minReplicas=None, maxReplicas=-1), "maxReplicas is negative"),
    "min above max": (group(minReplicas=9), "greater than maxReplicas"),
    "suspended group": (group(suspend=True), "suspend is not for us"),
    "negative idle time-out of a group": (group(idleTimeoutSeconds=-1), "idleTimeoutSeconds"),
    "priority of a group": (lambda j: (group(priority=1)(j), cluster(rayVersion="2.55.0")(j)), "priority needs"),
    "redis address": (head_env("RAY_REDIS_ADDRESS"), "RAY_REDIS_ADDRESS"),
    "redis user": (head_env("REDIS_USERNAME"), "redis user name"),
    "GCS fault tolerance": (cluster(gcsFaultToleranceOptions={}), "gcsFaultToleranceOptions"),
    "upgrade strategy": (cluster(upgradeStrategy={"type": "None"}), "upgradeStrategy"),
    "autoscaler by env too": (head_env("RAY_enable_autoscaler_v2"), "RAY_enable_autoscaler_v2"),
    "head restarts": (pod(restartPolicy="Always"), "headGroupSpec: restartPolicy"),
    "worker restarts": (pod("workerGroupSpecs", restartPolicy="OnFailure"), "restartPolicy must be Never"),
    "autoscaler v1": (cluster(autoscalerOptions={"version": "v1"}), "version must be v2"),
    "negative idle time-out": (
        cluster(autoscalerOptions={"version": "v2", "idleTimeoutSeconds": -1}),
        "autoscalerOptions.idleTimeoutSeconds",
    ),
    "start command of the autoscaler": (
        cluster(autoscalerOptions={"version": "v2", "env": [{"name": "KUBERAY_GEN_AUTOSCALER_START_CMD"}]}),
        "KUBERAY_GEN_AUTOSCALER_START_CMD",
    ),
    "token without rayVersion": (cluster(rayVersion=""), "rayVersion must be set"),
    "token with an old Ray": (cluster(rayVersion="2.51.2"), "needs rayVersion 2.52.0"),
    "Kubernetes token": (cluster(authOptions={"mode": "token", "enableK8sTokenAuth": True}), "enableK8sTokenAuth"),
    "no image": (container(image=""), "image: is empty"),
    "no memory limit": (container(resources={"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}), "limit for memory"),
    "GPU request differs": (
        container(
            resources={
                "requests": {"cpu": "1", "memory": "1Gi"},
                "limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"},
            }
        ),
        "request and limit must be equal",
    ),
    "mount without a volume": (container(volumeMounts=[{"name": "x", "mountPath": "/x"}]), "no volume 'x'"),
    "volume twice": (
        pod(volumes=[{"name": n} for n in ("shared-mem", "trainsweep-control", "shared-mem")]),
        "'shared-mem' is there twice",
    ),
    "sweep file too large": (annotation("x" * 210_000), "more than 200 KiB"),
    "annotations too large": (annotation("x" * 270_000), "more than 256 KiB"),
}


def test_the_starting_points_are_valid():
    assert check(VALID, kueue=False) == []
    assert check(QUEUED, kueue=True) == []


@pytest.mark.parametrize("name", BROKEN)
def test_rule(name):
    change, message = BROKEN[name]
    rayjob = copy.deepcopy(VALID)
    change(rayjob)
    problems = check(rayjob, kueue=False)
    assert any(message in p for p in problems), problems


def many_groups(rayjob):
    groups = rayjob["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    groups += [copy.deepcopy(groups[0]) | {"groupName": f"g{i}"} for i in range(7)]


KUEUE = {
    "autoscaling": (cluster(enableInTreeAutoscaling=True, autoscalerOptions={"version": "v2"}), "workload slicing"),
    "group head": (group(groupName="head"), "named head"),
    "too many groups": (many_groups, "Kueue admits 7"),
    "no queue": (lambda j: j["metadata"]["labels"].pop(labels.QUEUE), "set scheduling.queueName"),
    "no shutdown": (spec(shutdownAfterJobFinishes=False, ttlSecondsAfterFinished=0), "must be true under Kueue"),
}


@pytest.mark.parametrize("name", KUEUE)
def test_rule_of_kueue(name):
    change, message = KUEUE[name]
    rayjob = copy.deepcopy(QUEUED)
    change(rayjob)
    assert any(message in p for p in check(rayjob, kueue=True))
    assert not any(message in p for p in check(rayjob, kueue=False))


def test_kueue_takes_autoscaling_with_workload_slicing():
    rayjob = copy.deepcopy(QUEUED)
    cluster(enableInTreeAutoscaling=True, autoscalerOptions={"version": "v2"})(rayjob)
    rayjob["metadata"]["annotations"]["kueue.x-k8s.io/elastic-job"] = "true"
    assert check(rayjob, kueue=True) == []
