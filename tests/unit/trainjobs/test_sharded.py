"""FSDP2 on the CPU: shards of all ranks side by side, and loaded at another world size (no Ray)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.trainjobs import shard_worker
from trainjobs import checkpoint
from trainjobs.checkpoint import CheckpointMismatchError

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")  # an extra; CI has it and fails on a skip

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
HASH = shard_worker.HASH


def run(folder: Path, mode: str, world_size: int, steps: int) -> None:
    meeting = folder / f"meeting-{mode}-{world_size}"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, str(HERE / "shard_worker.py")]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(world_size), str(meeting), str(folder), mode, str(steps)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world_size)
    ]
    for process in ranks:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors[-3000:]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint of two ranks after three steps, merged as Ray merges it, and what training on gives."""
    folder = tmp_path_factory.mktemp("sharded")
    run(folder, "save", 2, 3)
    place = folder / "checkpoint"
    names: set[str] = set()
    for rank in (0, 1):
        files = {str(p.relative_to(folder / f"rank{rank}")) for p in (folder / f"rank{rank}").rglob("*") if p.is_file()}
        assert not names & files, "two ranks wrote one name"
        names |= files
        shutil.copytree(folder / f"rank{rank}", place, dirs_exist_ok=True)
    return folder


def test_each_rank_writes_its_own_shards_and_manifest(saved):
    names = {str(p.relative_to(saved / "checkpoint")) for p in (saved / "checkpoint").rglob("*") if p.is_file()}
    assert {"shards/.metadata", "rank-0.pt", "rank-1.pt", "progress.json", "state.pt"} <= names
    assert {"shards/__0_0.distcp", "shards/__1_0.distcp", "trainsweep-manifest-rank1.json"} <= names
    checkpoint.check(saved / "checkpoint", config_hash=HASH)


@pytest.mark.parametrize("world_size", [1, 3])
def test_b1_a_sharded_checkpoint_goes_on_at_another_world_size(saved, world_size):
    (saved / "resume.pt").unlink(missing_ok=True)
    run(saved, "resume", world_size, 2)
    expected, found = torch.load(saved / "save.pt"), torch.load(saved / "resume.pt")
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-6)


def test_a_plain_module_takes_a_sharded_checkpoint_without_a_process_group(saved):
    mine = shard_worker.parts(sharded=False)
    resume = checkpoint.read(saved / "checkpoint", config_hash=HASH, **mine)
    assert (resume.epoch, resume.step) == (1, 3)
    shard_worker.train(mine, 3, 2, 0, 1)
    for name, tensor in torch.load(saved / "save.pt").items():
        torch.testing.assert_close(mine["model"].state_dict()[name], tensor, rtol=1e-4, atol=1e-6)


def test_a_checkpoint_that_lacks_a_rank_is_refused(saved, tmp_path):
    place = tmp_path / "part"
    shutil.copytree(saved / "checkpoint", place)
    (place / "trainsweep-manifest-rank1.json").unlink()
    with pytest.raises(CheckpointMismatchError, match=r"trainsweep-manifest-rank1\.json"):
        checkpoint.read(place, config_hash=HASH)


def test_a_damaged_shard_is_found_by_the_reader_whose_share_it_is(saved, tmp_path):
    place = tmp_path / "damaged"
    shutil.copytree(saved / "checkpoint", place)
    (place / "shards" / "__1_0.distcp").write_bytes(b"x")
    found = []
    for number in range(2):
        try:
            checkpoint.check(place, config_hash=HASH, share=(number, 2))
        except CheckpointMismatchError as error:
            found.append(str(error))
    assert found == ["shards/__1_0.distcp of the checkpoint is damaged"]
