"""The chart asks before it goes: a Job that runs before anything is deleted, with the operator's image and rights."""

from __future__ import annotations

import importlib


def job(objects):
    (found,) = [item for item in objects if item["kind"] == "Job"]
    return found


def test_the_hook_runs_before_anything_is_deleted_and_its_failure_stops_helm(render):
    found = job(render())
    notes = found["metadata"]["annotations"]
    assert notes["helm.sh/hook"] == "pre-delete"
    assert "hook-failed" not in notes["helm.sh/hook-delete-policy"]  # its log says which sweeps live
    assert found["spec"]["backoffLimit"] == 0
    assert found["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_it_is_the_operators_image_account_and_namespaces(render):
    objects = render({"watchNamespaces": ["a", "b"], "image": {"repository": "r/x", "tag": "t"}})
    (deployment,) = [item for item in objects if item["kind"] == "Deployment"]
    theirs, ours = deployment["spec"]["template"]["spec"], job(objects)["spec"]["template"]["spec"]
    (container,) = ours["containers"]
    assert container["image"] == theirs["containers"][0]["image"] == "r/x:t"
    assert ours["serviceAccountName"] == theirs["serviceAccountName"]
    (account,) = [item for item in objects if item["kind"] == "ServiceAccount"]
    assert account["automountServiceAccountToken"] is False
    for pod in (theirs, ours):  # without its token it reads no sweep, and its failure refuses every uninstallation
        assert pod["automountServiceAccountToken"] is True
    assert {"name": "TRAINSWEEP_WATCH_NAMESPACES", "value": "a,b"} in container["env"]
    assert container["command"][:2] == ["python", "-m"]
    assert callable(importlib.import_module(container["command"][2]).main)


def test_it_fits_restricted_pod_security(render):
    spec = job(render())["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False
