"""KubeRay 1.6 in HTTPMode as far as an operator above it can see, its ugly sides included.

It knows nothing of TrainSweep: it reads RayJobs, makes RayClusters and pods, asks `Jobs` how the Ray job is, and writes
status. There is no kubelet: pods are patched to Running here, and linger for a moment when they are deleted.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from tests.integration.operator.doubles.api import Api, ApiError, Mirror, Object
from trainsweep.runtime.kube import POD, RAY_CLUSTER, RAY_JOB

_log = logging.getLogger(__name__)

JOB_FINALIZER = "ray.io/rayjob-finalizer"
POD_FINALIZER = "test.trainsweep.io/linger"
KEEP_HEAD_LOST = "ray.io/disable-provisioned-head-restart"
TERMINAL = ("SUCCEEDED", "FAILED", "STOPPED")


class Jobs(Protocol):
    """The Ray job servers of all clusters."""

    def info(self, uid: str) -> tuple[str, str] | None:
        """Status and message of the job of a RayJob, None where none was submitted."""
        ...

    def submit(self, job: Object, head: Object) -> None:
        """Starts the job on a cluster's head."""
        ...

    def kill(self, uid: str) -> None:
        """The head is gone: nothing runs and nobody answers any more."""
        ...

    def stop(self, uid: str) -> None:
        """POST .../stop: SIGTERM to the driver."""
        ...


def now() -> str:
    """RFC 3339, as KubeRay writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def since(text: str | None) -> float:
    """Seconds since an RFC 3339 time."""
    return time.time() - datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() if text else 0.0


def invalid(job: Mapping[str, Any]) -> str:
    """A few of KubeRay's own rules: what makes a RayJob ValidationFailed, with no way out."""
    spec = job["spec"]
    if len(job["metadata"]["name"]) > 47:
        return "RayJob name should be no more than 47 characters"
    if spec.get("suspend") and not spec.get("shutdownAfterJobFinishes"):
        return "a RayJob with shutdownAfterJobFinishes set to false is not allowed to be suspended"
    if spec.get("ttlSecondsAfterFinished", 0) < 0:
        return "ttlSecondsAfterFinished must be a non-negative integer"
    if not spec.get("rayClusterSpec"):
        return "one of RayClusterSpec or ClusterSelector must be set"
    return ""


