"""Train's snapshot read as JSON: order of commitment, steps, values, and hostile text."""

import json

import pytest

from trainsweep.contract.snapshot import PARTIAL, SnapshotError, parse_snapshot

RUN = "train/t0000-0123456789"


def snapshot(entries, indices=None, latest=None):
    results = [{"version": 0, "checkpoint_dir_name": n, "metrics": m} for n, m in entries]
    return json.dumps(
        {
            "ray_version": "2.58.0",
            "checkpoint_results": results,
            "checkpoint_report_indices": list(range(len(results))) if indices is None else indices,
            "latest_checkpoint_result": latest
            and {"version": 0, "checkpoint_dir_name": latest[0], "metrics": latest[1]},
            "current_report_index": len(results),
        }
    )


def test_order_is_that_of_commitment_not_of_score():
    text = snapshot(
        [("c3", {"epoch": 3, "loss": 0.9}), ("c1", {"epoch": 1, "loss": 0.5}), ("c2", {"epoch": 2, "loss": 0.1})],
        [2, 0, 1],
        ("c3", {"epoch": 3, "loss": 0.9}),
    )
    found = parse_snapshot(text, RUN, "loss")
    assert [(c.step, c.value) for c in found] == [(1, 0.5), (2, 0.1), (3, 0.9)]
    assert found[-1].checkpoint == f"{RUN}/c3"


def test_newest_that_is_not_among_the_results_counts():
    found = parse_snapshot(
        snapshot([("c1", {"epoch": 1, "loss": 1})], None, ("c2", {"epoch": 2, "loss": 2})), RUN, "loss"
    )
    assert [c.step for c in found] == [1, 2]


@pytest.mark.parametrize("value", [None, "0.1", True, [1]])
def test_a_value_that_is_no_number_is_none(value):
    assert parse_snapshot(snapshot([("c", {"epoch": 1, "loss": value})]), RUN, "loss")[0].value is None


def test_without_epoch_the_report_counts():
    assert [c.step for c in parse_snapshot(snapshot([("a", {}), ("b", {})], [4, 5]), RUN, "loss")] == [5, 6]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"checkpoint_results": 3}',
        '{"checkpoint_results": [3]}',
        snapshot([("../../other", {})]),
        snapshot([("..", {})]),
        snapshot([("a/b", {})]),
        snapshot([("", {})]),
        snapshot([("a", {})], ["x"]),
        snapshot([("a", {})], [-1]),
    ],
)
def test_hostile_text_is_one_error(text):
    with pytest.raises(SnapshotError):
        parse_snapshot(text, RUN, "loss")


def test_a_checkpoint_inside_of_an_epoch_has_no_result():
    text = json.dumps(
        {
            "checkpoint_results": [
                {"checkpoint_dir_name": "a", "metrics": {"epoch": 1, "loss": 0.5}},
                {"checkpoint_dir_name": "b", "metrics": {"epoch": 1, "loss": 1.7e308, PARTIAL: True}},
            ]
        }
    )
    found = parse_snapshot(text, "train/t0000-0123456789", "loss")
    assert [(item.step, item.value) for item in found] == [(1, 0.5), (1, None)]
