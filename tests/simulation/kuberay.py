"""The doubles of KubeRay (HTTPMode, one-way doors included) and of the node that runs its pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainsweep.contract import labels
from trainsweep.contract.documents import END_LINE
from trainsweep.core.times import to_seconds, to_text
from trainsweep.runtime.kube import POD, RAY_CLUSTER, RAY_JOB, NotFound, Object

if TYPE_CHECKING:
    from tests.simulation.world import World

JOB_FINALIZER = "ray.io/rayjob-finalizer"
HEAD_RESTART = "ray.io/disable-provisioned-head-restart"
POLL = 3.0
CHECK_TIMEOUT = 300.0
TERMINAL = ("Complete", "Failed")


class KubeRay:
    """Both controllers. `checks_out`: whether it is 1.7, which ends a RayJob whose head cannot be asked for 300 s."""

    def __init__(self, world: World, *, checks_out: bool) -> None:
        self.world, self.server, self.checks_out = world, world.server, checks_out
        self.down_until = 0.0
        self.deaf: dict[str, float] = {}
        self.unreached: set[str] = set()
        """Uids of RayJobs whose driver does not hear KubeRay's stop when they are deleted."""
        self.due: dict[str, float] = {}

    # ------------------------------------------------------------------ RayJobs

    def wake(self, name: str, after: float = 0.2) -> None:
        """A change of the RayJob wakes its controller at once."""
        when = self.world.now + after
        if when < self.due.get(name, float("inf")):
            self.due[name] = when
            self.world.at(when, lambda: self._run(name, when))

    def _run(self, name: str, when: float) -> None:
        if self.due.get(name) != when:
            return
        del self.due[name]
        if self.world.now < self.down_until:
            self.wake(name, self.down_until - self.world.now + 0.1)
            return
        job = self.server.find(RAY_JOB, name)
        if job is None or job["spec"].get("foreign"):
            return
        pause = self._deleting(job) if job["metadata"].get("deletionTimestamp") else self._reconcile(job)
        if pause is not None:
            self.wake(name, pause)

    def _status(self, job: Object, **changes: Any) -> Object:
        name = job["metadata"]["name"]
        return self.server.patch_status(RAY_JOB, name, changes)

    def _deleting(self, job: Object) -> float | None:
        if JOB_FINALIZER in (job["metadata"].get("finalizers") or ()):
            uid = job["metadata"]["uid"]
            driver = self.world.driver_of(uid)
            if driver is not None and uid not in self.unreached:
                driver.term = True
            left = [f for f in job["metadata"]["finalizers"] if f != JOB_FINALIZER]
            self.server.patch(RAY_JOB, job["metadata"]["name"], {"metadata": {"finalizers": left}})
        return None

    def _reconcile(self, job: Object) -> float | None:
        status, spec, meta = job.get("status") or {}, job["spec"], job["metadata"]
        state = status.get("jobDeploymentStatus", "")
        if state == "":
            if JOB_FINALIZER not in (meta.get("finalizers") or ()):
                finalizers = [*(meta.get("finalizers") or ()), JOB_FINALIZER]
                job = self.server.patch(RAY_JOB, meta["name"], {"metadata": {"finalizers": finalizers}})
            self._status(
                job,
                jobDeploymentStatus="Initializing",
                rayClusterName=f"{meta['name']}-{self.world.rng.randrange(16**5):05x}",
                startTime=to_text(self.world.now),
                jobStatus=None,
            )
            return 0.1
        if state in ("Initializing", "Running"):
            return self._live(job, status, spec, state)
        if state == "Suspending":
            try:
                self.server.delete(RAY_CLUSTER, status["rayClusterName"])
                return POLL
            except NotFound:
                self._status(job, jobDeploymentStatus="Suspended", jobStatus=None, rayClusterName=None)
                return None
        if state == "Suspended":
            if not spec.get("suspend"):
                self._status(job, jobDeploymentStatus="")
                return 0.1
            return None
        if state in TERMINAL:
            return self._teardown(job, status, spec)
        return None  # ValidationFailed: no way out

    def _live(self, job: Object, status: Object, spec: Object, state: str) -> float | None:
        if spec.get("suspend"):
            self._status(job, jobDeploymentStatus="Suspending")
            return 0.1
        age = self.world.now - (to_seconds(status.get("startTime")) or self.world.now)
        active, startup = spec.get("activeDeadlineSeconds"), spec.get("preRunningDeadlineSeconds")
        if active is not None and age >= active:
            return self._end(job, "Failed", reason="DeadlineExceeded", message="passed the activeDeadlineSeconds")
        if state == "Initializing" and startup is not None and age >= startup:
            return self._end(job, "Failed", reason="PreRunningDeadlineExceeded", message="not running in time")
        cluster = self.server.find(RAY_CLUSTER, status["rayClusterName"])
        if cluster is None:
            self._make_cluster(job, status["rayClusterName"])
            return POLL
        if state == "Initializing":
            if (cluster.get("status") or {}).get("state") == "ready":
                self._status(job, jobDeploymentStatus="Running")
            return POLL
        return self._ask(job, status)

    def _ask(self, job: Object, status: Object) -> float | None:
        """GetJobInfo; 404 submits (again)."""
        name = job["metadata"]["name"]
        head = self.head(status["rayClusterName"])
        up = (
            head is not None
            and head["status"].get("phase") == "Running"
            and not head["metadata"].get("deletionTimestamp")
        )
        if head is None or not up:
            since = self.deaf.setdefault(name, self.world.now)
            if self.checks_out and self.world.now - since >= CHECK_TIMEOUT:
                return self._end(job, "Failed", reason="JobStatusCheckTimeoutExceeded", message="checks failing")
            return POLL
        self.deaf.pop(name, None)
        driver = self.world.driver_on(head["metadata"]["uid"])
        if driver is None:
            self.world.submit(job, head)
            self._status(job, jobStatus="PENDING")
            return POLL
        if driver.alive:
            if status.get("jobStatus") != "RUNNING":
                self._status(job, jobStatus="RUNNING")
            return POLL
        if driver.state == "SUCCEEDED":
            return self._end(job, "Complete", jobStatus="SUCCEEDED")
        if driver.state == "STOPPED":
            return self._end(job, "Complete", jobStatus="STOPPED")
        said = f"{END_LINE}{driver.said.to_json().decode()}" if driver.said is not None else ""
        words = f"Job entrypoint command failed with exit code {driver.code}, last available logs"
        message = f"{words} (truncated to 20,000 chars):\n{driver.how.says}\n{said}"
        return self._end(job, "Failed", jobStatus="FAILED", reason="AppFailed", message=message)

    def _end(self, job: Object, deployment: str, **changes: Any) -> float:
        self._status(job, jobDeploymentStatus=deployment, endTime=to_text(self.world.now), **changes)
        return 0.1

    def _teardown(self, job: Object, status: Object, spec: Object) -> float | None:
        due = (to_seconds(status.get("endTime")) or 0.0) + spec.get("ttlSecondsAfterFinished", 0)
        if self.world.now < due:
            return due - self.world.now + 0.5
        if self.server.find(RAY_CLUSTER, status["rayClusterName"]) is not None:
            self.server.delete(RAY_CLUSTER, status["rayClusterName"])
        return None

    # ------------------------------------------------------------------ RayClusters

    def _make_cluster(self, job: Object, name: str) -> None:
        meta = job["metadata"]
        owner = {
            "kind": "RayJob",
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        self.server.create(
            RAY_CLUSTER,
            {
                "metadata": {
                    "name": name,
                    "labels": dict(meta.get("labels") or {}),
                    "annotations": dict(meta.get("annotations") or {}),
                    "ownerReferences": [owner],
                },
                "spec": job["spec"]["rayClusterSpec"],
            },
        )
        uid = self.server.get(RAY_CLUSTER, name)["metadata"]["uid"]
        self.world.at(self.world.now + 0.5, lambda: self._cluster(name, uid))

    def head(self, cluster: str) -> Object | None:
        """The cluster's head pod."""
        found = self.server.find(RAY_CLUSTER, cluster)
        if found is None:
            return None
        uid = found["metadata"]["uid"]
        pods = self.server.selected(POD, f"ray.io/cluster={cluster},ray.io/node-type=head")
        return next((p for p in pods if p["metadata"]["ownerReferences"][0]["uid"] == uid), None)

    def _cluster(self, name: str, uid: str) -> None:
        cluster = self.server.find(RAY_CLUSTER, name)
        if cluster is None or cluster["metadata"]["uid"] != uid or cluster["metadata"].get("deletionTimestamp"):
            return
        if self.world.now >= self.down_until:
            self._reconcile_cluster(cluster)
        self.world.at(self.world.now + POLL, lambda: self._cluster(name, uid))

    def _reconcile_cluster(self, cluster: Object) -> None:
        name, status = cluster["metadata"]["name"], cluster.get("status") or {}
        provisioned = any(
            c["type"] == "RayClusterProvisioned" and c["status"] == "True" for c in status.get("conditions", ())
        )
        head = self.head(name)
        if head is None:
            kept = (cluster["metadata"].get("annotations") or {}).get(HEAD_RESTART) == "true"
            if provisioned and kept:
                self._conditions(cluster, head=("False", "HeadPodNotFound"), provisioned=True)
                return
            self._make_pod(cluster, "head", cluster["spec"]["headGroupSpec"]["template"])
            for group in cluster["spec"]["workerGroupSpecs"][:1]:
                self._make_pod(cluster, "worker", group["template"])
            return
        phase = head["status"].get("phase")
        if phase in ("Failed", "Succeeded"):
            self._conditions(cluster, head=("False", "PodFailed"), provisioned=provisioned)
            self.server.delete(POD, head["metadata"]["name"])
        elif phase == "Running":
            self._conditions(cluster, head=("True", "HeadPodRunningAndReady"), provisioned=True)
        else:
            self._conditions(cluster, head=("False", "ContainersNotReady"), provisioned=provisioned)

    def _conditions(self, cluster: Object, *, head: tuple[str, str], provisioned: bool) -> None:
        state = (cluster.get("status") or {}).get("state", "")
        ready = "ready" if head[0] == "True" else state
        found = [
            {"type": "HeadPodReady", "status": head[0], "reason": head[1]},
            {"type": "RayClusterProvisioned", "status": "True" if provisioned else "False", "reason": "X"},
        ]
        self.server.patch_status(RAY_CLUSTER, cluster["metadata"]["name"], {"state": ready, "conditions": found})

    # ------------------------------------------------------------------ pods

    def _make_pod(self, cluster: Object, node: str, template: Object) -> None:
        meta = cluster["metadata"]
        name = f"{meta['name']}-{node}-{self.world.rng.randrange(16**5):05x}"
        of_ray = {"ray.io/cluster": meta["name"], "ray.io/node-type": node}
        owner = {
            "kind": "RayCluster",
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        self.server.create(
            POD,
            {
                "metadata": {
                    "name": name,
                    "labels": {**template["metadata"].get("labels", {}), **of_ray},
                    "annotations": dict(template["metadata"].get("annotations", {})),
                    "ownerReferences": [owner],
                },
                "spec": template["spec"],
                "status": {"phase": "Pending"},
            },
        )
        self.world.at(self.world.now + self.world.rng.uniform(1, 15), lambda: self._start_pod(name))

    def _start_pod(self, name: str) -> None:
        pod = self.server.find(POD, name)
        if pod is None or pod["metadata"].get("deletionTimestamp") or pod["status"].get("phase") != "Pending":
            return
        if self.world.now < self.world.bad_image_until:
            waiting = {"reason": "InvalidImageName", "message": "couldn't parse image name"}
            stuck = [{"name": "ray-head", "image": "??", "state": {"waiting": waiting}}]
            self.server.patch_status(POD, name, {"containerStatuses": stuck, "startTime": to_text(self.world.now)})
            return
        if self.world.now < self.world.no_nodes_until:
            waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
            self.server.patch_status(POD, name, {"conditions": [waiting]})
            self.world.at(self.world.no_nodes_until + 1, lambda: self._start_pod(name))
            return
        ready = [{"type": "Ready", "status": "True"}]
        started = to_text(self.world.now)
        self.server.patch_status(POD, name, {"phase": "Running", "conditions": ready, "startTime": started})

    def terminate(self, pod: Object) -> None:
        """A pod was asked to go: its driver hears SIGTERM, then its node lets it go."""
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        driver = self.world.driver_on(uid)
        if driver is not None:
            driver.term = True
        self.world.at(self.world.now + self.world.rng.uniform(1, 20), lambda: self._gone(name, uid))

    def _gone(self, name: str, uid: str) -> None:
        found = self.server.find(POD, name)
        if found is not None and found["metadata"]["uid"] == uid:
            self.server.remove(POD, name)
        driver = self.world.driver_on(uid)
        if driver is not None:
            driver.kill()

    # ------------------------------------------------------------------ what people do to it

    def give_up(self, name: str) -> None:
        """A false Failed: the job could not be asked for 300 s (1.7), or a proxy's own error was read as its status."""
        job = self.server.find(RAY_JOB, name)
        if job is None or (job.get("status") or {}).get("jobDeploymentStatus") != "Running":
            return
        if self.world.rng.random() < 0.5:
            self._end(job, "Failed", jobStatus="Failure", message="the server could not find the resource")
        else:
            self._end(job, "Failed", reason="JobStatusCheckTimeoutExceeded", message="exceeded timeout of 300s")

    def invalidate(self, name: str) -> None:
        """An invalid patch: the absorbing state overwrites whatever was there."""
        job = self.server.find(RAY_JOB, name)
        if job is not None and not job["metadata"].get("deletionTimestamp"):
            self._status(job, jobDeploymentStatus="ValidationFailed", message="spec is invalid")


def _owner(kind: str, meta: Object) -> Object:
    return {"kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True, "blockOwnerDeletion": True}


def attempt_of(body: Object) -> int:
    """Number of the attempt that an object belongs to."""
    return int((body["metadata"].get("labels") or {}).get(labels.ATTEMPT, "0"))


def live(job: Object) -> bool:
    """Whether a RayJob can make pods: a ValidationFailed one never does again."""
    state = (job.get("status") or {}).get("jobDeploymentStatus", "")
    if job["spec"].get("foreign"):
        return False
    return not job["metadata"].get("deletionTimestamp") and state not in (*TERMINAL, "ValidationFailed")
