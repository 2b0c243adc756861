"""A scheduler's message, told by what keeps most of the nodes from taking the pod."""

from __future__ import annotations

import pytest

from trainsweep.core.pending.placement import account


@pytest.mark.parametrize(
    ("said", "reason", "words"),
    [
        ("0/0 nodes are available: something new.", "NoNodes", "the cluster has no nodes"),
        ("0/3 nodes are available: 3 something new.", "Unschedulable", "0/3 nodes are available: 3 something new."),
        ("odd words", "Unschedulable", "odd words"),
        ("", "Unschedulable", "no node takes it"),
    ],
)
def test_what_is_in_no_table(said: str, reason: str, words: str) -> None:
    found = account(said)
    assert (found[0], found[1]) == (reason, words)


def test_the_gravest_kind_comes_first_and_of_a_kind_the_most_nodes() -> None:
    said = "0/9 nodes are available: 2 Insufficient cpu, 3 something new, 4 Insufficient memory."
    turned = "0/9 nodes are available: 4 Insufficient memory, 3 something new, 2 Insufficient cpu."
    assert account(said) == account(turned)
    assert account(said)[1].startswith("0 of 9 nodes fit: 4 without enough memory, 2 without enough cpu")
