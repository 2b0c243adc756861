"""Escapes through a pod template of a sweep: each is refused with its path. The neighbours below them are allowed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.render.render_builders import klass, raw, render_input
from trainsweep.api.conditions import Reason
from trainsweep.render.admission import check_class
from trainsweep.render.overlay import check_overlay
from trainsweep.render.rayjob import check, render


def sidecar(**more):
    return {"spec": {"containers": [{"name": "side", "image": "s:1", **more}]}}


def ray(**more):
    return {"spec": {"containers": [{"name": "ray", **more}]}}


def volume(**more):
    return {"spec": {"volumes": [{"name": "v", **more}]}}


ESCAPES = {
    "hostPath": (volume(hostPath={"path": "/"}), "spec.volumes[0].hostPath"),
    "csi": (volume(csi={"driver": "x"}), "spec.volumes[0].csi"),
    "nfs": (volume(nfs={"server": "x", "path": "/"}), "spec.volumes[0].nfs"),
    "ephemeral": (volume(ephemeral={}), "spec.volumes[0].ephemeral"),
    "flexVolume": (volume(flexVolume={}), "spec.volumes[0].flexVolume"),
    "projected token": (
        volume(projected={"sources": [{"serviceAccountToken": {"audience": "vault", "path": "t"}}]}),
        "spec.volumes[0].projected.sources[0].serviceAccountToken",
    ),
    "two kinds at once": ({"spec": {"volumes": [{"name": "v", "emptyDir": {}, "secret": {}}]}}, "spec.volumes[0]"),
    "our volume": ({"spec": {"volumes": [{"name": "trainsweep-control", "emptyDir": {}}]}}, "spec.volumes[0].name"),
    "hostNetwork": ({"spec": {"hostNetwork": True}}, "spec.hostNetwork"),
    "hostPID": ({"spec": {"hostPID": True}}, "spec.hostPID"),
    "hostIPC": ({"spec": {"hostIPC": True}}, "spec.hostIPC"),
    "hostUsers": ({"spec": {"hostUsers": True}}, "spec.hostUsers"),
    "shareProcessNamespace": ({"spec": {"shareProcessNamespace": True}}, "spec.shareProcessNamespace"),
    "serviceAccountName": ({"spec": {"serviceAccountName": "admin"}}, "spec.serviceAccountName"),
    "serviceAccount": ({"spec": {"serviceAccount": "admin"}}, "spec.serviceAccount"),
    "securityContext": ({"spec": {"securityContext": {"runAsUser": 0}}}, "spec.securityContext"),
    "initContainers": ({"spec": {"initContainers": [{"name": "i", "image": "x"}]}}, "spec.initContainers"),
    "ephemeralContainers": ({"spec": {"ephemeralContainers": []}}, "spec.ephemeralContainers"),
    "nodeName": ({"spec": {"nodeName": "control-plane"}}, "spec.nodeName"),
    "nodeSelector": ({"spec": {"nodeSelector": {"a": "b"}}}, "spec.nodeSelector"),
    "tolerations": ({"spec": {"tolerations": []}}, "spec.tolerations"),
    "priorityClassName": ({"spec": {"priorityClassName": "system-node-critical"}}, "spec.priorityClassName"),
    "schedulerName": ({"spec": {"schedulerName": "x"}}, "spec.schedulerName"),
    "runtimeClassName": ({"spec": {"runtimeClassName": "x"}}, "spec.runtimeClassName"),
    "restartPolicy": ({"spec": {"restartPolicy": "Always"}}, "spec.restartPolicy"),
    "resourceClaims": ({"spec": {"resourceClaims": []}}, "spec.resourceClaims"),
    "finalizers": ({"metadata": {"finalizers": ["x/y"]}}, "metadata.finalizers"),
    "ownerReferences": ({"metadata": {"ownerReferences": []}}, "metadata.ownerReferences"),
    "label of Ray": ({"metadata": {"labels": {"ray.io/cluster": "x"}}}, "metadata.labels.ray.io/cluster"),
    "label of ours": (
        {"metadata": {"labels": {"trainsweep.io/sweep-uid": "x"}}},
        "metadata.labels.trainsweep.io/sweep-uid",
    ),
    "label of Kueue": (
        {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "x"}}},
        "metadata.labels.kueue.x-k8s.io/queue-name",
    ),
    "control annotation": (
        {"metadata": {"annotations": {"trainsweep.io/control": "{}"}}},
        "metadata.annotations.trainsweep.io/control",
    ),
    "tracking of Argo CD": (
        {"metadata": {"annotations": {"argocd.argoproj.io/tracking-id": "x"}}},
        "metadata.annotations.argocd.argoproj.io/tracking-id",
    ),
    "tracking of Argo CD by label": (
        {"metadata": {"labels": {"app.kubernetes.io/instance": "x"}}},
        "metadata.labels.app.kubernetes.io/instance",
    ),
    "tracking of Flux": (
        {"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": "x"}}},
        "metadata.labels.kustomize.toolkit.fluxcd.io/name",
    ),
    "last applied": (
        {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x"}}},
        "metadata.annotations.kubectl.kubernetes.io/last-applied-configuration",
    ),
    "role by annotation": (
        {"metadata": {"annotations": {"iam.amazonaws.com/role": "admin"}}},
        "metadata.annotations.iam.amazonaws.com/role",
    ),
    "apparmor off": (
        {"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/ray-head": "unconfined"}}},
        "metadata.annotations.container.apparmor.security.beta.kubernetes.io/ray-head",
    ),
    "other networks": (
        {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "x"}}},
        "metadata.annotations.k8s.v1.cni.cncf.io/networks",
    ),
    "unquoted label": ({"metadata": {"labels": {"tier": 1}}}, "metadata.labels.tier"),
    "image of the Ray container": (ray(image="evil"), "spec.containers[0].image"),
    "command of the Ray container": (ray(command=["sh"]), "spec.containers[0].command"),
    "env of the Ray container": (ray(env=[{"name": "RAY_ADDRESS", "value": "x"}]), "spec.containers[0].env"),
    "securityContext of the Ray container": (
        ray(securityContext={"privileged": True}),
        "spec.containers[0].securityContext",
    ),
    "lifecycle of the Ray container": (ray(lifecycle={}), "spec.containers[0].lifecycle"),
    "resources of the Ray container": (ray(resources={}), "spec.containers[0].resources"),
    "the Ray container by its own name": (
        {"spec": {"containers": [{"name": "ray-head", "image": "evil"}]}},
        "spec.containers[0].image",
    ),
    "the autoscaler": ({"spec": {"containers": [{"name": "autoscaler", "image": "evil"}]}}, "spec.containers[0].name"),
    "container without a name": ({"spec": {"containers": [{"image": "evil"}]}}, "spec.containers[0].name"),
    "mount of a class's volume": (
        ray(volumeMounts=[{"name": "venv", "mountPath": "/x"}]),
        "spec.containers[0].volumeMounts[0].name",
    ),
    "mount of our volume in a sidecar": (
        sidecar(volumeMounts=[{"name": "trainsweep-control", "mountPath": "/x"}]),
        "spec.containers[0].volumeMounts[0].name",
    ),
    "mount over our control file": (
        {
            "spec": {
                "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [
                    {"name": "ray", "volumeMounts": [{"name": "v", "mountPath": "/etc//trainsweep/./control"}]}
                ],
            }
        },
        "spec.containers[0].volumeMounts[0].mountPath",
    ),
    "mount over everything": (
        {
            "spec": {
                "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [{"name": "ray", "volumeMounts": [{"name": "v", "mountPath": "/"}]}],
            }
        },
        "spec.containers[0].volumeMounts[0].mountPath",
    ),
    "mount propagation": (
        {
            "spec": {
                "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [
                    {
                        "name": "ray",
                        "volumeMounts": [{"name": "v", "mountPath": "/x", "mountPropagation": "Bidirectional"}],
                    }
                ],
            }
        },
        "spec.containers[0].volumeMounts[0].mountPropagation",
    ),
    "privileged sidecar": (
        sidecar(securityContext={"privileged": True}),
        "spec.containers[0].securityContext.privileged",
    ),
    "escalating sidecar": (
        sidecar(securityContext={"allowPrivilegeEscalation": True}),
        "spec.containers[0].securityContext.allowPrivilegeEscalation",
    ),
    "root sidecar": (sidecar(securityContext={"runAsUser": 0}), "spec.containers[0].securityContext.runAsUser"),
    "sidecar not non-root": (
        sidecar(securityContext={"runAsNonRoot": False}),
        "spec.containers[0].securityContext.runAsNonRoot",
    ),
    "sidecar with capabilities": (
        sidecar(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}),
        "spec.containers[0].securityContext.capabilities",
    ),
    "sidecar without seccomp": (
        sidecar(securityContext={"seccompProfile": {"type": "Unconfined"}}),
        "spec.containers[0].securityContext.seccompProfile",
    ),
    "sidecar with procMount": (
        sidecar(securityContext={"procMount": "Unmasked"}),
        "spec.containers[0].securityContext.procMount",
    ),
    "sidecar with host port": (
        sidecar(ports=[{"containerPort": 1, "hostPort": 1}]),
        "spec.containers[0].ports[0].hostPort",
    ),
    "sidecar with a device": (sidecar(volumeDevices=[]), "spec.containers[0].volumeDevices"),
    "sidecar with a GPU": (
        sidecar(resources={"limits": {"nvidia.com/gpu": 8}}),
        "spec.containers[0].resources.limits.nvidia.com/gpu",
    ),
    "sidecar with lifecycle": (sidecar(lifecycle={}), "spec.containers[0].lifecycle"),
    "sidecar that restarts": (sidecar(restartPolicy="Always"), "spec.containers[0].restartPolicy"),
    "probe of another host": (
        sidecar(livenessProbe={"httpGet": {"host": "169.254.169.254", "port": 80}}),
        "spec.containers[0].livenessProbe.httpGet.host",
    ),
    "spec is no object": ({"spec": []}, "spec"),
    "volumes are no list": ({"spec": {"volumes": {}}}, "spec.volumes"),
    "a container is no object": ({"spec": {"containers": ["x"]}}, "spec.containers[0]"),
    "another key": ({"apiVersion": "v1"}, "apiVersion"),
}


@pytest.mark.parametrize("name", ESCAPES)
@pytest.mark.parametrize("where", ["head", "worker"])
def test_escape_is_refused_with_its_path(name, where):
    template, path = ESCAPES[name]
    if where == "head":
        spec, prefix = raw(cluster={"head": {"podTemplate": template}}), "spec.cluster.head.podTemplate"
    else:
        group = {"name": "g", "resources": {"cpu": 2, "memory": "4Gi"}, "podTemplate": template}
        spec, prefix = raw(cluster={"workerGroups": [group]}), "spec.cluster.workerGroups[0].podTemplate"
    problems = check_class(render_input(spec, klass()).spec, spec, klass(), "team")
    assert f"{prefix}.{path}" in [p.path for p in problems], problems
    assert {p.reason for p in problems} == {Reason.NOT_ALLOWED}


ALLOWED = {
    "labels and annotations": {"metadata": {"labels": {"team": "a"}, "annotations": {"prometheus.io/scrape": "true"}}},
    "affinity": {"spec": {"affinity": {"podAntiAffinity": {}}}},
    "topology spread": {
        "spec": {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
            ]
        }
    },
    "volumes and their mounts": {
        "spec": {
            "volumes": [
                {"name": "scratch", "emptyDir": {"sizeLimit": "10Gi"}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "d", "readOnly": True}},
                {"name": "token", "secret": {"secretName": "hub"}},
                {"name": "all", "projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}]}},
            ],
            "containers": [
                {
                    "name": "ray",
                    "volumeMounts": [
                        {"name": n, "mountPath": f"/mnt/{n}"} for n in ("scratch", "data", "token", "all")
                    ],
                }
            ],
        }
    },
    "sidecar": sidecar(
        args=["--port", "1"],
        ports=[{"containerPort": 9090}],
        securityContext={"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}},
        livenessProbe={"httpGet": {"port": 9090}},
    ),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed_neighbour_renders_valid(name):
    spec = raw(cluster={"head": {"podTemplate": ALLOWED[name]}})
    inp = render_input(spec, klass())
    assert check_class(inp.spec, spec, klass(), "team") == []
    assert check(render(inp), kueue=False) == []


def test_a_name_of_the_class_overlay_cannot_be_taken():
    overlay = {
        "spec": {
            "volumes": [{"name": "venv", "hostPath": {"path": "/v"}}],
            "containers": [{"name": "agent", "image": "a", "securityContext": {"privileged": True}}],
        }
    }
    template = {
        "spec": {
            "volumes": [{"name": "venv", "emptyDir": {}}],
            "containers": [{"name": "agent", "image": "mine", "volumeMounts": [{"name": "venv", "mountPath": "/x"}]}],
        }
    }
    spec, sweep_class = raw(cluster={"head": {"podTemplate": template}}), klass(podOverlay={"head": overlay})
    paths = [p.path for p in check_class(render_input(spec, sweep_class).spec, spec, sweep_class, "team")]
    assert "spec.cluster.head.podTemplate.spec.volumes[0].name" in paths
    assert "spec.cluster.head.podTemplate.spec.containers[0].name" in paths


def test_a_class_may_do_what_a_sweep_may_not():
    overlay = {"spec": {"hostNetwork": True, "volumes": [{"name": "h", "hostPath": {"path": "/"}}]}}
    sweep_class = klass(podOverlay={"head": overlay, "worker": overlay})
    inp = render_input(raw(), sweep_class)
    assert check_class(inp.spec, raw(), sweep_class, "team") == []
    pod = render(inp)["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    assert pod["hostNetwork"] is True


def test_a_class_overlay_that_cannot_be_merged_is_said_and_never_crashes():
    for overlay in ({"spec": []}, {"spec": {"containers": [{"image": "x"}]}}, {"metadata": {"labels": {"a": 1}}}):
        sweep_class = klass(podOverlay={"worker": overlay})
        (problem,) = check_class(render_input(raw(), sweep_class).spec, raw(), sweep_class, "team")
        assert problem.path.startswith("TrainSweepClass spec.podOverlay.worker")


KEYS = [
    *("metadata", "spec", "labels", "containers", "volumes", "name", "volumeMounts", "securityContext", "resources"),
    *("limits", "projected", "sources", "affinity", "livenessProbe", "capabilities", "drop", "ports", "image"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=30,
)


SIDECAR = st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4).map(
    lambda more: {"name": "side", "image": "s", **more}
)
TEMPLATE = st.dictionaries(st.sampled_from(["metadata", "spec"]), JSON) | st.lists(SIDECAR, min_size=1, max_size=2).map(
    lambda containers: {"spec": {"containers": containers}}
)


@given(TEMPLATE)
@settings(max_examples=400, deadline=None)
def test_no_shape_of_a_template_crashes_and_whatever_passes_renders(template):
    problems = check_overlay("spec.cluster.head.podTemplate", template)
    if not problems:
        inp = render_input(raw(cluster={"head": {"podTemplate": template}}), klass())
        assert (
            render(inp)["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["name"]
            == "ray-head"
        )
