"""`make demo`: one real sweep on a real Kubernetes, from nothing to a checkpoint that is loaded and judged.

Everything that is printed at the end is read from the cluster and from the store, nothing is remembered.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from devcluster import sweeps
from devcluster.cluster import Cluster
from devcluster.errors import DevClusterError
from devcluster.external import ExternalCluster
from devcluster.report import say

EXAMPLE = sweeps.ROOT / "examples" / "digits"
NAME = "digits"
LIMIT_SECONDS = 900
POLL_SECONDS = 2.0
MIN_ACCURACY, MAX_UNTRAINED = 0.95, 0.3


@dataclass
class Usage:
    """CPU-seconds that the pods of the sweep really used, and GPU-seconds that they held; by pod."""

    cpu: dict[str, float] = field(default_factory=dict)
    gpu: dict[str, float] = field(default_factory=dict)

    def look(self, cluster: Cluster | ExternalCluster, interval: float) -> None:
        """Reads the kubelets' own counters; a pod keeps the last value that was seen."""
        try:
            pods = json.loads(cluster.kubectl("get", "pods", "-l", f"trainsweep.io/sweep={NAME}", "-o", "json"))[
                "items"
            ]
            for node in {p["spec"].get("nodeName") for p in pods} - {None}:
                stats = json.loads(cluster.kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/stats/summary"))
                for pod in stats.get("pods", []):
                    used = pod.get("cpu", {}).get("usageCoreNanoSeconds")
                    if used is not None:
                        self.cpu[pod["podRef"]["uid"]] = used / 1e9
            own = {p["metadata"]["uid"] for p in pods}
            self.cpu = {uid: seconds for uid, seconds in self.cpu.items() if uid in own or uid in self.gpu}
            for pod in pods:
                uid = pod["metadata"]["uid"]
                held = sum(
                    int(c.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0))
                    for c in pod["spec"]["containers"]
                )
                self.gpu[uid] = self.gpu.get(uid, 0.0) + (held * interval if pod["spec"].get("nodeName") else 0.0)
        except DevClusterError:
            return  # a node that does not answer for a moment costs one sample


def condition(sweep: dict[str, Any], kind: str) -> dict[str, Any]:
    """A condition of the sweep, {} where it is absent."""
    found = [c for c in sweep.get("status", {}).get("conditions", []) if c["type"] == kind]
    return found[0] if found else {}


def line(sweep: dict[str, Any]) -> str:
    """STATE, TRIALS done/running/failed, BEST, VERIFIED and ETA in one line."""
    status = sweep.get("status", {})
    trials, best = status.get("trials", {}), status.get("best") or {}
    eta = status.get("progress", {}).get("etaSeconds")
    counts = f"{trials.get('summary', '-')} done, {trials.get('running', 0)} running, {trials.get('failed', 0)} failed"
    pending = status.get("pending")
    state = condition(sweep, "Succeeded").get("reason", "-")
    verified = condition(sweep, "CheckpointsVerified").get("status", "-")
    text = f"{state:<10} TRIALS {counts:<32} BEST {best.get('value', '-'):<8} VERIFIED {verified:<7}"
    text += f" ETA {f'{eta} s' if eta is not None else '-'}"
    return text + (f"  PENDING {pending['layer']}: {pending['message'][:100]}" if pending else "")


def follow(cluster: Cluster | ExternalCluster, usage: Usage) -> dict[str, Any]:
    """Prints every change until the sweep is terminal and its pods are gone.

    Raises:
        DevClusterError: it took too long.
    """
    began, shown, looked = time.monotonic(), "", time.monotonic()
    while True:
        sweep: dict[str, Any] = json.loads(cluster.kubectl("get", "trainsweep", NAME, "-o", "json"))
        now = line(sweep)
        if now != shown:
            print(f"{time.monotonic() - began:5.0f} s  {now}", flush=True)
            shown = now
        if (
            condition(sweep, "Finished").get("status") == "True"
            and condition(sweep, "Released").get("status") == "True"
        ):
            return sweep
        if time.monotonic() - began > LIMIT_SECONDS:
            raise DevClusterError(
                f"the sweep did not end within {LIMIT_SECONDS} s:\n{json.dumps(sweep.get('status'), indent=1)}\n"
                + cluster.kubectl("get", "pods,rayjobs,rayclusters,events", "-A")
            )
        usage.look(cluster, time.monotonic() - looked)
        looked = time.monotonic()
        time.sleep(POLL_SECONDS)


