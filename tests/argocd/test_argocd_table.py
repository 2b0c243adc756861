"""The health table, the actions and both ways of comparing by a real Argo CD on a control plane without an operator.

The states are those of `tests/unit/argocd/lifecycle.py`, written into real objects: what Argo CD shows of each is compared
with what the scripts say in Lua 5.1 here, and `kubectl wait` with its twin.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from devcluster import argocd
from devcluster.cluster import Cluster
from devcluster.waiting import wait_for
from tests.argocd.argo import Argo, never_out_of_sync
from tests.platform.conftest import ROOT
from tests.unit.argocd.lifecycle import STATES, body
from tests.unit.argocd.tools import argo_health, discover
from trainsweep.contract.labels import RETRY_NOW

pytestmark = pytest.mark.usefixtures("background")  # the sweeps of the other file run meanwhile

SPACE = "default"
APP = "table"


@pytest.fixture(scope="module")
def argo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Argo]:
    """Argo CD beside a control plane with our CRDs, and an Application with a sweep for every state."""
    shipped = yaml.safe_load((ROOT / "manifests/argocd/argocd-cm.yaml").read_text(encoding="utf-8"))["data"]
    with Cluster(os.environ.get("TRAINSWEEP_ARGOCD_TABLE", "argocd-table"), control_plane_only=True) as cluster:
        cluster.kubectl("apply", "--server-side", "-k", ROOT / "manifests/crd")
        wait_for("our CRDs", lambda: _served(cluster), 60)
        cluster.install_argocd(settings={**shipped, "application.resourceTrackingMethod": "annotation"})
        yield Argo(cluster, tmp_path_factory.mktemp("git") / "sweeps")


def _served(cluster: Cluster) -> str | None:
    found = cluster.kubectl("get", "--raw", "/apis").count("trainsweep.io")
    return None if found else "not served yet"


def sweep(name: str) -> dict[str, Any]:
    """A state's sweep as it would lie in Git."""
    made = body(STATES[name].make())
    metadata = {"name": name, "namespace": SPACE}
    return {"apiVersion": made["apiVersion"], "kind": "TrainSweep", "metadata": metadata, "spec": made["spec"]}


def read(argo: Argo) -> dict[str, dict[str, Any]]:
    """All sweeps, by name."""
    text = argo.cluster.kubectl("get", "trainsweeps", "-n", SPACE, "-o", "json")
    return {item["metadata"]["name"]: item for item in json.loads(text)["items"]}


def show(argo: Argo, name: str) -> None:
    """Writes a state's status and finalizers into its object, as the operator would."""
    made, live = body(STATES[name].make()), read(argo)[name]
    status = made["status"]
    skew = status.get("observedGeneration", -1) - made["metadata"]["generation"]
    status["observedGeneration"] = max(-1, live["metadata"]["generation"] + skew)
    patch = json.dumps({"status": status})
    kubectl = argo.cluster.kubectl
    kubectl("patch", "trainsweep", name, "-n", SPACE, "--subresource=status", "--type=merge", "-p", patch)
    finalizers = made["metadata"].get("finalizers", [])
    if finalizers:
        patch = json.dumps({"metadata": {"finalizers": finalizers}})
        kubectl("patch", "trainsweep", name, "-n", SPACE, "--type=merge", "-p", patch)
    if "deletionTimestamp" in made["metadata"]:
        kubectl("delete", "trainsweep", name, "-n", SPACE, "--wait=false")


def shown(argo: Argo, app: str = APP) -> dict[str, dict[str, str]]:
    """Health of every sweep as Argo CD's API server has it."""
    tree = argocd.call(argo.cluster, "GET", f"/api/v1/applications/{app}/resource-tree")
    found = {}
    for node in tree.get("nodes") or []:
        if node["kind"] == "TrainSweep":
            health = node.get("health") or {}
            found[node["name"]] = {"status": health.get("status", ""), "message": health.get("message", "")}
    return found


@pytest.fixture(scope="module")
def table(argo: Argo) -> Iterator[Argo]:
    """Every state, synced and shown."""
    argo.commit({f"{APP}/sweeps.yaml": [sweep(name) for name in STATES]})
    argo.application(APP, SPACE)
    argo.wait(APP, "Synced", lambda s: s.sync == "Synced", 120)
    for name in STATES:
        show(argo, name)
    yield argo
    argo.cluster.kubectl(
        "patch", "trainsweep", "deleting", "-n", SPACE, "--type=merge", "-p", '{"metadata":{"finalizers":null}}'
    )


def test_argo_cd_shows_what_the_table_says(table: Argo) -> None:
    live = read(table)
    expected = {name: argo_health(live[name]) for name in STATES}
    assert {name: about["status"] for name, about in expected.items()} == {n: s.health for n, s in STATES.items()}

    def differ() -> str | None:
        seen = shown(table)
        wrong = {name: (seen.get(name), about) for name, about in expected.items() if seen.get(name) != about}
        return str(wrong) if wrong else None

    wait_for("the health of every state", differ, 60)


