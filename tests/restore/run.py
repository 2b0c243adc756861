"""`make test-restore`: twelve kills of one sweep of six trials on a real S3 server, restored each time; prints the table.

The driver with its whole Ray (a head that is lost), Train's controller, a worker, and each of worker and head in the middle of
an upload. A witness outside of the store counts the epochs that are really trained.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from bench.driver.gateway import BUCKET, Gateway
from tests.local.harness import ROOT, Run
from tests.restore.kills import kill, named, title, tree
from trainjobs.leftovers import QUIET_SECONDS
from trainsweep.contract import layout
from trainsweep.contract.snapshot import parse_snapshot

LOOPS = ROOT / "tests" / "restore" / "loops"
FINAL = ("Succeeded", "EarlyStopped", "Failed")

PLAN = [
    ["worker", "controller", "head"],
    ["upload, worker", "head"],
    ["controller", "upload, head"],
    ["worker", "head"],
    ["controller", "upload, head"],
    ["worker"],
]
"""Kills of each attempt. The last of an attempt takes the head; after the last one the sweep runs to its end."""

SPEC = {
    "objective": {"metric": "loss", "mode": "Minimize"},
    "search": {
        "algorithm": {"random": {"seed": 11}},
        "parameters": [{"name": "rate", "float": {"min": 0.05, "max": 0.5}}],
    },
    "trials": {"count": 6, "maxConcurrent": 2},
    "training": {"entrypoint": "steady:train_loop", "workers": {"count": 1}},
    "checkpoints": {"require": "AllSucceeded"},
    "failurePolicy": {"trialRetries": 5, "workerRestarts": 5},
    "cleanup": {"stopGraceSeconds": 30},
}


@dataclass
class Kill:
    """One kill and what was known then."""

    kind: str
    attempt: int
    at: float
    committed: dict[str, int]
    finished: set[str]
    running: int
    back: float = 0.0
    """Seconds until a trial began an epoch again."""


@dataclass
class Trouble:
    """What must be zero."""

    lines: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        self.lines.append(text)
        print(f"  !! {text}", flush=True)


class Sweep:
    """The run under test and its witness."""

    def __init__(self, folder: Path, gateway: Gateway, epochs: int) -> None:
        folder.mkdir(parents=True)
        self.witness = folder / "witness.jsonl"
        self.witness.touch()
        spec = json.loads(json.dumps(SPEC))
        spec["training"]["config"] = {
            "epochs": epochs,
            "seconds": 0.5,
            "files": 2,
            "mib": 12,  # above pyarrow's part size: a kill leaves an open multipart upload
            "witness": str(self.witness),
        }
        self.run = Run(folder, spec, LOOPS, name="restore", uri=f"s3://{BUCKET}/team")
        self.run.store = {"uri": self.run.uri, "endpointURL": gateway.url}
        self.run.env = {"TRAINSWEEP_STATE_DIR": str(folder / "state")}
        self.root = gateway.data / self.run.uri.removeprefix("s3://")
        self.gateway = gateway

    def epochs(self, since: float = 0.0) -> list[dict]:
        """Epochs that were begun, in order."""
        lines = self.witness.read_text().splitlines()
        return [e for e in map(json.loads, lines) if e["time"] > since]

    def records(self) -> dict[str, dict]:
        file = self.root / layout.TRIALS
        if not file.exists():
            return {}
        return {t["trial"]: t for t in map(json.loads, file.read_text().splitlines())}

    def listed(self) -> dict[str, set[str]]:
        """Committed folders by Train run."""
        found = {}
        for file in (self.root / layout.TRAIN).glob(f"*/{layout.SNAPSHOT}"):
            key = f"{layout.TRAIN}/{file.parent.name}"
            found[key] = {item.checkpoint for item in parse_snapshot(file.read_bytes(), key, "loss")}
        return found

    def committed(self) -> dict[str, int]:
        """Newest committed epoch by trial."""
        found = {}
        for file in (self.root / layout.TRAIN).glob(f"*/{layout.SNAPSHOT}"):
            items = parse_snapshot(file.read_bytes(), f"{layout.TRAIN}/{file.parent.name}", "loss")
            found[file.parent.name.partition("-")[0]] = max((i.step for i in items), default=0)
        return found

    def uploading(self) -> str | None:
        """The trial of which some but not all files of a checkpoint are in the store."""
        with contextlib.suppress(FileNotFoundError):  # retention removes folders meanwhile
            listed = set().union(*self.listed().values())
            for folder in (self.root / layout.TRAIN).glob("*/checkpoint_*/"):
                key = f"{layout.TRAIN}/{folder.parent.name}/{folder.name}"
                if key not in listed and 1 <= sum(p.is_file() for p in folder.iterdir()) <= 3:
                    return folder.parent.name.partition("-")[0]
        return None

    def worker(self, trial: str | None) -> int:
        """A live training process: of this trial, or the one that began an epoch last."""
        for event in reversed(self.epochs()):
            if trial in (None, event["trial"]) and title(event["pid"]):
                return event["pid"]
        raise SystemExit(f"no live worker of {trial or 'any trial'}")

    def wait(self, what, seconds: float, text: str, pause: float = 0.2) -> None:
        end = time.monotonic() + seconds
        while not what():
            if self.run.process.poll() is not None:
                raise SystemExit(f"the driver ended while waiting for {text}:\n{self.run.text()[-5000:]}")
            if time.monotonic() > end:
                raise SystemExit(f"not within {seconds:.0f} s: {text}\n{self.run.text()[-5000:]}")
            time.sleep(pause)

    def strike(self, kind: str, attempt: int) -> Kill:
        """Waits for the moment and kills."""
        what, _, _ = kind.rpartition(", ")
        target = kind.rpartition(", ")[2]
        trial = None
        if what:
            seen: list[str | None] = []

            def caught() -> bool:
                seen.append(self.uploading())
                return seen[-1] is not None

            self.wait(caught, 200, "an upload in flight", pause=0.02)
            trial = seen[-1]
        here = self.run.process.pid
        states = self.records()
        shot = Kill(
            kind,
            attempt,
            time.time(),
            self.committed(),
            {t for t, r in states.items() if r["state"] in FINAL},
            sum(r["state"] == "Running" for r in states.values()),
        )
        if target == "head":
            kill(tree(here))
            self.run.process.wait()
        elif target == "controller":
            found = named(here, "TrainController")
            if not found:
                raise SystemExit("there is no controller to kill")
            kill(found[:1])
        else:
            kill([self.worker(trial)])
        shot.at = time.time()
        return shot


def drill(sweep: Sweep, seed: int) -> tuple[list[Kill], dict]:
    """All kills, then the end: what the last attempt's receipt says."""
    kills, dice = [], random.Random(seed)  # noqa: S311 - pauses before the kills
    for attempt, kinds in enumerate(PLAN, 1):
        began = time.time()
        sweep.run.start(attempt, cpus=4)
        for number, kind in enumerate(kinds):
            since = kills[-1].at if number else began
            sweep.wait(lambda since=since: len(sweep.epochs(since)) >= 2, 300, f"training before kill {len(kills) + 1}")
            if kills and not kills[-1].back:
                kills[-1].back = sweep.epochs(kills[-1].at)[0]["time"] - kills[-1].at
            time.sleep(dice.uniform(0.5, 2.5))
            kills.append(sweep.strike(kind, attempt))
            print(f"kill {len(kills)}: {kind}, committed {kills[-1].committed}", flush=True)
    receipt, digest = sweep.run.receipt(500)
    if not kills[-1].back:
        kills[-1].back = next((e["time"] for e in sweep.epochs(kills[-1].at)), kills[-1].at) - kills[-1].at
    damaged = look(sweep, receipt)
    sweep.run.answer(digest, "Missing" if damaged else "Persisted")
    end = sweep.run.end()
    return kills, {"receipt": receipt, "damaged": damaged, "end": end}


