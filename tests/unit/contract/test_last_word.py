"""The driver's last line, in the tail of a log that anybody may have written to."""

from __future__ import annotations

import pytest

from trainsweep.contract.documents import END_LINE, LastWord, Outcome, last_word


def test_the_last_of_several_lines_counts() -> None:
    log = f'{END_LINE}{{"outcome":"Completed"}}\nnoise\n{END_LINE}{{"outcome":"Failed","reason":"StorageDenied","message":"m"}}\n'
    assert last_word("Job failed, last logs:\n" + log) == LastWord(
        outcome=Outcome.FAILED, reason="StorageDenied", message="m"
    )


@pytest.mark.parametrize(
    "log", ["", "no such line", f"{END_LINE}", f"{END_LINE}{{", f'{END_LINE}{{"outcome":"Fine"}}', f"{END_LINE}[]"]
)
def test_what_is_no_last_word_is_none(log: str) -> None:
    assert last_word(log) is None
