"""docs/troubleshooting.md has an entry for every reason, and none for reasons that no longer are."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.pending import Layer, Why

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^### `([A-Za-z]+)`\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("reason", [*Reason, *Why])
def test_a_reason_has_an_entry_that_says_something(reason: Reason | Why):
    found = [text.strip() for name, text in ENTRIES if name == reason]
    assert len(found) == 1, f"docs/troubleshooting.md needs one heading '### `{reason}`', has {len(found)}"
    assert len(found[0].split()) >= 5, f"the entry of {reason} says too little"


def test_no_entry_is_left_of_a_reason_that_is_gone():
    assert {name for name, _ in ENTRIES} <= {str(reason) for reason in (*Reason, *Why)}


def test_no_heading_stands_twice():
    headings = Counter(re.findall(r"^#+ .*$", TEXT, re.MULTILINE))
    assert [heading for heading, count in headings.items() if count > 1] == []


@pytest.mark.parametrize(
    "condition", [c for c in Condition if c not in ("Finished", "Ready", "Reconciling", "Stalled")]
)
def test_a_condition_has_a_section(condition: Condition):
    """Those left out repeat Succeeded for tools: kubectl wait and kstatus."""
    assert re.search(rf"^## .*`{condition}`", TEXT, re.MULTILINE), condition


@pytest.mark.parametrize("layer", [layer for layer in Layer if layer is not Layer.SPEC])
def test_a_layer_of_waiting_has_a_section(layer: Layer):
    """The reasons of layer Spec are those of the condition Admitted."""
    assert re.search(rf"^## Why it waits: `{layer}`", TEXT, re.MULTILINE), layer
