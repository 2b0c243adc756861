"""`make bench-driver`: interleaved pairs of the same sweep, raw and through trainjobs, and the verdict.

    python -m bench.driver.run                        # 5 pairs of each workload and the checkpoint stall, then the table
    python -m bench.driver.run --pairs 1 --only tiny  # a slice; results are kept and added up in build/bench-driver.json
    python -m bench.driver.run --show                 # the table of what was kept

What decides: CPU seconds (ratio of the sums at most 1.05) and S3 requests (at most 1.10). Wall-clock time is printed with a
95 % interval of its log ratio and fails only where the whole interval lies above 1.10. A checkpoint's stall is compared with a
bare pyarrow upload of the same bytes to a server behind a link (median ratio at most 1.10), and to one on the same processors.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from bench.driver.gateway import BUCKET, Gateway
from bench.driver.link import GBITS, Link
from bench.driver.measure import Cost, run
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.contract.documents import Control, Progress, SweepFile, Verdict

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "bench-driver.json"
UID = "0a1b2c3d-0000-4000-8000-000000000001"
CPU_LIMIT, REQUEST_LIMIT, WALL_LIMIT, STALL_LIMIT = 1.05, 1.10, 1.10, 1.10
LINK, HERE = f"{GBITS} Gbit/s", "same machine"
PLACES = (LINK, HERE)
"""Where the S3 server is. On this machine it takes the processors that training has, so only the link decides."""
T95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}

WORKLOADS: dict[str, dict] = {
    # Eight trials that do next to nothing: what is left is the machinery.
    "tiny": {
        "example": "tiny",
        "loop": "tiny",
        "torch": False,
        "metric": "loss",
        "mode": "min",
        "grid": {"rate": [0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55]},
        "config": {"epochs": 3, "seconds": 1.0},
        "trials": 8,
    },
    "digits": {
        "example": "digits",
        "loop": "digits",
        "torch": True,
        "metric": "val_accuracy",
        "mode": "max",
        "grid": {"lr": [0.001, 0.003, 0.01, 0.03]},
        "config": {"epochs": 6, "batch": 64, "seed": 1, "width": 16, "dropout": 0.2},
        "trials": 4,
    },
}


def environment(gateway: Gateway, work: dict) -> dict[str, str]:
    places = [ROOT / "operator", ROOT, ROOT / "examples" / work["example"]]
    return {**os.environ, **gateway.env, "PYTHONPATH": ":".join(map(str, places)), "RAY_DEDUP_LOGS": "1"}


def raw(gateway: Gateway, work: dict, folder: Path, prefix: str) -> Cost:
    file = folder / "work.json"
    common = {"workers": 1, "cpus": 4, "concurrent": 2, "endpoint": gateway.url, "root": f"{BUCKET}/{prefix}"}
    file.write_text(json.dumps(work | common))
    command = [sys.executable, "-m", "bench.driver.raw", str(file)]
    return run(command, env=environment(gateway, work), cwd=ROOT, log=folder / "log", limit=600)


def ours(gateway: Gateway, work: dict, folder: Path, prefix: str) -> Cost:
    """Our driver; the operator is played beside it, reading the gateway's folder: its looks are not the driver's requests."""
    values = [{"name": name, "categorical": {"values": found}} for name, found in work["grid"].items()]
    spec = {
        "objective": {"metric": work["metric"], "mode": "Maximize" if work["mode"] == "max" else "Minimize"},
        "search": {"algorithm": {"grid": {}}, "parameters": values},
        "trials": {"maxConcurrent": 2},
        "training": {"entrypoint": "train:train_loop", "workers": {"count": 1}, "config": work["config"]},
    }
    uri = f"s3://{BUCKET}/{prefix}"
    sweep = {"namespace": "default", "name": "bench", "uid": UID, "run": "v1-0123456789abcdef"}
    full = TrainSweepSpec.model_validate(spec).model_dump(mode="json", by_alias=True, exclude_none=True)
    file = SweepFile.model_validate(
        {
            "sweep": sweep,
            "attempt": 1,
            "attemptId": "1-0a1b2c3d",
            "store": {"uri": uri, "endpointURL": gateway.url},
            "spec": full,
        }
    )
    (folder / "sweep.json").write_bytes(file.to_json())
    control = folder / "control.json"

    def verdict() -> None:
        here = gateway.data / BUCKET / prefix / "progress.json"
        digest = Progress.model_validate_json(here.read_bytes()).receipt_digest if here.exists() else None
        if digest and not control.exists():
            said = Control(attempt_id="1-0a1b2c3d", verdict=Verdict(receipt_digest=digest, result="Persisted"))
            control.write_bytes(said.to_json())

    command = [sys.executable, "-m", "trainjobs", "--local", "--cpus", "4"]
    command += ["--sweep", str(folder / "sweep.json"), "--control", str(control)]
    env = environment(gateway, work) | {"TRAINSWEEP_STATE_DIR": str(folder / "state")}
    return run(command, env=env, cwd=folder, log=folder / "log", limit=600, beside=verdict)


def one(side: str, name: str) -> dict:
    """One run on a server of its own; what it took."""
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{side}-"))
    gateway = Gateway(folder / "s3")
    try:
        since = gateway.mark()
        cost = (raw if side == "raw" else ours)(gateway, WORKLOADS[name], folder, "team/run")
        if cost.code:
            raise SystemExit(f"{side} {name} ended with {cost.code}:\n{(folder / 'log').read_text()[-4000:]}")
        requests = gateway.requests(since)
        found = {
            "side": side,
            "workload": name,
            "wall": round(cost.wall, 2),
            "cpu": round(cost.cpu, 2),
            "headMiB": round(cost.head_mib),
            "requests": sum(requests.values()),
            "operations": dict(requests.most_common()),
        }
        print(json.dumps(found), flush=True)
        return found
    finally:
        gateway.close()
        shutil.rmtree(folder, ignore_errors=True)


def stall(where: str, mib: int = 256, rounds: int = 6) -> dict:
    """Times of a checkpoint through `trainjobs.report` and of a bare upload of its files, alternating."""
    folder = Path(tempfile.mkdtemp(prefix="bench-stall-"))
    link = Link() if where == LINK else None
    try:
        gateway = Gateway(folder / "s3", link)
        try:
            out = folder / "times.json"
            command = [sys.executable, "-m", "bench.driver.stall", gateway.url, f"{BUCKET}/stall"]
            cost = run(
                [*command, str(mib), str(rounds), str(out)],
                env=environment(gateway, WORKLOADS["tiny"]),
                cwd=ROOT,
                log=folder / "log",
                limit=600,
            )
        finally:
            gateway.close()
        if cost.code or not out.exists():
            raise SystemExit(f"stall ended with {cost.code}:\n{(folder / 'log').read_text()[-4000:]}")
        found = {"side": "stall", "where": where, "MiB": mib, **json.loads(out.read_text())}
        print(json.dumps(found), flush=True)
        return found
    finally:
        if link:
            link.close()
        shutil.rmtree(folder, ignore_errors=True)


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Geometric mean of ratios with its 95 % interval."""
    logs = [math.log(r) for r in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(mean), 0.0, math.inf
    half = T95.get(len(logs) - 1, 1.96) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def show(results: list[dict]) -> bool:
    """Prints the table; says whether all limits hold."""
    good = True

    def line(name: str, what: str, text: str, holds: bool | None) -> None:
        nonlocal good
        good = good and holds is not False
        print(f"{name:8} {what:16} {text:46} {'' if holds is None else 'ok' if holds else 'TOO MUCH'}")

    for name in WORKLOADS:
        sides = {s: [r for r in results if r.get("workload") == name and r["side"] == s] for s in ("raw", "ours")}
        pairs = list(zip(sides["raw"], sides["ours"], strict=False))
        if not pairs:
            continue
        for field, limit, unit in (("cpu", CPU_LIMIT, "CPU s"), ("requests", REQUEST_LIMIT, "S3 requests")):
            total = [sum(p[i][field] for p in pairs) for i in (0, 1)]
            ratio = total[1] / total[0]
            text = f"raw {total[0] / len(pairs):.1f}  ours {total[1] / len(pairs):.1f}  ratio {ratio:.3f} <= {limit}"
            line(name, unit, text, ratio <= limit)
        mean, low, high = interval([b["wall"] / a["wall"] for a, b in pairs])
        line(name, "wall", f"ratio {mean:.3f} [{low:.3f}, {high:.3f}] of {len(pairs)} pairs", low <= WALL_LIMIT)
        heads = [max(p[i]["headMiB"] for p in pairs) for i in (0, 1)]
        line(name, "head MiB (PSS)", f"raw {heads[0]}  ours {heads[1]}", None)
    for where in PLACES:
        times = [r for r in results if r["side"] == "stall" and r["where"] == where]
        ratios = [a / b for r in times for a, b in zip(r["report"], r["bare"], strict=True)]
        if ratios:
            middle = statistics.median(ratios)
            bare = statistics.median(b for r in times for b in r["bare"])
            limit = f" <= {STALL_LIMIT}" if where == LINK else ""
            text = f"{times[0]['MiB']} MiB: bare {bare:.2f} s  ratio {middle:.3f}{limit}, {len(ratios)} rounds"
            line("stall", where, text, middle <= STALL_LIMIT if limit else None)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", choices=[*WORKLOADS, "stall"], help="one workload, added to what is kept")
    parser.add_argument("--show", action="store_true", help="only print what is kept")
    options = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() and (options.only or options.show) else []

    def keep(result: dict) -> None:
        kept.append(result)
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps(kept, indent=1))

    if not options.show:
        if options.only in (None, "stall"):
            for where in PLACES:
                keep(stall(where))
        for name in WORKLOADS:
            if options.only not in (None, name):
                continue
            for number in range(options.pairs):
                # Interleaved, and the first side alternates: what warms up, or slows down, meets both.
                for side in (("raw", "ours"), ("ours", "raw"))[number % 2]:
                    keep(one(side, name))
    return 0 if show(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
