"""A real Argo CD that syncs from a Git repository of the test, and the verbs that its tests are written in."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from devcluster import argocd, sweeps
from devcluster.cluster import Cluster
from devcluster.errors import DevClusterError

SETTLED = 5.0
"""Seconds after which Argo CD has read its settings anew and dropped what it had cached under the old ones."""
SERVER_SIDE = {"argocd.argoproj.io/compare-options": "ServerSideDiff=true"}


@dataclass
class Seen:
    """One look at an application: its sync, and the health of its sweep as Argo CD shows it."""

    at: float
    sync: str
    phase: str
    health: str
    message: str


class Argo:
    """Argo CD beside a cluster, with one Git repository."""

    def __init__(self, cluster: Cluster, repository: Path) -> None:
        self.cluster = cluster
        self.repository = repository
        self._one_at_a_time = threading.Lock()
        repository.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.email", "test@example.com")
        self.git("config", "user.name", "test")

    def git(self, *args: str) -> None:
        """A command of Git in the repository."""
        subprocess.run(["git", *args], cwd=self.repository, check=True, capture_output=True)

    def commit(self, files: dict[str, list[dict[str, Any]] | None]) -> None:
        """Objects a file; None removes a file."""
        with self._one_at_a_time:
            for name, objects in files.items():
                path = self.repository / name
                if objects is None:
                    path.unlink()
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                (path.parent / ".keep").touch()  # Git has no empty folders, and Argo CD no path that is not there
                path.write_text(yaml.safe_dump_all(objects, sort_keys=False), encoding="utf-8")
            self.git("add", "--all")
            self.git("commit", "--quiet", "--allow-empty", "--message", f"change {sorted(files)}")

    def application(self, name: str, namespace: str, *, server_side: bool = False, heal: bool = True) -> None:
        """An Application of the folder of its name, synced by itself."""
        options = ["ServerSideApply=true"] if server_side else []
        body = {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {
                "name": name,
                "namespace": argocd.NAMESPACE,
                "annotations": SERVER_SIDE if server_side else {},
                "finalizers": ["resources-finalizer.argocd.argoproj.io"],
            },
            "spec": {
                "project": "default",
                # An emptied folder is a folder still.
                "source": {"repoURL": f"file://{self.repository}", "path": name, "targetRevision": "main"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": namespace},
                "syncPolicy": {
                    "automated": {"prune": True, "selfHeal": heal, "allowEmpty": True},
                    "syncOptions": options,
                },
            },
        }
        sweeps.apply(self.cluster, body)

    def get(self, name: str) -> dict[str, Any]:
        """An Application; {} where it is gone."""
        text = self.cluster.kubectl(
            "get", "application", name, "-n", argocd.NAMESPACE, "-o", "json", "--ignore-not-found"
        )
        found: dict[str, Any] = json.loads(text) if text.strip() else {}
        return found

    def refresh(self, name: str) -> None:
        """Has Argo CD look at Git and cluster again now."""
        self.cluster.kubectl(
            "annotate", "application", name, "-n", argocd.NAMESPACE, "argocd.argoproj.io/refresh=normal", "--overwrite"
        )

    def delete(self, name: str) -> None:
        """Deletes an Application and, by its finalizer, all that it manages."""
        self.cluster.kubectl("delete", "application", name, "-n", argocd.NAMESPACE, "--wait=false")

    def look(self, name: str) -> Seen:
        """What Argo CD shows right now, by its own API server."""
        # Asked of Argo CD itself: a kubectl a second and test would be half a core.
        status: dict[str, Any] = {}
        health, message = "", ""
        try:
            status = argocd.call(self.cluster, "GET", f"/api/v1/applications/{name}").get("status", {})
            tree = argocd.call(self.cluster, "GET", f"/api/v1/applications/{name}/resource-tree")
        except DevClusterError:
            tree = {}
        for node in tree.get("nodes") or []:
            if node.get("kind") == "TrainSweep":
                found = node.get("health") or {}
                health, message = found.get("status", ""), found.get("message", "")
        return Seen(
            time.time(),
            (status.get("sync") or {}).get("status", ""),
            (status.get("operationState") or {}).get("phase", ""),
            health,
            message,
        )

    def wait(
        self, name: str, what: str, probe: Callable[[Seen], object], timeout: float = 120, every: float = 1.0
    ) -> list[Seen]:
        """Looks until `probe` is true; all that was seen, the last one is what was waited for."""
        until, seen = time.monotonic() + timeout, [self.look(name)]
        while not probe(seen[-1]):
            if time.monotonic() > until:
                conditions = self.get(name).get("status", {}).get("conditions", [])
                raise AssertionError(f"{name}: {what} not within {timeout} s; last: {seen[-3:]}; {conditions}")
            time.sleep(every)
            seen.append(self.look(name))
        return seen

    def settings(self, data: dict[str, str]) -> None:
        """Keys of Argo CD's ConfigMap; it takes them over while it runs."""
        self.cluster.kubectl(
            "patch", "configmap", "argocd-cm", "-n", argocd.NAMESPACE, "--type=merge", "-p", json.dumps({"data": data})
        )
        time.sleep(SETTLED)

    def actions(self, app: str, namespace: str, sweep: str) -> dict[str, bool]:
        """The actions that Argo CD offers for a sweep, and whether they can be run."""
        query = f"namespace={namespace}&resourceName={sweep}&version=v1alpha1&group=trainsweep.io&kind=TrainSweep"
        found = argocd.call(self.cluster, "GET", f"/api/v1/applications/{app}/resource/actions?{query}")
        return {one["name"]: not one.get("disabled", False) for one in found.get("actions") or []}

    def act(self, app: str, namespace: str, sweep: str, action: str) -> None:
        """Runs an action as the user interface does."""
        body = {
            "namespace": namespace,
            "resourceName": sweep,
            "version": "v1alpha1",
            "group": "trainsweep.io",
            "kind": "TrainSweep",
            "action": action,
        }
        argocd.call(self.cluster, "POST", f"/api/v1/applications/{app}/resource/actions/v2", body)


def never_out_of_sync(seen: list[Seen]) -> bool:
    """Whether it was Synced in every look after the first in which it was."""
    words = [one.sync for one in seen]
    return "Synced" in words and "OutOfSync" not in words[words.index("Synced") :]
