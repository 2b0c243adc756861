"""What an image is built from, as a name: the same inputs give the same image, which need not be built again."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path


def build_key(dockerfile: Path, target: str | None, base: str, build_args: Mapping[str, str], context: Path) -> str:
    """Names the inputs of a build: the Dockerfile, its target and arguments, the base and every file it may copy."""
    digest = hashlib.sha256()
    words = (target or "", base, *(f"{name}={value}" for name, value in sorted(build_args.items())))
    digest.update("\0".join(words).encode() + dockerfile.read_bytes())
    for file in sorted(copied(context)):
        mode = b"x" if os.access(file, os.X_OK) else b"-"
        content = os.readlink(file).encode() if file.is_symlink() else file.read_bytes()
        digest.update(f"\0{file.relative_to(context)}\0{len(content)}\0".encode() + mode + content)
    return digest.hexdigest()[:12]


def copied(context: Path) -> Iterator[Path]:
    """Files that a build may copy: all, or those that a .dockerignore which begins by ignoring all takes back in."""
    ignore = context / ".dockerignore"
    lines = [line.strip() for line in ignore.read_text().splitlines()] if ignore.exists() else []
    tops = [context / line[1:] for line in lines if line.startswith("!")] if "*" in lines else [context]
    for top in tops:
        for path in top.rglob("*") if top.is_dir() else (top,):
            if "__pycache__" not in path.parts and path.suffix != ".pyc" and (path.is_symlink() or path.is_file()):
                yield path
