"""What the chart makes of good values."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.unit.chart.conftest import CHART, NAMESPACE, ROOT, Objects
from trainsweep.api.sweepclass import DEFAULT_CLASS_ANNOTATION, TrainSweepClassSpec

pytestmark = pytest.mark.slow

ROLE_ARN = "arn:aws:iam::111122223333:role/trainsweep-operator"
CLASS_SPEC = {
    "storage": {"allowedPrefixes": ["s3://bucket/{namespace}"]},
    "limits": {"gpus": 8, "totalSeconds": 31_536_000},
    "defaults": {"training": {"image": "registry.example/train@sha256:" + "0" * 64}},
}
SPREAD = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
INSTALLS: dict[str, dict[str, Any]] = {
    "default": {},
    "namespaced": {"watchNamespaces": ["team-a", "team-b"]},
    "irsa": {"serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": ROLE_ARN}}},
    "default class": {"defaultClass": {"create": True, "name": "gpu", "spec": CLASS_SPEC}},
    "everything": {
        "watchNamespaces": ["team-a"],
        "image": {"repository": "registry.example/op", "digest": "sha256:" + "a" * 64, "pullPolicy": "Never"},
        "imagePullSecrets": [{"name": "registry"}],
        "operator": {"resyncSeconds": 5, "workers": 2, "logLevel": "DEBUG"},
        "extraEnv": [{"name": "AWS_REGION", "value": "eu-west-1"}],
        "extraEnvFrom": [{"secretRef": {"name": "store-reader"}}],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca", "readOnly": True}],
        "podLabels": {"team": "platform"},
        "podAnnotations": {"prometheus.io/scrape": "true"},
        "priorityClassName": "high",
        "nodeSelector": {"karpenter.sh/capacity-type": "on-demand"},
        "tolerations": [{"key": "critical", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [SPREAD],
        "defaultClass": {"create": True, "spec": CLASS_SPEC},
        "metrics": {"serviceMonitor": {"enabled": True, "interval": "15s", "labels": {"release": "prometheus"}}},
        "networkPolicy": {
            "enabled": True,
            "egressPorts": [443, 9000],
            "egressTo": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        },
        "podDisruptionBudget": {"enabled": True, "maxUnavailable": 0},
    },
    "pod identity": {"serviceAccount": {"name": "trainsweep-operator"}, "networkPolicy": {"enabled": True}},
}


def of_kind(objects: Objects, kind: str) -> Objects:
    return [item for item in objects if item["kind"] == kind]


def only(objects: Objects, kind: str) -> dict[str, Any]:
    (item,) = of_kind(objects, kind)
    return item


def pod_spec(objects: Objects) -> dict[str, Any]:
    spec: dict[str, Any] = only(objects, "Deployment")["spec"]["template"]["spec"]
    return spec


def env_of(objects: Objects) -> dict[str, str]:
    (container,) = pod_spec(objects)["containers"]
    return {item["name"]: item.get("value") for item in container["env"]}


def test_helm_lint_is_clean(helm_run):
    done = helm_run("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout


@pytest.mark.parametrize("install", INSTALLS)
def test_every_object_is_ours_and_named_once(render, install):
    objects = render(INSTALLS[install])
    keys = [(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]) for o in objects]
    assert len(keys) == len(set(keys))
    for item in objects:
        if item["kind"] != "CustomResourceDefinition":
            assert item["metadata"]["labels"]["app.kubernetes.io/part-of"] == "trainsweep", item["metadata"]["name"]
        assert item["kind"] not in ("Secret", "ConfigMap")


def restricted_violations(spec: dict[str, Any]) -> list[str]:
    """What breaks the restricted Pod Security Standard, which includes the baseline, rule by rule."""
    found = [name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    allowed = {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
    for volume in spec.get("volumes", []):
        found += [f"volume {volume['name']}: {kind}" for kind in volume if kind != "name" and kind not in allowed]
    pod = spec.get("securityContext", {})
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        own = container.get("securityContext", {})
        if own.get("privileged"):
            found.append("privileged")
        if own.get("allowPrivilegeEscalation") is not False:
            found.append("allowPrivilegeEscalation")
        if own.get("capabilities", {}).get("drop") != ["ALL"] or own["capabilities"].get("add"):
            found.append("capabilities")
        if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
            found.append("runAsNonRoot")
        if own.get("runAsUser", pod.get("runAsUser")) in (None, 0):
            found.append("runAsUser")
        if own.get("seccompProfile", pod.get("seccompProfile", {})).get("type") not in ("RuntimeDefault", "Localhost"):
            found.append("seccompProfile")
        if own.get("procMount", "Default") != "Default":
            found.append("procMount")
        found += ["hostPort" for port in container.get("ports", []) if port.get("hostPort")]
    return found


@pytest.mark.parametrize("install", INSTALLS)
def test_the_pod_meets_the_restricted_standard(render, install):
    spec = pod_spec(render(INSTALLS[install]))
    assert restricted_violations(spec) == []


def test_the_check_of_the_standard_can_fail():
    spec = {
        "hostNetwork": True,
        "volumes": [{"name": "x", "hostPath": {"path": "/"}}],
        "containers": [{"name": "c", "securityContext": {"privileged": True}, "ports": [{"hostPort": 1}]}],
    }
    assert set(restricted_violations(spec)) == {
        "hostNetwork",
        "volume x: hostPath",
        "privileged",
        "allowPrivilegeEscalation",
        "capabilities",
        "runAsNonRoot",
        "runAsUser",
        "seccompProfile",
        "hostPort",
    }


def test_the_root_is_read_only_and_tmp_is_not(render):
    spec = pod_spec(render())
    (container,) = spec["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]
    assert [v for v in spec["volumes"] if v["name"] == "tmp" and "emptyDir" in v]


def test_one_replica_is_replaced_and_never_doubled(render):
    spec = only(render(), "Deployment")["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 40


def test_probes_and_metrics_use_the_one_port(render):
    objects = render()
    (container,) = pod_spec(objects)["containers"]
    assert container["ports"] == [{"name": "metrics", "containerPort": 9090}]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    assert container["livenessProbe"]["timeoutSeconds"] == 5
    assert only(objects, "Service")["spec"]["ports"][0]["targetPort"] == "metrics"
    assert not of_kind(render({"metrics": {"service": False}}), "Service")
    assert env_of(objects)["TRAINSWEEP_METRICS_PORT"] == "9090"


def test_selectors_find_the_pod(render):
    objects = render(INSTALLS["everything"])
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    for selector in (
        only(objects, "Deployment")["spec"]["selector"]["matchLabels"],
        only(objects, "Service")["spec"]["selector"],
    ):
        assert selector.items() <= labels.items()


def test_values_reach_the_operator_as_environment(render):
    env = env_of(render(INSTALLS["everything"]))
    assert env == {
        "TRAINSWEEP_RESYNC_SECONDS": "5",
        "TRAINSWEEP_WATCH_NAMESPACES": "team-a",
        "TRAINSWEEP_WORKERS": "2",
        "TRAINSWEEP_LOG_LEVEL": "DEBUG",
        "TRAINSWEEP_METRICS_PORT": "9090",
        "AWS_REGION": "eu-west-1",
    }
    assert env_of(render(INSTALLS["namespaced"]))["TRAINSWEEP_WATCH_NAMESPACES"] == "team-a,team-b"
    assert env_of(render())["TRAINSWEEP_WATCH_NAMESPACES"] == ""


def test_values_reach_the_pod(render):
    spec = pod_spec(render(INSTALLS["everything"]))
    (container,) = spec["containers"]
    given = INSTALLS["everything"]
    assert container["image"] == "registry.example/op@sha256:" + "a" * 64
    assert container["imagePullPolicy"] == "Never"
    assert container["envFrom"] == given["extraEnvFrom"]
    assert given["extraVolumes"][0] in spec["volumes"]
    assert given["extraVolumeMounts"][0] in container["volumeMounts"]
    for key in (
        "imagePullSecrets",
        "priorityClassName",
        "nodeSelector",
        "tolerations",
        "affinity",
        "topologySpreadConstraints",
    ):
        assert spec[key] == given[key]


def test_the_image_is_the_chart_s_version_unless_told(render):
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert pod_spec(render())["containers"][0]["image"].endswith(f":{version}")
    assert pod_spec(render({"image": {"tag": "dev"}}))["containers"][0]["image"].endswith(":dev")


def test_an_identity_is_annotated_on_the_service_account(render):
    objects = render(INSTALLS["irsa"])
    account = only(objects, "ServiceAccount")
    assert account["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": ROLE_ARN}
    assert account["metadata"]["name"] == pod_spec(objects)["serviceAccountName"]


def test_an_existing_service_account_is_bound_and_not_made(render):
    objects = render({"serviceAccount": {"create": False, "name": "mine"}})
    assert not of_kind(objects, "ServiceAccount")
    assert pod_spec(objects)["serviceAccountName"] == "mine"
    assert only(objects, "ClusterRoleBinding")["subjects"] == [
        {"kind": "ServiceAccount", "name": "mine", "namespace": NAMESPACE}
    ]


def test_the_default_class_is_one_that_the_operator_accepts(render):
    item = only(render(INSTALLS["default class"]), "TrainSweepClass")
    assert item["metadata"]["name"] == "gpu"
    assert item["metadata"]["annotations"][DEFAULT_CLASS_ANNOTATION] == "true"
    spec = TrainSweepClassSpec.model_validate(item["spec"])
    assert spec.limits.total_seconds == 31_536_000
    assert spec.storage.allowed_prefixes == ["s3://bucket/{namespace}"]


def test_the_default_class_is_a_hook_only_until_its_kind_is_served(render):
    """Helm cannot place an object whose kind the same release makes; afterwards no upgrade may delete the class."""
    values = INSTALLS["default class"]
    first = only(render(values), "TrainSweepClass")["metadata"]["annotations"]
    later = only(render(values, served="trainsweep.io/v1alpha1/TrainSweepClass"), "TrainSweepClass")
    assert first["helm.sh/hook"] == "post-install,post-upgrade"
    assert (first["meta.helm.sh/release-name"], first["meta.helm.sh/release-namespace"]) == ("trainsweep", NAMESPACE)
    assert "helm.sh/hook" not in later["metadata"]["annotations"]
    assert later["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_large_numbers_stay_plain(template):
    """E4: templating must not turn integers from a million up into 1e+06."""
    done = template(INSTALLS["default class"])
    assert "totalSeconds: 31536000\n" in done.stdout


def test_the_crds_are_kept_and_can_be_left_out(render):
    shipped = {path.name for path in (ROOT / "manifests/crd").glob("trainsweep.io_*.yaml")}
    crds = of_kind(render(), "CustomResourceDefinition")
    assert len(crds) == len(shipped) == 3
    for crd in crds:
        assert crd["metadata"].pop("annotations") == {
            "helm.sh/resource-policy": "keep",
            "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
        }
        path = ROOT / "manifests/crd" / f"trainsweep.io_{crd['spec']['names']['plural']}.yaml"
        assert crd == yaml.safe_load(path.read_text(encoding="utf-8"))
    assert not of_kind(render({"crds": {"enabled": False}}), "CustomResourceDefinition")
    for crd in of_kind(render({"crds": {"keep": False}}), "CustomResourceDefinition"):
        assert "annotations" not in crd["metadata"]


def test_two_releases_have_names_of_their_own(render):
    """Cluster-wide objects of a second, namespaced install must not overwrite those of the first."""

    def names(release: str) -> set[tuple[str, str]]:
        objects = render({"crds": {"enabled": False}, "rbac": {"aggregate": True}}, release)
        return {(o["kind"], o["metadata"]["name"]) for o in objects}

    assert not names("one") & names("two")


def test_notes_say_how_to_uninstall_safely(helm_run):
    done = helm_run("install", "ts", str(CHART), "--namespace", NAMESPACE, "--dry-run=client")
    notes = done.stdout.split("NOTES:")[1]
    assert "kubectl delete trainsweeps --all" in notes
    assert notes.index("delete trainsweeps") < notes.index("helm uninstall ts -n operators")
    assert "trainsweepclasses" in notes


def test_every_value_has_a_schema_and_every_schema_a_value():
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))

    def compare(part: dict[str, Any], value: Any, path: str) -> None:
        properties = part.get("properties")
        if not properties or part.get("additionalProperties") is not False or not isinstance(value, dict):
            return
        optional = {"global", "defaults", "limits", "storage", "allowed", "podOverlay"}
        assert set(properties) - set(value) <= optional, path
        assert set(value) <= set(properties), path
        for key, inner in value.items():
            compare(properties[key], inner, f"{path}.{key}")

    compare(schema, values, "values")