def look(sweep: Sweep, receipt) -> list[str]:
    """Owed files that are not in the store as the receipt says, byte for byte."""
    bad = []
    for owed in receipt.owed:
        for entry in owed.files:
            file = sweep.root / owed.checkpoint / entry.path
            sums = {c.algorithm: c.value for c in entry.checksums}
            data = file.read_bytes() if file.exists() else b""
            if len(data) != entry.size or base64.b64encode(hashlib.sha256(data).digest()).decode() != sums["SHA256"]:
                bad.append(f"{owed.checkpoint}/{entry.path}")
    return bad


def judge(kills: list[Kill], sweep: Sweep, end: dict, epochs: int) -> Trouble:
    """Everything that the issue asks for."""
    trouble, begun, records = Trouble(), sweep.epochs(), sweep.records()
    rerun = redone = 0
    for number, shot in enumerate(kills, 1):
        until = kills[number].at if number < len(kills) else float("inf")
        for event in (e for e in begun if shot.at < e["time"] <= until):
            if event["trial"] in shot.finished:
                rerun += 1
                trouble.add(f"kill {number}: finished {event['trial']} began epoch {event['epoch']} again")
            if event["epoch"] <= shot.committed.get(event["trial"], 0):
                redone += 1
                trouble.add(f"kill {number}: committed epoch {event['epoch']} of {event['trial']} was redone")
    repeats = {k: n - 1 for k, n in Counter((e["trial"], e["epoch"]) for e in begun).items() if n > 1}
    allowed = sum(2 * max(1, shot.running) for shot in kills)
    if sum(repeats.values()) > allowed:
        trouble.add(f"{sum(repeats.values())} uncommitted epochs were repeated, at most {allowed} are allowed")
    per_kill = Counter()
    for number, shot in enumerate(kills):
        until = kills[number + 1].at if number + 1 < len(kills) else float("inf")
        seen = {(e["trial"], e["epoch"]) for e in begun if e["time"] <= shot.at}
        for event in (e for e in begun if shot.at < e["time"] <= until):
            if (event["trial"], event["epoch"]) in seen:
                per_kill[number + 1, event["trial"]] += 1
    for (number, trial), count in per_kill.items():
        if count > 2:
            trouble.add(f"kill {number}: {count} epochs of {trial} were repeated")
    names = sorted(records)
    if names != [f"t{i:04d}" for i in range(6)] or any(r["state"] != "Succeeded" for r in records.values()):
        trouble.add(f"trials lost, doubled or not finished: { {t: r['state'] for t, r in records.items()} }")
    runs = sorted(p.name for p in (sweep.root / layout.TRAIN).iterdir() if p.is_dir())
    if len(runs) != 6 or len({name.partition("-")[0] for name in runs}) != 6:
        trouble.add(f"Train runs of six trials: {runs}")
    done = {t: {e["epoch"] for e in begun if e["trial"] == t} for t in names}
    for trial, found in done.items():
        if found != set(range(1, epochs + 1)):
            trouble.add(f"{trial} trained epochs {sorted(found)}")
    if end["damaged"] or not end["end"].get("verified") or end["end"]["seen"] != 0:
        trouble.add(f"the receipt is not verified: {end['end']}, {end['damaged'][:3]}")
    listed = set().union(*sweep.listed().values())
    folders = {f"{layout.TRAIN}/{p.parent.name}/{p.name}" for p in (sweep.root / layout.TRAIN).glob("*/checkpoint_*/")}
    left = sorted(f for f in folders - listed if time.time() - (sweep.root / f).stat().st_mtime > 2 * QUIET_SECONDS)
    if left:
        trouble.add(f"never committed and not cleared: {left}")
    uploads = [u for u in sweep.run.s3().open_uploads() if time.time() - u.started > 2 * QUIET_SECONDS]
    if uploads:
        trouble.add(f"uploads that are still open: {[u.key for u in uploads]}")
    print(f"\n{'kill':>4} {'attempt':>7} {'what':16} {'running':>7} {'finished':>8} {'back after':>10} {'repeats':>7}")
    for number, shot in enumerate(kills, 1):
        again = sum(count for (k, _), count in per_kill.items() if k == number)
        back = f"{shot.back:.0f} s"
        print(
            f"{number:4} {shot.attempt:7} {shot.kind:16} {shot.running:7} {len(shot.finished):8} {back:>10} {again:7}"
        )
    print(
        f"\nfinished trials run again {rerun}, committed epochs redone {redone}, "
        f"uncommitted epochs repeated {sum(repeats.values())} (at most {allowed}), trials {len(names)}, "
        f"best {end['receipt'].best.trial} {end['receipt'].best.value:.4g}, receipt verified {end['end'].get('verified')}"
    )
    return trouble


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8, help="of a trial; more on a machine that finishes too early")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and store")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="restore-"))
    gateway = Gateway(folder / "s3")
    os.environ.update(gateway.env)
    sweep = Sweep(folder / "run", gateway, options.epochs)
    try:
        kills, end = drill(sweep, options.seed)
        trouble = judge(kills, sweep, end, options.epochs)
    finally:
        if sweep.run.process is not None and sweep.run.process.poll() is None:
            kill(tree(sweep.run.process.pid))
        gateway.close()
        if options.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print("\n" + ("\n".join(trouble.lines) if trouble.lines else "restored after every kill"))
    return 1 if trouble.lines else 0


if __name__ == "__main__":
    sys.exit(main())
