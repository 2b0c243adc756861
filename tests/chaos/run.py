"""`make chaos`: every fault against a sweep of its own on the real cluster, and the table of what became of it.

Rows are kept in docs/reliability/chaos.json, so that the run can be made in slices (ONLY=word); the table of
docs/reliability.md is written from it. The exit status is 1 where any row is not as it must be.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from devcluster import sweeps
from devcluster.cluster import Cluster
from devcluster.errors import DevClusterError
from tests.chaos import measure, table
from tests.chaos.faults import FAULTS, Fault, Target, queues
from tests.chaos.measure import Row
from tests.chaos.watcher import Watcher
from tests.e2e.lab import Lab, Sweep

ROOT = Path(__file__).parents[2]
TOGETHER = 2
"""Sweeps at once, where a fault touches no other; a GPU each."""
RESULTS = ROOT / "docs" / "reliability" / "chaos.json"


def run(lab: Lab, fault: Fault) -> Row:
    """One fault from apply to the last pod."""
    started = time.time()
    lab.apply(fault.key, fault.spec())
    struck: list[tuple[float, int]] = []
    problem = ""
    with Watcher(lab, fault.key) as watcher:
        try:
            fault.strike(Target(lab, fault.key), lambda: struck.append((time.time(), watcher.commits())))
            last = _end(lab, fault, watcher)
        except (AssertionError, DevClusterError) as error:
            problem = str(error).split("\n", 1)[0]
            last = watcher.last
            print(str(error)[:6000], file=sys.stderr)
    at, known = struck[0] if struck else (started, 0)
    recovery = watcher.recovered_after(at, known)
    lost = measure.lost_checkpoints(lab, last) + measure.torn_trials(lab, last) if last and _ran(last) else ["all"]
    left = measure.leaked(lab, fault.key)
    row = Row(
        fault=fault.name,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        state=_state(last, fault),
        attempts=int(last.status.get("attempt", 0)) if last else 0,
        lost=len(lost),
        leaked=len(left),
        recovery_seconds=None if recovery is None else round(recovery, 1),
        gpu_seconds=round(watcher.gpu_seconds(at, at + (recovery or time.time() - at))),
        seconds=round(time.time() - started),
    )
    row.problem = problem or _problem(fault, row, last, lost, left)
    measure.remove(lab, fault.key)
    return row


def _ran(sweep: Sweep) -> bool:
    return bool(sweep.status.get("runURI"))


def _end(lab: Lab, fault: Fault, watcher: Watcher) -> Sweep | None:
    """Waits for the end of the sweep, or for its going where the fault deletes it."""
    if not fault.gone:
        lab.finished(fault.key, 600)
        return lab.released(fault.key, 300)
    until = time.monotonic() + 300
    while lab.get(fault.key) is not None:
        if time.monotonic() > until:
            raise AssertionError(f"{fault.key} is still there\n{watcher.last}\n{lab.describe(fault.key)}")
        time.sleep(1)
    time.sleep(2)
    return watcher.last


def _state(last: Sweep | None, fault: Fault) -> str:
    if last is None:
        return "never seen"
    if fault.gone:
        verified = last.condition("CheckpointsVerified")[0] == "True"
        return "Deleted, " + ("verified" if verified else "not verified")
    return last.condition("Succeeded")[1]


def _problem(fault: Fault, row: Row, last: Sweep | None, lost: list[str], left: list[str]) -> str:
    """What is not as it must be, in one sentence; "" where all is."""
    if last is None:
        return "the sweep was never seen"
    verified = last.condition("CheckpointsVerified")
    wrong = []
    if lost:
        wrong.append(f"lost: {', '.join(lost[:3])}")
    if left:
        wrong.append(f"left: {', '.join(left[:3])}")
    if verified[0] != "True":
        wrong.append(f"not verified: {verified}")
    if not fault.gone and fault.succeeds and last.condition("Succeeded")[:2] != ("True", fault.reason):
        wrong.append(f"ended as {last.condition('Succeeded')}")
    if row.attempts > fault.attempts:
        wrong.append(f"took {row.attempts} attempts, at most {fault.attempts} are needed")
    return "; ".join(wrong)


def main(argv: list[str] | None = None) -> int:
    """Runs the faults asked for (all by default)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only faults whose name holds this text (comma-separated texts)")
    parser.add_argument("--list", action="store_true", help="print the faults' names")
    parser.add_argument("--cluster", default="chaos", help="name of the dev cluster; one that is up is left up")
    options = parser.parse_args(argv)
    words = [w.strip() for w in options.only.split(",") if w.strip()]
    chosen = [f for f in FAULTS if not words or any(w in f.name for w in words)]
    if options.list:
        print("\n".join(f.name for f in chosen))
        return 0
    rows: dict[str, Row] = table.read(RESULTS)
    with Cluster(options.cluster) as cluster:
        sweeps.build_images(cluster)
        sweeps.install(cluster)
        lab = Lab(cluster)
        lab.loops()
        cluster.set_gpus(TOGETHER)

        def keep(row: Row) -> None:
            rows[row.fault] = row
            print(table.line(row), flush=True)
            table.write(RESULTS, ROOT / "docs" / "reliability.md", [rows[f.name] for f in FAULTS if f.name in rows])

        with ThreadPoolExecutor(TOGETHER) as pool:
            for done in as_completed(pool.submit(run, lab, fault) for fault in chosen if fault.own):
                keep(done.result())
        for fault in sorted((f for f in chosen if not f.own), key=lambda f: f.kueue):
            if fault.kueue:
                cluster.install_kueue()
                for one in queues():
                    sweeps.apply(cluster, one)
            keep(run(lab, fault))
    print(json.dumps({"rows": len(chosen), "bad": sum(bool(rows[f.name].problem) for f in chosen)}))
    return 1 if any(rows[f.name].problem for f in chosen) else 0


if __name__ == "__main__":
    raise SystemExit(main())