class KubeRayDouble:
    """The controller. Everything it needs lies in the objects, so it may be stopped and started."""

    def __init__(self, api: Api, jobs: Jobs, *, start_seconds: float = 0.3, linger_seconds: float = 0.7) -> None:
        self._api, self._jobs = api, jobs
        self.start_seconds, self.linger_seconds = start_seconds, linger_seconds
        self.unschedulable: set[str] = set()
        """Names of sweeps whose pods find no node."""
        self._wake = threading.Event()
        self._stop = threading.Event()
        changed = self._wake.set
        self.rayjobs = Mirror(api, RAY_JOB, on_change=changed)
        self.clusters = Mirror(api, RAY_CLUSTER, on_change=changed)
        self.pods = Mirror(api, POD, "ray.io/is-ray-node=yes", on_change=changed)
        self._thread = threading.Thread(target=self._run, daemon=True, name="kuberay-double")

    def start(self) -> None:
        """Begins to work."""
        for mirror in (self.rayjobs, self.clusters, self.pods):
            mirror.start()
        self._thread.start()

    def stop(self) -> None:
        """Ends."""
        self._stop.set()
        self._wake.set()
        for mirror in (self.rayjobs, self.clusters, self.pods):
            mirror.stop()
        if self._thread.is_alive():
            self._thread.join(10)

    def head_of(self, namespace: str, cluster: str) -> Object | None:
        """The head pod of a RayCluster that is not being deleted."""
        return next(
            (
                p
                for p in self._pods_of(namespace, cluster)
                if p["metadata"]["labels"].get("ray.io/node-type") == "head"
                and "deletionTimestamp" not in p["metadata"]
            ),
            None,
        )

    # ------------------------------------------------------------------------------------------------------- the loop

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(0.25)
            self._wake.clear()
            for job in self.rayjobs.items():
                self._guarded(self._job, job)
            for cluster in self.clusters.items():
                self._guarded(self._cluster, cluster)
            for pod in self.pods.items():
                self._guarded(self._pod, pod)
            self._stop.wait(0.05)

    def _guarded(self, step: Any, body: Object) -> None:
        try:
            step(body)
        except ApiError as error:
            # 404 and 409: the mirror was behind; the next round sees better.
            if error.status not in (404, 409):
                _log.warning("kuberay double, %s: %s", body["metadata"]["name"], error)
        except Exception:
            if not self._stop.is_set():
                _log.exception("kuberay double, %s", body["metadata"]["name"])

    # ----------------------------------------------------------------------------------------------------------- jobs

    def _job(self, job: Object) -> None:
        meta, status = job["metadata"], job.get("status") or {}
        if "deletionTimestamp" in meta:
            if JOB_FINALIZER in meta.get("finalizers", []):
                if status.get("jobStatus") not in TERMINAL:
                    self._jobs.stop(meta["uid"])
                kept = [f for f in meta["finalizers"] if f != JOB_FINALIZER]
                patch = {"metadata": {"finalizers": kept, "resourceVersion": meta["resourceVersion"]}}
                self._api.patch(RAY_JOB, meta["name"], patch, meta["namespace"])
            return
        state = status.get("jobDeploymentStatus", "")
        if problem := invalid(job):
            if state != "ValidationFailed":
                self._write(job, jobDeploymentStatus="ValidationFailed", reason="ValidationFailed", message=problem)
            return
        match state:
            case "":
                self._new(job)
            case "Initializing":
                self._initializing(job)
            case "Running":
                self._running(job)
            case "Complete" | "Failed":
                self._finished(job)
            case "Suspending":
                self._suspending(job)
            case "Suspended":
                if not job["spec"].get("suspend"):
                    self._write(job, jobDeploymentStatus="", jobStatus="", rayClusterName="", jobId="")
            case _:
                pass  # ValidationFailed: a loop without a case, for ever

    def _write(self, job: Object, **changes: Any) -> None:
        body = {**job, "status": {**(job.get("status") or {}), **changes}}
        body["status"] = {k: v for k, v in body["status"].items() if v is not None}
        self._api.put_status(RAY_JOB, body)

    def _new(self, job: Object) -> None:
        meta = job["metadata"]
        if JOB_FINALIZER not in meta.get("finalizers", []):
            finalizers = [*meta.get("finalizers", []), JOB_FINALIZER]
            patch = {"metadata": {"finalizers": finalizers, "resourceVersion": meta["resourceVersion"]}}
            job = self._api.patch(RAY_JOB, meta["name"], patch, meta["namespace"])
        self._write(
            job,
            jobDeploymentStatus="Initializing",
            jobStatus="",
            jobId=f"{meta['name']}-{secrets.token_hex(3)[:5]}",
            rayClusterName=f"{meta['name'][:47]}-{secrets.token_hex(3)[:5]}",
            startTime=now(),
        )

    def _late(self, job: Object) -> bool:
        """The backstop: it ends the RayJob and does not stop the Ray job."""
        deadline = job["spec"].get("activeDeadlineSeconds")
        if deadline is None or since(job["status"].get("startTime")) < deadline:
            return False
        self._write(
            job,
            jobDeploymentStatus="Failed",
            reason="DeadlineExceeded",
            message="The RayJob has passed the activeDeadlineSeconds. StartTime: ...",
            endTime=now(),
            failed=1,
        )
        return True

    def _initializing(self, job: Object) -> None:
        if job["spec"].get("suspend"):
            self._write(job, jobDeploymentStatus="Suspending")
            return
        if self._late(job):
            return
        early = job["spec"].get("preRunningDeadlineSeconds")
        if early is not None and since(job["status"].get("startTime")) >= early:
            self._write(job, jobDeploymentStatus="Failed", reason="PreRunningDeadlineExceeded", endTime=now(), failed=1)
            return
        cluster = self._get_or_create_cluster(job)
        if cluster is None:
            return
        seen = cluster.get("status") or {}
        if seen.get("state") == "ready":
            self._write(job, jobDeploymentStatus="Running", rayClusterStatus=_copied(seen), dashboardURL="double:8265")
        elif seen and _copied(seen) != job["status"].get("rayClusterStatus"):
            self._write(job, rayClusterStatus=_copied(seen))

    def _running(self, job: Object) -> None:
        meta, status = job["metadata"], job["status"]
        if job["spec"].get("suspend"):
            self._write(job, jobDeploymentStatus="Suspending")
            return
        if self._late(job):
            return
        cluster = self._get_or_create_cluster(job)
        head = self.head_of(meta["namespace"], status["rayClusterName"])
        if cluster is None or head is None:
            # The dashboard does not answer: the status stays as it was, for ever (1.6).
            self._jobs.kill(meta["uid"])
            return
        found = self._jobs.info(meta["uid"])
        if found is None:
            self._jobs.submit(job, head)
            return
        state, message = found
        if state in ("SUCCEEDED", "STOPPED"):
            done = 1 if state == "SUCCEEDED" else 0
            self._write(
                job, jobStatus=state, message=message, jobDeploymentStatus="Complete", endTime=now(), succeeded=done
            )
        elif state == "FAILED":
            self._write(
                job,
                jobStatus=state,
                message=message,
                reason="AppFailed",
                jobDeploymentStatus="Failed",
                endTime=now(),
                failed=1,
            )
        elif state and state != status.get("jobStatus"):
            self._write(job, jobStatus=state, message=message)

    def _finished(self, job: Object) -> None:
        """The lease: computed anew from the spec each time."""
        spec, status = job["spec"], job["status"]
        name = status.get("rayClusterName", "")
        if not spec.get("shutdownAfterJobFinishes") or since(status.get("endTime")) < spec.get(
            "ttlSecondsAfterFinished", 0
        ):
            return
        cluster = self.clusters.get(job["metadata"]["namespace"], name)
        if cluster is not None and "deletionTimestamp" not in cluster["metadata"]:
            self._api.delete(RAY_CLUSTER, name, job["metadata"]["namespace"])

    def _suspending(self, job: Object) -> None:
        """Kueue's preemption: the cluster goes at once, nobody is asked."""
        name, namespace = job["status"].get("rayClusterName", ""), job["metadata"]["namespace"]
        if name and self._api.get(RAY_CLUSTER, name, namespace) is not None:
            self._jobs.kill(job["metadata"]["uid"])
            self._api.delete(RAY_CLUSTER, name, namespace)
            return
        self._write(job, jobDeploymentStatus="Suspended", jobStatus="", rayClusterStatus=None)

    def _get_or_create_cluster(self, job: Object) -> Object | None:
        meta, name = job["metadata"], job["status"]["rayClusterName"]
        cluster = self.clusters.get(meta["namespace"], name)
        if cluster is not None:
            return cluster
        annotations = dict(meta.get("annotations") or {})
        self._api.create(
            RAY_CLUSTER,
            {
                "metadata": {
                    "name": name,
                    # All labels and annotations of the RayJob are copied, whoever put them there.
                    "labels": {
                        **(meta.get("labels") or {}),
                        "ray.io/originated-from-cr-name": meta["name"],
                        "ray.io/originated-from-crd": "RayJob",
                        "ray.io/job-submission-mode": job["spec"].get("submissionMode", "K8sJobMode"),
                    },
                    "annotations": annotations,
                    "ownerReferences": [_owner(RAY_JOB.api_version, RAY_JOB.kind, meta)],
                },
                "spec": job["spec"]["rayClusterSpec"],
            },
            meta["namespace"],
        )
        return None

    # ------------------------------------------------------------------------------------------------ clusters and pods

    def _pods_of(self, namespace: str, cluster: str) -> list[Object]:
        return [
            p
            for p in self.pods.items()
            if p["metadata"]["namespace"] == namespace and p["metadata"]["labels"].get("ray.io/cluster") == cluster
        ]

    def _cluster(self, cluster: Object) -> None:
        meta, status = cluster["metadata"], cluster.get("status") or {}
        if "deletionTimestamp" in meta:
            return
        pods = self._pods_of(meta["namespace"], meta["name"])
        head = next((p for p in pods if p["metadata"]["labels"]["ray.io/node-type"] == "head"), None)
        provisioned = _is_true(status, "RayClusterProvisioned")
        if head is None:
            if provisioned and (meta.get("annotations") or {}).get(KEEP_HEAD_LOST) == "true":
                if _is_true(status, "HeadPodReady"):
                    # `state` never goes back: a cluster without a head stays "ready".
                    self._say(cluster, _condition("HeadPodReady", "False", "HeadPodNotFound", "Head Pod not found"))
                return
            self._make_pod(cluster, "head", "headgroup", cluster["spec"]["headGroupSpec"]["template"])
            return
        for group in cluster["spec"].get("workerGroupSpecs") or []:
            there = [p for p in pods if p["metadata"]["labels"].get("ray.io/group") == group["groupName"]]
            if len(there) < (group.get("replicas") or 0):
                self._make_pod(cluster, "worker", group["groupName"], group["template"])
                return
        if all(_pod_ready(p) for p in pods) and not provisioned:
            self._say(
                cluster,
                _condition("HeadPodReady", "True", "HeadPodRunningAndReady", ""),
                _condition("RayClusterProvisioned", "True", "AllPodRunningAndReadyFirstTime", ""),
                state="ready",
            )

    def _say(self, cluster: Object, *conditions: Object, **changes: Any) -> None:
        status = cluster.get("status") or {}
        kinds = {c["type"] for c in conditions}
        kept = [c for c in status.get("conditions", []) if c["type"] not in kinds]
        body = {**cluster, "status": {**status, **changes, "conditions": [*kept, *conditions]}}
        self._api.put_status(RAY_CLUSTER, body)

    def _make_pod(self, cluster: Object, node_type: str, group: str, template: Object) -> None:
        meta, given = cluster["metadata"], template.get("metadata") or {}
        suffix = "head" if node_type == "head" else f"{group}-worker-{secrets.token_hex(3)[:5]}"
        spec = {**template["spec"], "schedulerName": "kuberay-double"}
        pod = {
            "metadata": {
                "name": f"{meta['name']}-{suffix}"[:63],
                "labels": {
                    **(given.get("labels") or {}),
                    "ray.io/cluster": meta["name"],
                    "ray.io/node-type": node_type,
                    "ray.io/group": group,
                    "ray.io/is-ray-node": "yes",
                },
                "annotations": given.get("annotations") or {},
                "finalizers": [POD_FINALIZER],
                "ownerReferences": [_owner(RAY_CLUSTER.api_version, RAY_CLUSTER.kind, meta)],
            },
            "spec": spec,
        }
        self._api.create(POD, pod, meta["namespace"])

    def _pod(self, pod: Object) -> None:
        meta = pod["metadata"]
        if "deletionTimestamp" in meta:
            if since(meta["deletionTimestamp"]) >= self.linger_seconds and POD_FINALIZER in meta.get("finalizers", []):
                self._api.patch(POD, meta["name"], {"metadata": {"finalizers": None}}, meta["namespace"])
            return
        if pod["status"]["phase"] == "Pending" and meta["labels"].get("trainsweep.io/sweep") in self.unschedulable:
            if not pod["status"].get("conditions"):
                words = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
                why = _condition("PodScheduled", "False", "Unschedulable", words)
                self._api.patch(POD, meta["name"], {"status": {"conditions": [why]}}, meta["namespace"], sub="status")
            return
        if pod["status"]["phase"] == "Pending" and since(meta["creationTimestamp"]) >= self.start_seconds:
            names = [c["name"] for c in pod["spec"]["containers"]]
            status = {
                "phase": "Running",
                "conditions": [_condition("Ready", "True", "Double", "")],
                "containerStatuses": [
                    {
                        "name": n,
                        "ready": True,
                        "restartCount": 0,
                        "image": "x",
                        "imageID": "x",
                        "state": {"running": {"startedAt": now()}},
                    }
                    for n in names
                ],
            }
            self._api.patch(POD, meta["name"], {"status": status}, meta["namespace"], sub="status")


def _pod_ready(pod: Object) -> bool:
    return pod["status"]["phase"] == "Running" and _is_true(pod["status"], "Ready")


def _is_true(status: Mapping[str, Any], kind: str) -> bool:
    return any(c["type"] == kind and c["status"] == "True" for c in status.get("conditions") or [])


def _condition(kind: str, status: str, reason: str, message: str) -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now()}


def _copied(status: Mapping[str, Any]) -> Object:
    return {k: v for k, v in status.items() if k in ("state", "conditions")}


def _owner(api_version: str, kind: str, meta: Mapping[str, Any]) -> Object:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
