"""The live table of a local run: what is shown, that nothing in it is markup or steers the terminal."""

import io

from rich.console import Console

from tests.unit.runtime.runs import ATTEMPT
from trainsweep.cli.live import View, choose, spark, trial_table
from trainsweep.contract.documents import Phase, Progress, TrialCounts, TrialRecord
from trainsweep.contract.layout import parse_uri
from trainsweep.runtime.store import FileStore


def record(index, state="Succeeded", value=None, **changes):
    return TrialRecord(
        index=index, trial=f"t{index:04d}", state=state, parameters={"lr": 0.001 * (index + 1)},
        config_hash="0123456789", best_value=value, value=value, **changes,
    )  # fmt: skip


def test_running_trials_come_first_then_the_best():
    records = [
        record(0, value=3.0),
        record(1, "Running", value=9.0),
        record(2, value=1.0),
        record(3, "Failed", error="x"),
    ]
    assert [r.index for r in choose(records, "Minimize")] == [1, 2, 0, 3]
    assert [r.index for r in choose(records, "Maximize", rows=3)] == [1, 0, 3]


def test_a_curve_fits_in_a_line():
    assert spark([1, 2, 3]) == "▁▅█"  # round half to even: 3.5 is 4
    assert spark([2, 2, 2]) == "▁▁▁"
    assert spark([5]) == ""
    assert len(spark(list(range(100)))) == 16


def shown(records, width=120):
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False).print(trial_table(records, "loss", "Minimize"))
    return out.getvalue()


def test_text_of_users_is_text():
    text = shown([record(0, "Failed", error="[bold]boom[/bold] \x1b[2J\x07 [link=http://x]y[/link]")])
    assert "[bold]boom[/bold]" in text
    assert "\x1b" not in text
    assert "\x07" not in text


def test_a_narrow_terminal_cuts_and_never_folds():
    records = [record(i, value=float(i), step=3, history=[(1, 2.0), (2, 1.0)], seconds=12.0) for i in range(5)]
    lines = shown(records, width=60).splitlines()
    assert len(lines) == 6
    assert all(len(line) <= 60 for line in lines)


def test_a_terminal_gets_the_table_and_a_pipe_gets_lines(tmp_path):
    store = FileStore(parse_uri(f"file://{tmp_path}"))
    (tmp_path / "trials.jsonl").write_bytes(record(0, "Running", value=0.5, step=2).to_json() + b"\n")
    progress = Progress(
        attempt_id=ATTEMPT, phase=Phase.RUNNING, heartbeat_at=1.0, trials=TrialCounts(expected=4, running=1, pending=3)
    )
    for terminal in (True, False):
        out = io.StringIO()
        with View(Console(file=out, force_terminal=terminal, width=100, height=30), store, "loss", "Minimize") as view:
            view.update(progress)
            view.update(progress)
        assert ("t0000" in out.getvalue()) is terminal
        if not terminal:
            assert out.getvalue().count("\n") == 1, "an unchanged line is not printed again"


def test_an_unreadable_record_leaves_the_last_table(tmp_path):
    store = FileStore(parse_uri(f"file://{tmp_path}"))
    (tmp_path / "trials.jsonl").write_bytes(b"{not json}\n")
    with View(Console(file=io.StringIO(), force_terminal=True), store, "loss", "Minimize") as view:
        view.update(None)
        view.update(None, "the store does not answer")
