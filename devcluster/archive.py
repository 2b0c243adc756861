"""Image archives written by hand: a few files, one layer, no builder."""

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def write_image(
    archive: Path,
    tag: str,
    *,
    files: Mapping[str, Path] | None = None,
    layer: Path | None = None,
    entrypoint: Sequence[str] = (),
    env: Sequence[str] = (),
    user: str = "",
) -> None:
    """Write a docker archive, whole or not at all.

    Args:
        archive: the file to write.
        tag: the image's name.
        files: paths in the image and what lies there, made executable.
        layer: a ready tar file to be its only layer, instead of ``files``.
        entrypoint: what a container runs.
        env: environment, "NAME=value".
        user: user and group that a container runs as.
    """
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".image-") as scratch:
        if layer is None:
            layer = Path(scratch) / "layer.tar"
            with tarfile.open(layer, "w") as tar:
                for name, source in (files or {}).items():
                    member = tar.gettarinfo(source, arcname=name.lstrip("/"))
                    member.uid, member.gid, member.uname, member.gname, member.mode = 0, 0, "", "", 0o755
                    with source.open("rb") as stream:
                        tar.addfile(member, stream)
        with layer.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": list(entrypoint) or None, "Env": list(env), "User": user},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            "history": [{"created_by": "trainsweep devcluster"}],
        }
        text = json.dumps(config).encode()
        name = f"{hashlib.sha256(text).hexdigest()}.json"
        manifest: list[dict[str, Any]] = [{"Config": name, "RepoTags": [tag], "Layers": ["layer.tar"]}]
        fresh = Path(scratch) / "image.tar"
        with tarfile.open(fresh, "w") as tar:
            _add(tar, "manifest.json", json.dumps(manifest).encode())
            _add(tar, name, text)
            tar.add(layer, arcname="layer.tar")
        fresh.rename(archive)


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))
