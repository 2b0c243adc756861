"""Programs: the cache is keyed by what they are built from, a killed build leaves nothing, the user's own are used."""

import json
import tarfile
from pathlib import Path

import pytest

from devcluster import archive, golang, programs, tools
from devcluster.errors import DevClusterError
from devcluster.golang import GoProgram


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINSWEEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DEVCLUSTER_BIN", raising=False)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path / "cache"


def test_every_pin_stands_in_its_module_file() -> None:
    for program in (*programs.ALL, *programs.EXTRAS):
        assert f"{program.module} {program.version}" in (program.source / "go.mod").read_text()


def test_a_changed_module_file_is_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golang, "SOURCE", tmp_path)
    source = tmp_path / "go" / "x"
    source.mkdir(parents=True)
    program = GoProgram("x", "example.org/x", "v1.0.0", ".", "1 s")
    (source / "go.mod").write_text("module x\n")
    before = program.folder
    (source / "go.mod").write_text("module x\n\ngo 1.25.0\n")
    assert program.folder != before
    assert before.name.startswith("x-v1.0.0-")


def test_a_failed_build_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(golang, "SOURCE", tmp_path)
    monkeypatch.setattr(golang, "go_command", lambda: Path("/bin/false"))
    monkeypatch.setattr(golang, "need_disk", lambda _: None)
    (tmp_path / "go" / "x").mkdir(parents=True)
    with pytest.raises(DevClusterError, match="DEVCLUSTER_BIN"):
        golang.ensure(GoProgram("x", "example.org/x", "v1.0.0", ".", "1 s"))
    assert list((cache / "bin").iterdir()) == []


def test_a_short_disk_is_said_before_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golang, "MIN_FREE_BYTES", 2**60)
    with pytest.raises(DevClusterError, match="GB free"):
        golang.need_disk(tmp_path)


def test_a_program_that_the_user_has_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "kubectl"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert tools.kubectl() == own.resolve()
    assert tools.from_user("etcd") is None


def test_an_image_archive_names_its_tag_layer_and_user(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"x" * 100)
    target = tmp_path / "image.tar"
    archive.write_image(target, "localhost/x:1", files={"/bin/x": program}, entrypoint=["/bin/x"], user="65532:65532")
    with tarfile.open(target) as image:
        manifest = json.load(image.extractfile("manifest.json"))[0]
        config = json.load(image.extractfile(manifest["Config"]))
        layer = image.extractfile("layer.tar")
        with tarfile.open(fileobj=layer) as files:
            member = files.getmember("bin/x")
    assert manifest["RepoTags"] == ["localhost/x:1"]
    assert config["config"]["User"] == "65532:65532"
    assert member.mode == 0o755