def seconds(text: str | None) -> float | None:
    """Unix seconds of an RFC 3339 time."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() if text else None


def summary(sweep: dict[str, Any], usage: Usage) -> None:
    """What a person wants to know at the end."""
    status = sweep["status"]
    best, proof, attempt = status.get("best") or {}, status["checkpoints"], status["attempts"][-1]
    verified, gone = seconds(proof.get("verifiedAt")), seconds(attempt.get("goneAt"))
    print("\nSummary")
    print(
        f"  outcome      {condition(sweep, 'Succeeded').get('reason')}: {condition(sweep, 'Succeeded').get('message')}"
    )
    print(f"  best trial   {best.get('trial')}  {best.get('value')} at epoch {best.get('step')}")
    print(f"  parameters   {', '.join(f'{k}={v}' for k, v in best.get('parameters', {}).items())}")
    print(f"  checkpoint   {best.get('checkpointURI')}")
    print(f"  receipt      {proof.get('receiptURI')}")
    print(f"               {proof.get('files')} files, {proof.get('bytes')} bytes, sha256 {proof.get('receiptDigest')}")
    if verified and gone:
        print(f"  teardown     {gone - verified:.0f} s from verified to the last pod gone")
    print(f"  used         {sum(usage.cpu.values()):.0f} CPU-seconds, {sum(usage.gpu.values()):.0f} GPU-seconds")


def judge(cluster: Cluster | ExternalCluster, uri: str) -> int:
    """Loads the verified checkpoint in a new process and judges it on data that nothing in the sweep saw."""
    print("\nLoading the verified checkpoint into a fresh model, in a new process", flush=True)
    env = {**os.environ, **cluster.env(), "PYTHONPATH": f"{sweeps.ROOT / 'operator'}:{sweeps.ROOT}"}
    command = [sys.executable, str(EXAMPLE / "evaluate.py"), uri]
    done = subprocess.run(command, env=env, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return done.returncode
    found = json.loads(done.stdout)
    print(
        f"  test accuracy   {found['accuracy']:.4f} on {found['images']} images that neither training nor objective saw"
    )
    print(f"  untrained       {found['untrained']:.4f}")
    if found["accuracy"] < MIN_ACCURACY or found["untrained"] >= MAX_UNTRAINED:
        print(f"  expected at least {MIN_ACCURACY}, and below {MAX_UNTRAINED} untrained")
        return 1
    return 0


def run_demo(cluster: Cluster | ExternalCluster) -> int:
    """Applies the example, follows it to its end and judges its checkpoint."""
    usage = Usage()
    print(f"\n$ kubectl apply -k {EXAMPLE.relative_to(sweeps.ROOT)}")
    print(cluster.kubectl("apply", "--server-side", "-k", EXAMPLE), end="", flush=True)
    sweep = follow(cluster, usage)
    print("\n$ kubectl get trainsweep")
    print(cluster.kubectl("get", "trainsweep", NAME), end="")
    summary(sweep, usage)
    if condition(sweep, "Succeeded").get("status") != "True":
        return 1
    return judge(cluster, sweep["status"]["best"]["checkpointURI"])


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.demo", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--cluster", default="devcluster", help="devcluster, or current: the cluster of your kubeconfig"
    )
    parser.add_argument("--name", default="demo", help="name of the dev cluster")
    parser.add_argument("--keep", action="store_true", help="leave the cluster up")
    options = parser.parse_args()
    began = time.monotonic()
    try:
        if options.cluster == "current":
            return run_demo(ExternalCluster.from_environment())
        with Cluster(options.name, keep=options.keep) as cluster:
            sweeps.build_images(cluster)
            sweeps.install(cluster)
            code = run_demo(cluster)
            print(f"\n{'Done' if code == 0 else 'FAILED'} in {time.monotonic() - began:.0f} s.")
            if options.keep:
                print(_look_around(cluster))
            return code
    except DevClusterError as error:
        say(str(error))
        return 1


def _look_around(cluster: Cluster) -> str:
    return f"""
The cluster is still up. To look around:
  eval "$(python -m devcluster env --name {cluster.name})"
  kubectl get trainsweeps -o wide; kubectl describe trainsweep {NAME}
  kubectl explain trainsweep.spec --recursive
  trainsweep logs {NAME}; trainsweep verify {NAME}
To end it:
  python -m devcluster down --name {cluster.name}"""


if __name__ == "__main__":
    raise SystemExit(main())
