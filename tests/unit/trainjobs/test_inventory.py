"""The inventory that the operator makes of a run without a receipt owes what the driver's receipt would have owed."""

import json
import os
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.inventory_agrees import assert_inventory_agrees
from tests.unit.trainjobs.builders import Place
from trainsweep.contract.documents import Outcome

STATES = ["Proposed", "Running", "Succeeded", "EarlyStopped", "Failed"]
VALUES = st.one_of(st.none(), st.sampled_from([0.1, 0.2, 0.2, 0.3, -1.0, 1e300]))
TRIALS = st.lists(
    st.tuples(
        st.sampled_from(STATES),
        st.lists(VALUES, max_size=3),
        st.sampled_from(["manifest", "bare", "no files", "orphan", "no snapshot"]),
    ),
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(
    trials=TRIALS,
    require=st.sampled_from(["BestTrial", "AllSucceeded", "AllReported", "None"]),
    mode=st.sampled_from(["Minimize", "Maximize"]),
    outcome=st.sampled_from(list(Outcome)),
)
def test_both_owe_the_same_in_any_state(trials, require, mode, outcome):
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(os, "fsync"):
        place = Place(Path(folder), objective={"metric": "loss", "mode": mode}, checkpoints={"require": require})
        for index, (state, values, kind) in enumerate(trials):
            run = place.root / place.trial(index, values, state=state, manifest=kind == "manifest")
            match kind:
                case "no files":
                    for file in run.glob("checkpoint_*/*"):
                        file.unlink()
                case "orphan":
                    (run / "checkpoint_9").mkdir(parents=True, exist_ok=True)
                    (run / "checkpoint_9" / "state.bin").write_bytes(b"half")
                case "no snapshot":
                    (run / "checkpoint_manager_snapshot.json").unlink(missing_ok=True)
        assert_inventory_agrees(place.sweep, place.records, place.store, outcome)


@pytest.mark.parametrize("absent", [1, 3])
def test_b1_a_rank_whose_upload_never_came_is_missing_to_both(tmp_path, absent):
    place = Place(tmp_path)
    run = place.root / place.trial(0, [0.5])
    folder = run / "checkpoint_1"
    for rank in range(4):
        name = "trainsweep-manifest.json" if rank == 0 else f"trainsweep-manifest-rank{rank}.json"
        manifest = json.loads((folder / "trainsweep-manifest.json").read_text())
        (folder / name).write_text(json.dumps({**manifest, "worldSize": 4}))
    driver = assert_inventory_agrees(place.sweep, place.records, place.store, Outcome.COMPLETED)
    assert driver.damaged == ()
    (folder / f"trainsweep-manifest-rank{absent}.json").unlink()
    driver = assert_inventory_agrees(place.sweep, place.records, place.store, Outcome.COMPLETED)
    assert [(d.file, d.problem) for d in driver.damaged] == [(f"trainsweep-manifest-rank{absent}.json", "Absent")]
