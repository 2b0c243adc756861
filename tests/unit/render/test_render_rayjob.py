"""What a rendered RayJob must say, one behaviour a test."""

import json

from tests.unit.render.render_builders import BASE, GPU_TRAINING, UID, klass, raw, render_input
from trainsweep.api.resolve import merge
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.contract import labels
from trainsweep.contract.documents import Control, Limits, SweepFile
from trainsweep.plan.quantity import parse
from trainsweep.render.kuberay import KubeRay
from trainsweep.render.rayjob import gpus_of, hold_name, owner_references, rayjob_name, render, spec_digest


def cluster(rayjob):
    return rayjob["spec"]["rayClusterSpec"]


def head_pod(rayjob):
    return cluster(rayjob)["headGroupSpec"]["template"]


def worker_pod(rayjob, group=0):
    return cluster(rayjob)["workerGroupSpecs"][group]["template"]


def env(pod):
    return {e["name"]: e.get("value") for e in pod["spec"]["containers"][0]["env"]}


def test_name_is_deterministic_and_short():
    name = rayjob_name("a" * 36, UID, 999)
    assert len(name) == 47
    assert name == rayjob_name("a" * 36, UID, 999)
    assert name != rayjob_name("a" * 36, UID + "x", 999)
    assert hold_name(name) == name + "-hold"


def test_owner_references_name_the_sweep_as_controller_and_the_hold_second():
    first, second = owner_references("digits", UID, "digits-x-a1-hold", "hold-uid")
    assert (first["kind"], first["uid"], first["controller"]) == ("TrainSweep", UID, True)
    assert (second["kind"], second["uid"]) == ("TrainSweepHold", "hold-uid")
    assert "controller" not in second


def test_the_driver_finds_the_resolved_spec_and_control_in_the_pods_own_annotations():
    inp = render_input(raw(training={"config": {"query": "SELECT `a`; echo $(id) > x && true", "none": None}}), klass())
    annotations = head_pod(render(inp))["metadata"]["annotations"]
    found = SweepFile.model_validate_json(annotations[labels.SWEEP])
    assert TrainSweepSpec.model_validate(found.spec) == inp.spec
    assert found.spec["training"]["config"] == {"query": "SELECT `a`; echo $(id) > x && true", "none": None}
    assert found.store.uri == f"s3://bucket/team/team/digits/{inp.run}"
    assert Control.model_validate_json(annotations[labels.CONTROL]).attempt_id == found.attempt_id == "1-0b0e6c1e"


def test_control_and_sweep_file_are_mounted_where_the_environment_says():
    pod = head_pod(render(render_input(raw(), klass())))
    volume = next(v for v in pod["spec"]["volumes"] if v["name"] == "trainsweep-control")
    paths = {item["path"] for item in volume["downwardAPI"]["items"]}
    mount = next(m for m in pod["spec"]["containers"][0]["volumeMounts"] if m["name"] == "trainsweep-control")
    assert "subPath" not in mount  # a subPath mount never changes again
    for name in (labels.ENV_SWEEP_FILE, labels.ENV_CONTROL_FILE):
        folder, _, file = env(pod)[name].rpartition("/")
        assert folder == mount["mountPath"]
        assert file in paths


def test_trial_drivers_can_never_take_what_their_workers_wait_for():
    head = cluster(render(render_input(raw(), klass())))["headGroupSpec"]
    assert head["resources"] == {"CPU": "0", "GPU": "0", "trial_slot": "2"}


