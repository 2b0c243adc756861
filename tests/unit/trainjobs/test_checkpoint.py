"""Checkpoints: full state there and back, refused where they belong to another trial or are damaged."""

import json
import random

import pytest

from trainjobs import checkpoint
from trainjobs.manifest import is_manifest, manifest_name, write_manifest
from trainsweep.contract.documents import Manifest

torch = pytest.importorskip("torch")  # an extra; CI has it and fails on a skip
numpy = pytest.importorskip("numpy")  # an extra; CI has it and fails on a skip

HASH = "0123456789"


def draw():
    return random.random(), numpy.random.rand(), torch.rand(1).item()  # noqa: S311  # no secret is drawn


class Parts:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.model = torch.nn.Linear(3, 1)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.lr_scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=1, gamma=0.5)
        data = torch.utils.data.TensorDataset(torch.zeros(8, 3))
        self.sampler = torch.utils.data.DistributedSampler(data, num_replicas=2, rank=0, seed=1)

    def all(self):
        return vars(self)

    def step(self):
        self.optimizer.zero_grad()
        self.model(torch.randn(4, 3)).square().mean().backward()
        self.optimizer.step()
        self.lr_scheduler.step()


def test_training_goes_on_as_if_it_had_never_stopped(tmp_path):
    one = Parts(1)
    one.step()
    one.sampler.set_epoch(4)
    checkpoint.save(tmp_path, epoch=1, metrics={"loss": 0.5}, state={"k": [1]}, config_hash=HASH, **one.all())
    expected = draw()
    one.step()

    other = Parts(2)
    resume = checkpoint.read(tmp_path, config_hash=HASH, **other.all())
    assert (resume.epoch, resume.metrics, resume.state) == (1, {"loss": 0.5}, {"k": [1]})
    assert other.sampler.epoch == 4
    assert draw() == expected
    other.step()
    assert torch.equal(one.model.weight, other.model.weight)
    assert one.lr_scheduler.get_last_lr() == other.lr_scheduler.get_last_lr()


def test_another_configuration_is_refused(tmp_path):
    parts = Parts(1)
    checkpoint.save(tmp_path, epoch=1, config_hash=HASH, **parts.all())
    with pytest.raises(checkpoint.CheckpointMismatchError, match="belongs to configuration 0123456789"):
        checkpoint.read(tmp_path, config_hash="abcdefabcd", **parts.all())


@pytest.mark.parametrize("damage", ["absent", "shorter", "other"])
def test_a_damaged_file_is_named_and_not_loaded(tmp_path, damage):
    parts = Parts(1)
    checkpoint.save(tmp_path, epoch=1, config_hash=HASH, **parts.all())
    path = tmp_path / checkpoint.STATE
    data = path.read_bytes()
    if damage == "absent":
        path.unlink()
    else:
        path.write_bytes(data[:-1] if damage == "shorter" else data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(checkpoint.CheckpointMismatchError, match=r"state\.pt"):
        checkpoint.read(tmp_path, config_hash=HASH, **parts.all())


def test_a_rank_that_the_checkpoint_does_not_know_starts_fresh(tmp_path):
    parts = Parts(1)
    checkpoint.save(tmp_path, epoch=2, config_hash=HASH, **parts.all())
    other = Parts(3)
    assert checkpoint.read(tmp_path, rank=5, config_hash=HASH, **other.all()).epoch == 2
    assert torch.equal(parts.model.weight, other.model.weight)


def test_ranks_write_files_that_do_not_clash(tmp_path):
    for rank in (0, 1):
        folder = tmp_path / str(rank)
        folder.mkdir()
        checkpoint.save(folder, epoch=1, rank=rank, world_size=2, config_hash=HASH, **Parts(1).all())
    names = [{p.name for p in (tmp_path / str(r)).iterdir()} for r in (0, 1)]
    assert not names[0] & names[1]
    assert names[1] == {"rank-1.pt", "trainsweep-manifest-rank1.json"}
    manifest = Manifest.model_validate_json((tmp_path / "0" / manifest_name(0)).read_bytes())
    assert (manifest.world_size, manifest.step, manifest.config_hash) == (2, 1, HASH)
    assert {f.path for f in manifest.files} == {"progress.json", "state.pt", "rank-0.pt"}


def test_the_scaler_of_mixed_precision_is_kept_and_an_idle_one_is_let_be(tmp_path):
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    checkpoint.save(tmp_path, epoch=1, config_hash=HASH, scaler=scaler)
    other = torch.amp.GradScaler("cpu", init_scale=4.0)
    checkpoint.read(tmp_path, scaler=other)
    assert other.state_dict()["scale"] == 128.0
    checkpoint.read(tmp_path, scaler=torch.amp.GradScaler("cpu", enabled=False))


def test_a_part_that_was_not_saved_is_named(tmp_path):
    parts = Parts(1)
    checkpoint.save(tmp_path, epoch=1, config_hash=HASH, model=parts.model)
    with pytest.raises(checkpoint.CheckpointMismatchError, match="holds no optimizer, only model"):
        checkpoint.read(tmp_path, model=parts.model, optimizer=parts.optimizer)


def test_without_torch_parts_only_json_is_written(tmp_path):
    checkpoint.save(tmp_path, epoch=3, state={"x": 1.5}, config_hash=HASH)
    assert {p.name for p in tmp_path.iterdir()} == {"progress.json", "trainsweep-manifest.json"}
    assert checkpoint.read(tmp_path, config_hash=HASH).state == {"x": 1.5}


def test_manifest_lists_nested_files_and_neither_itself_nor_rays_metadata(tmp_path):
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "a.bin").write_bytes(b"abc")
    (tmp_path / ".metadata.json").write_text("{}")
    first = write_manifest(tmp_path, rank=0, world_size=1, config_hash=HASH, step=1)
    again = write_manifest(tmp_path, rank=0, world_size=1, config_hash=HASH, step=1)
    assert [f.path for f in first.files] == ["shards/a.bin"] == [f.path for f in again.files]
    sums = {c.algorithm: c.value for c in first.files[0].checksums}
    assert sums["SHA256"] == "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="
    assert sums["CRC32"] == "NSRBwg=="
    assert json.loads((tmp_path / "trainsweep-manifest.json").read_text())["files"][0]["size"] == 3


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("trainsweep-manifest.json", True),
        ("trainsweep-manifest-rank12.json", True),
        ("trainsweep-manifest-rank0.json", False),
        ("x/trainsweep-manifest.json", False),
        ("state.pt", False),
    ],
)
def test_names_of_manifests(name, expected):
    assert is_manifest(name) is expected
