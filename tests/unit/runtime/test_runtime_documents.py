from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.runtime.runs import ATTEMPT, Run
from trainsweep.runtime.documents_reader import (
    BadDocument,
    check_depth,
    clean,
    parse_json,
    read_end,
    read_progress,
    read_receipt,
    read_trials,
)
from trainsweep.runtime.store import Absent, TooLarge

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=10,
)


def depth_of(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max((depth_of(v) for v in value.values()), default=0)
    if isinstance(value, list):
        return 1 + max((depth_of(v) for v in value), default=0)
    return 0


@given(JSON, st.integers(0, 4))
def test_depth_is_that_of_the_parsed_value(value: object, limit: int) -> None:
    text = json.dumps(value).encode()
    if depth_of(value) > limit:
        with pytest.raises(BadDocument):
            check_depth(text, limit)
    else:
        check_depth(text, limit)


@given(st.binary(max_size=300))
def test_bytes_of_any_kind_give_a_value_or_a_bad_document(data: bytes) -> None:
    with contextlib.suppress(BadDocument):
        parse_json(data, "x")


@pytest.mark.parametrize("text", [b"[" * 10_000, b"[" * 1_000_000, b'{"a":' * 500_000, b'"' + b"\\" * 1_000_000])
def test_deep_and_open_texts_cost_next_to_nothing(text: bytes) -> None:
    started = time.monotonic()
    with pytest.raises(BadDocument):
        parse_json(text, "receipt.json")
    assert time.monotonic() - started < 2


def test_brackets_in_strings_are_no_depth() -> None:
    assert parse_json(json.dumps({"a": '[[[["' * 100}).encode(), "x") == {"a": '[[[["' * 100}


def test_control_and_direction_characters_are_stripped_and_strings_cut() -> None:
    assert clean({"a\x1b[31m": ["x\x00y\u202ez", "k" * 10_000]}) == {"a[31m": ["xyz", "k" * 8192]}


def test_a_progress_that_is_no_such_thing(file_run: Run) -> None:
    with pytest.raises(Absent):
        read_progress(file_run.store)
    good = {"attemptId": ATTEMPT, "phase": "Running", "heartbeatAt": 1.0, "trials": {"expected": 3}}
    file_run.put("progress.json", json.dumps(good).encode())
    assert read_progress(file_run.store).trials.expected == 3
    for bad in (
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        json.dumps({**good, "heartbeatAt": float("nan")}).encode(),
        json.dumps({**good, "contractVersion": 2}).encode(),
        json.dumps({**good, "best": {"trial": "../x", "value": 1, "step": 1}}).encode(),
        json.dumps({**good, "best": {"trial": "t", "value": 1, "step": 1, "checkpoint": "../../x"}}).encode(),
    ):
        file_run.put("progress.json", bad)
        with pytest.raises(BadDocument, match=r"progress\.json"):
            read_progress(file_run.store)
    file_run.put("progress.json", b" " * 4097)
    with pytest.raises(TooLarge):
        read_progress(file_run.store)


def test_a_last_word_of_another_attempt_is_refused(file_run: Run) -> None:
    end = {"attemptId": "2-0b0e6c1e", "outcome": "Completed", "endedAt": 1.0}
    file_run.put(f"attempts/{ATTEMPT}/end.json", json.dumps(end).encode())
    with pytest.raises(BadDocument):
        read_end(file_run.store, ATTEMPT)


def test_the_newest_receipt_is_read_with_the_digest_of_its_very_bytes(file_run: Run) -> None:
    digest = file_run.settle(json.dumps(file_run.receipt(), indent=3).encode())
    receipt, found, key = read_receipt(file_run.store, ATTEMPT)
    assert (found, key) == (digest, f"attempts/{ATTEMPT}/receipt.json")
    assert receipt.attempt_id == ATTEMPT


def test_the_last_line_of_a_trial_wins_and_a_torn_end_is_left_out(file_run: Run) -> None:
    def line(index: int, state: str) -> bytes:
        body = {"index": index, "trial": f"t{index}", "state": state, "parameters": {}, "configHash": "0123456789"}
        return json.dumps(body).encode()

    whole = line(1, "Proposed") + b"\n\n" + line(0, "Running") + b"\n" + line(1, "Succeeded") + b"\n"
    file_run.put("trials.jsonl", whole + line(2, "Running")[:30])
    assert [(r.index, r.state) for r in read_trials(file_run.store)] == [(0, "Running"), (1, "Succeeded")]
    file_run.put("trials.jsonl", b"{broken}\n" + whole)
    with pytest.raises(BadDocument, match="line 1"):
        read_trials(file_run.store)
