"""Runs for reports: small ones, hostile ones, large ones."""

import math
import random

from tests.unit.trainjobs.builders import sweep
from trainjobs.htmlreport import Facts
from trainsweep.contract.documents import Best, TrialRecord

HOSTILE = (
    '</script><script>window.pwned=1</script><!--<img src=x onerror="window.pwned=1">\'`${1}'
    "\u2028\u2029\x00\x1b[31m\U0001f600@@DATA@@"
)
"""Ends scripts, opens comments, separates lines, names a mark of the template."""

SEARCH = {
    "algorithm": {"tpe": {"seed": 1}},
    "parameters": [
        {"name": "lr", "float": {"min": 1e-5, "max": 1e-1, "log": True}},
        {"name": "width", "categorical": {"values": [8, 16, 32]}},
        {"name": "depth", "int": {"min": 1, "max": 9}},
        {"name": "flag", "categorical": {"values": [True, False]}},
    ],
}


def facts(records, *, search=None, count=None, **changes) -> Facts:
    made = sweep(
        uri="s3://bucket/sweeps/default/demo/v1-0123456789abcdef",
        search=search or SEARCH,
        trials={"count": count or max(1, len(records)), "earlyStopping": {"asha": {"maxEpochs": 9, "graceEpochs": 1}}},
    )
    valued = [r for r in records if r.best_value is not None]
    best = min(valued, key=lambda r: r.best_value, default=None)
    found = None
    if best is not None:
        found = Best(trial=best.trial, value=best.best_value, step=best.best_step or 0, parameters=best.parameters)
    return Facts(**{"sweep": made, "records": records, "written_at": 1_790_000_000.0, "best": found, **changes})


def trial(index, state="Succeeded", **changes) -> TrialRecord:
    return TrialRecord(
        index=index, trial=f"t{index:04d}", state=state, config_hash="0123456789", **{"parameters": {}, **changes}
    )


def many(count: int, epochs: int = 4) -> list[TrialRecord]:
    """A run whose learning rate matters most; one in nine trials fails."""
    draw = random.Random(1)  # noqa: S311  # no secret is drawn
    out = []
    for index in range(count):
        parameters = {
            "lr": 10 ** draw.uniform(-5, -1), "width": draw.choice([8, 16, 32]),
            "depth": draw.randint(1, 9), "flag": draw.random() < 0.5,
        }  # fmt: skip
        if index % 9 == 5:
            error = f"CUDA out of memory. Tried to allocate {draw.randint(1, 99)} MiB at 0x{draw.getrandbits(32):x}"
            out.append(trial(index, "Failed", parameters=parameters, error=error, seconds=3.0, started_at=index * 10.0))
            continue
        final = (math.log10(parameters["lr"]) + 3) ** 2 + 8 / parameters["width"]
        ran = epochs if index % 3 else 1
        history = [(e, final + 3 / e) for e in range(1, ran + 1)]
        out.append(
            trial(
                index, "Succeeded" if ran == epochs else "EarlyStopped", parameters=parameters, step=ran,
                value=history[-1][1], best_value=history[-1][1], best_step=ran, history=history,
                metrics={"accuracy": 1 / (1 + final)}, seconds=10.0 * ran, started_at=index * 10.0,
                ended_at=index * 10.0 + 10 * ran, rungs={str(e): v for e, v in history if e in (1, 4)},
            )
        )  # fmt: skip
    return out