def test_gpu_group_is_derived_one_worker_a_pod():
    rayjob = render(render_input(raw(**GPU_TRAINING), klass()))
    (group,) = cluster(rayjob)["workerGroupSpecs"]
    resources = group["template"]["spec"]["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"] == {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    assert group["rayStartParams"] == {"num-cpus": "4", "num-gpus": "1"}
    assert (group["minReplicas"], group["maxReplicas"]) == (0, 4)
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in group["template"]["spec"][
        "tolerations"
    ]
    assert gpus_of(rayjob) == 4


def test_class_ceiling_cuts_replicas_and_the_number_of_trial_slots():
    rayjob = render(render_input(raw(**GPU_TRAINING), klass(limits={"gpus": 3})))
    assert cluster(rayjob)["workerGroupSpecs"][0]["maxReplicas"] == 3
    # Two trials need four workers: a second one would wait until its start time-outs count as failures.
    assert cluster(rayjob)["headGroupSpec"]["resources"]["trial_slot"] == "1"
    assert json.loads(head_pod(rayjob)["metadata"]["annotations"][labels.SWEEP])["spec"]["trials"]["maxConcurrent"] == 1


def test_queue_gives_a_fixed_size_because_kueue_admits_it_as_a_whole():
    rayjob = render(render_input(raw(scheduling={"queueName": "q"}), klass()))
    (group,) = cluster(rayjob)["workerGroupSpecs"]
    assert cluster(rayjob)["enableInTreeAutoscaling"] is False
    assert group["replicas"] == group["minReplicas"] == group["maxReplicas"] == 2
    assert rayjob["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "q"


def test_identity_endpoint_and_secret_reach_every_ray_container():
    sweep_class = klass(
        storage={"credentialsSecret": "s3", "endpoints": ["http://s3:1"]},
        defaults={"storage": {"endpointURL": "http://s3:1", "serviceAccountName": "trainer"}},
    )
    rayjob = render(render_input(raw(), sweep_class))
    for pod in (head_pod(rayjob), worker_pod(rayjob)):
        assert pod["spec"]["serviceAccountName"] == "trainer"
        assert env(pod)["AWS_EC2_METADATA_DISABLED"] == "true"
        assert env(pod)["AWS_REQUEST_CHECKSUM_CALCULATION"] == "when_required"
        assert {"secretRef": {"name": "s3"}} in pod["spec"]["containers"][0]["envFrom"]


def test_without_endpoint_or_identity_the_aws_defaults_are_left_alone():
    found = env(head_pod(render(render_input(raw(), klass()))))
    assert not {"AWS_EC2_METADATA_DISABLED", "AWS_REQUEST_CHECKSUM_CALCULATION"} & set(found)
    assert found["AWS_REGION"] == "eu-west-1"


def test_source_is_mounted_on_every_pod_and_on_the_path_before_the_users_own():
    spec = raw(training={"source": {"configMap": {"name": "code"}}, "env": [{"name": "PYTHONPATH", "value": "/mine"}]})
    rayjob = render(render_input(spec, klass()))
    for pod in (head_pod(rayjob), worker_pod(rayjob)):
        assert {"name": "trainsweep-source", "configMap": {"name": "code"}} in pod["spec"]["volumes"]
        mounts = {m["mountPath"] for m in pod["spec"]["containers"][0]["volumeMounts"]}
        assert labels.SOURCE_DIR in mounts
        assert env(pod)["PYTHONPATH"] == "/etc/trainsweep/source:/opt/trainsweep:/mine"
        assert len([e for e in pod["spec"]["containers"][0]["env"] if e["name"] == "PYTHONPATH"]) == 1


def test_env_values_are_passed_byte_for_byte():  # A1: Kubernetes expands $(HOME), nobody else expands anything
    written = [{"name": "A", "value": "`id`; $(HOME)/x && $$(HOME)"}, {"name": "B", "value": "$(A)"}]
    rayjob = render(render_input(raw(training={"env": written}), klass()))
    for pod in (head_pod(rayjob), worker_pod(rayjob)):
        assert [e for e in pod["spec"]["containers"][0]["env"] if e["name"] in "AB"] == written


def test_runtime_env_reaches_ray_unexpanded():  # A2
    runtime_env = {
        "uv": {"packages": ["-r ${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}/req.txt"]},
        "working_dir": "s3://b/c.zip",
    }
    rayjob = render(render_input(raw(training={"runtimeEnv": runtime_env}), klass()))
    assert json.loads(rayjob["spec"]["runtimeEnvYAML"]) == runtime_env


def test_every_container_has_equal_requests_and_limits():
    rayjob = render(render_input(raw(**GPU_TRAINING), klass()))
    containers = [*head_pod(rayjob)["spec"]["containers"], *worker_pod(rayjob)["spec"]["containers"]]
    for resources in [c["resources"] for c in containers] + [cluster(rayjob)["autoscalerOptions"]["resources"]]:
        assert resources["requests"] == resources["limits"]
        assert {"cpu", "memory"} <= set(resources["limits"])


def test_head_memory_grows_with_concurrency():
    def memory(concurrent):
        rayjob = render(render_input(raw(trials={"maxConcurrent": concurrent}), klass()))
        return parse(head_pod(rayjob)["spec"]["containers"][0]["resources"]["limits"]["memory"])

    assert memory(1) == 4_300_000_000
    assert memory(4) - memory(1) == 3 * 1_300_000_000


def test_class_overlay_is_last_and_reaches_the_autoscaler():
    overlay = {
        "spec": {
            "volumes": [{"name": "venv", "hostPath": {"path": "/v"}}],
            "containers": [
                {
                    "name": "ray-head",
                    "env": [{"name": "MODE", "value": "class"}],
                    "volumeMounts": [{"name": "venv", "mountPath": "/v"}],
                }
            ],
        }
    }
    spec = raw(training={"env": [{"name": "MODE", "value": "sweep"}]})
    rayjob = render(render_input(spec, klass(podOverlay={"head": overlay})))
    assert env(head_pod(rayjob))["MODE"] == "class"
    assert env(worker_pod(rayjob))["MODE"] == "sweep"
    options = cluster(rayjob)["autoscalerOptions"]
    assert {"name": "MODE", "value": "class"} in options["env"]
    assert {"name": "RAY_AUTOSCALER_RECONCILE_ALLOCATE_STATUS_TIMEOUT_S", "value": "1800"} in options["env"]
    assert options["volumeMounts"] == [{"name": "venv", "mountPath": "/v"}]


def test_the_ray_container_stays_first_beside_sidecars():
    template = {"spec": {"containers": [{"name": "a-proxy", "image": "proxy:1"}]}}
    rayjob = render(render_input(raw(cluster={"head": {"podTemplate": template}}), klass()))
    names = [c["name"] for c in head_pod(rayjob)["spec"]["containers"]]
    assert names == ["ray-head", "a-proxy"]


def test_sidecars_run_under_restricted_pod_security():
    template = {
        "spec": {"containers": [{"name": "proxy", "image": "p:1", "resources": {"limits": {"memory": "64Mi"}}}]}
    }
    rayjob = render(render_input(raw(cluster={"head": {"podTemplate": template}}), klass()))
    proxy = head_pod(rayjob)["spec"]["containers"][1]
    assert proxy["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert proxy["resources"]["limits"] == {"cpu": "100m", "memory": "64Mi"}


def test_kuberay_lacks_are_left_out_and_said():
    for version, token, deadline in (((1, 5, 0), False, False), ((1, 5, 1), True, False), ((1, 6, 1), True, True)):
        kuberay = KubeRay.of_version(version)
        rayjob = render(render_input(raw(deadlines={"startupSeconds": 600}), klass(), kuberay=kuberay))
        assert ("authOptions" in cluster(rayjob)) is token
        assert ("preRunningDeadlineSeconds" in rayjob["spec"]) is deadline
        assert ("ray.io/disable-provisioned-head-restart" in rayjob["metadata"]["annotations"]) is deadline
        assert bool(kuberay.lacks()) is not (token and deadline)


def test_kuberay_capabilities_are_read_from_its_crd():
    def crd(spec):
        schema = {"openAPIV3Schema": {"properties": {"spec": {"properties": spec}}}}
        return {"spec": {"versions": [{"name": "v1alpha1"}, {"name": "v1", "schema": schema}]}}

    new = KubeRay.of_crd(crd({"preRunningDeadlineSeconds": {}, "rayClusterSpec": {"properties": {"authOptions": {}}}}))
    assert (new.token_auth, new.pre_running_deadline) == (True, True)
    old = KubeRay.of_crd(crd({"rayClusterSpec": {"properties": {}}}))
    assert (old.token_auth, old.pre_running_deadline) == (False, False)


def test_old_ray_gets_no_token():
    rayjob = render(render_input(raw(cluster={"rayVersion": "2.51.0"}), klass()))
    assert "authOptions" not in cluster(rayjob)


def test_protection_can_be_switched_off():
    rayjob = render(render_input(raw(scheduling={"protectFromDisruption": False}), klass()))
    assert "karpenter.sh/do-not-disrupt" not in head_pod(rayjob)["metadata"]["annotations"]
    protected = render(render_input(raw(), klass()))
    for pod in (head_pod(protected), worker_pod(protected)):
        assert pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true"


def test_labels_of_the_attempt_are_on_rayjob_and_pods():
    rayjob = render(render_input(raw(), klass(), attempt=3))
    wanted = labels.identity("digits", UID, 3)
    for found in (
        rayjob["metadata"]["labels"],
        head_pod(rayjob)["metadata"]["labels"],
        worker_pod(rayjob)["metadata"]["labels"],
    ):
        assert found == wanted


def test_digest_ignores_what_is_patched_later_and_nothing_else():
    first = render(render_input(raw(), klass()))
    assert first["metadata"]["annotations"][labels.DIGEST] == spec_digest(first)
    later = render(
        render_input(
            raw(cleanup={"holdSeconds": 900}),
            klass(),
            limits=Limits(deadline_at=5.0, gpu_seconds=7),
            active_deadline_seconds=99,
        )
    )
    later["spec"]["ttlSecondsAfterFinished"] = 0
    assert spec_digest(later) == spec_digest(first)
    other = render(render_input(raw(training={"image": "registry.example/train:2"}), klass()))
    assert spec_digest(other) != spec_digest(first)


def test_equal_amounts_written_differently_plan_alike():  # D4
    def replicas(cpu):
        workers = {"count": 2, "resources": {"cpu": 4}}
        groups = [{"name": "g", "resources": {"cpu": cpu, "memory": "8Gi"}}]
        spec = merge(BASE, {"training": {"workers": workers}, "cluster": {"workerGroups": groups}})
        group = cluster(render(render_input(spec, klass())))["workerGroupSpecs"][0]
        return group["maxReplicas"], group["rayStartParams"]

    assert replicas(8) == replicas("8") == replicas("8000m") == (2, {"num-cpus": "8", "num-gpus": "0"})


def test_rays_own_autoscaler_reads_the_groups_as_meant():
    from ray.autoscaler._private.kuberay.autoscaling_config import _get_ray_resources_from_group_spec

    spec = cluster(render(render_input(raw(**GPU_TRAINING), klass())))
    head = _get_ray_resources_from_group_spec(spec["headGroupSpec"], is_head=True)
    assert (head["CPU"], head["GPU"], head["trial_slot"]) == (0, 0, 2)
    worker = _get_ray_resources_from_group_spec(spec["workerGroupSpecs"][0], is_head=False)
    assert worker == {"CPU": 4, "GPU": 1, "memory": 16 * 2**30}
