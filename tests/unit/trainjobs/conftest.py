"""Wherever a test here settles a run in a folder, the operator's inventory of it must owe the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.inventory_agrees import assert_inventory_agrees
from trainjobs import proof
from trainjobs.filestore import FileStore


@pytest.fixture(autouse=True)
def inventories_agree(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Around the settlement that `Proof` makes, before and after each mending."""
    real = proof.settle

    def settled(store, sweep, records, outcome):
        if isinstance(store, FileStore):
            assert_inventory_agrees(sweep, records, store, outcome)
        return real(store, sweep, records, outcome)

    monkeypatch.setattr(proof, "settle", settled)
    return