@pytest.mark.parametrize("condition", ["Finished", "Succeeded", "Ready"])
def test_kubectl_wait_returns_for_what_the_table_says(table: Argo, condition: str) -> None:
    argv = [str(table.cluster.kubectl_bin), "--kubeconfig", str(table.cluster.kubeconfig), "wait", "-n", SPACE]
    argv += [f"--for=condition={condition}", "--timeout=0s", *(f"trainsweep/{name}" for name in STATES)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    met = {line.split("/")[1].split()[0] for line in done.stdout.splitlines() if "condition met" in line}
    assert met == {name for name, state in STATES.items() if condition in state.waits}, done.stdout + done.stderr


def test_argo_cd_offers_the_actions_that_the_scripts_do(table: Argo) -> None:
    live = read(table)
    for name in ("running", "retrying", "completed", "suspended", "retries-exhausted"):
        expected = {action: not about["disabled"] for action, about in discover(live[name]).items()}
        assert table.actions(APP, SPACE, name) == expected, name


def test_actions_change_the_object_and_self_healing_leaves_them_alone(table: Argo) -> None:
    table.act(APP, SPACE, "running", "suspend")
    assert read(table)["running"]["spec"]["suspend"] is True
    table.act(APP, SPACE, "retrying", "retry")
    assert RETRY_NOW in read(table)["retrying"]["metadata"]["annotations"]
    began = time.monotonic()
    table.refresh(APP)
    seen = table.wait(APP, "half a minute", lambda s: time.monotonic() - began > 30, 60)
    assert {s.sync for s in seen} == {"Synced"}
    live = read(table)
    assert live["running"]["spec"]["suspend"] is True
    assert RETRY_NOW in live["retrying"]["metadata"]["annotations"]
    table.act(APP, SPACE, "running", "resume")
    restored = read(table)["running"]
    assert restored["spec"] == sweep("running")["spec"] | {
        key: value for key, value in restored["spec"].items() if key not in sweep("running")["spec"]
    }
    assert "suspend" not in restored["spec"]


@pytest.mark.parametrize("tracking", ["annotation", "label"])
@pytest.mark.parametrize("server_side", [False, True], ids=["client-side diff", "server-side diff"])
def test_what_an_operator_writes_is_no_difference(argo: Argo, tracking: str, server_side: bool) -> None:
    argo.settings({"application.resourceTrackingMethod": tracking})
    app = f"diff-{tracking}-{'server' if server_side else 'client'}"
    made = sweep("running")
    made["metadata"] |= {"name": app}
    argo.commit({f"{app}/sweep.yaml": [made]})
    argo.application(app, SPACE, server_side=server_side)
    seen = argo.wait(app, "Synced", lambda s: s.sync == "Synced", 90)
    status = body(STATES["completed"].make())["status"]
    kubectl = argo.cluster.kubectl
    patch = json.dumps({"metadata": {"finalizers": ["trainsweep.io/settlement"], "annotations": {RETRY_NOW: "x"}}})
    kubectl("patch", "trainsweep", app, "-n", SPACE, "--type=merge", "-p", patch)
    patch = json.dumps({"status": status})
    kubectl("patch", "trainsweep", app, "-n", SPACE, "--subresource=status", "--type=merge", "-p", patch)
    for _ in range(3):
        argo.refresh(app)
        seen += argo.wait(app, "a look", lambda s: s.health == "Healthy", 60)
        time.sleep(2)
        seen.append(argo.look(app))
    assert never_out_of_sync(seen), [(s.sync, s.health) for s in seen]
    assert len(argo.get(app)["status"]["history"]) == 1
    kubectl("patch", "trainsweep", app, "-n", SPACE, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


def test_a_refused_change_is_said_at_the_sync_with_our_words(argo: Argo) -> None:
    app = "fixed"
    made = sweep("running")
    made["metadata"] |= {"name": app}
    argo.commit({f"{app}/sweep.yaml": [made]})
    argo.application(app, SPACE)
    argo.wait(app, "a first sync", lambda s: (s.sync, s.phase) == ("Synced", "Succeeded"), 90)
    made["spec"]["trials"]["count"] += 1
    argo.commit({f"{app}/sweep.yaml": [made]})
    argo.refresh(app)

    def said() -> str:
        """What the sync says, also while Argo CD tries it again, five times by default."""
        state = argo.get(app)["status"].get("operationState", {})
        return json.dumps(state.get("syncResult", {})) + state.get("message", "")

    words = "spec.trials: Forbidden: is immutable: create a sweep under another name"
    seen = argo.wait(app, "our words", lambda _: words in said(), 90)
    assert seen[-1].sync == "OutOfSync", seen[-1]
