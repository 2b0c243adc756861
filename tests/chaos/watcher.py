"""What a fault cost: the training's progress, its pods and its GPUs, looked at once a second from outside.

Committed checkpoints are counted in the S3 server's own folder, so that they can be seen while the server is down.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devcluster.cluster import BUCKET
from devcluster.errors import DevClusterError
from tests.e2e.lab import Lab, Sweep

GPU = "nvidia.com/gpu"


@dataclass
class Sample:
    """One look."""

    at: float
    attempt: int
    commits: int
    gpus: int
    pods: int
    finished: bool


@dataclass
class Watcher:
    """Looks at one sweep in a thread of its own until it is told to stop; what cannot be read is left out."""

    lab: Lab
    name: str
    samples: list[Sample] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    last: Sweep | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Watcher:
        self._thread = threading.Thread(target=self._run, name=f"watch-{self.name}", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=130)

    def commits(self) -> int:
        """Checkpoints with a manifest that were ever seen in the run's folder."""
        run = self._run_folder()
        if run is not None:
            self.seen.update(str(p.parent.relative_to(run)) for p in run.glob("train/*/*/trainsweep-manifest*.json"))
        return len(self.seen)

    def recovered_after(self, at: float, known: int) -> float | None:
        """Seconds from `at`, when `known` checkpoints were committed, to the next one or to the sweep's end.

        None: neither was seen. Where a further attempt followed, its own first one counts: what a dying pod still commits is
        no recovery.
        """
        before = [s for s in self.samples if s.at <= at]
        after = [s for s in self.samples if s.at > at]
        further = [s for s in after if s.attempt > (before[-1].attempt if before else 0)]
        least = further[0].commits if further else known
        return next((s.at - at for s in further or after if s.commits > least or s.finished), None)

    def gpu_seconds(self, start: float, end: float) -> float:
        """GPU-seconds that pods of the sweep held in a span of time."""
        inside = [s for s in self.samples if start <= s.at <= end]
        return sum(a.gpus * (b.at - a.at) for a, b in itertools.pairwise(inside))

    def _run_folder(self) -> Path | None:
        uri = self.last.status.get("runURI") if self.last else None
        if not uri:
            return None
        return self.lab.cluster.state_dir / "s3" / "data" / BUCKET / str(uri).removeprefix(f"s3://{BUCKET}/")

    def _run(self) -> None:
        while not self._stop.wait(1.0):
            try:
                found = self.lab.get(self.name)
                pods = self._pods()
            except DevClusterError:
                # The API server is away: pods go on holding what they held, and what they commit still shows.
                found, pods = self.last, []
            self.last = found or self.last
            held = sum(_gpus(p) for p in pods)
            if not pods and self.samples and found is not None and not self._answers():
                held = self.samples[-1].gpus
            finished = found is None or found.condition("Finished")[0] == "True"
            attempt = int(self.last.status.get("attempt", 0)) if self.last else 0
            ended = finished and self.last is not None
            self.samples.append(Sample(time.time(), attempt, self.commits(), held, len(pods), ended))

    def _answers(self) -> bool:
        try:
            self.lab.cluster.kubectl("get", "--raw", "/readyz", "--request-timeout=2s", timeout=5)
        except DevClusterError:
            return False
        return True

    def _pods(self) -> list[dict[str, Any]]:
        text = self.lab.cluster.kubectl(
            "get", "pods", "-l", f"trainsweep.io/sweep={self.name}", "-o", "json", "--request-timeout=5s", timeout=10
        )
        found: list[dict[str, Any]] = json.loads(text)["items"]
        return found


def _gpus(pod: dict[str, Any]) -> int:
    """GPUs of a pod that has a node and has not ended."""
    if not pod["spec"].get("nodeName") or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    requests = (c.get("resources", {}).get("requests", {}) for c in pod["spec"]["containers"])
    return sum(int(r.get(GPU, 0)) for r in requests)
