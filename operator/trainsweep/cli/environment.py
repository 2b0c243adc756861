"""What a pod would give to the driver, given to a process on this machine: environment and training source."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import trainsweep
from trainsweep.api.workload import EnvVar
from trainsweep.cli.inputs import Input
from trainsweep.cli.manifests import manifests
from trainsweep.cli.yamlfile import YamlError, read

_REFERENCE = re.compile(r"\$(\$|\(([-._a-zA-Z0-9]+)\))")


def expand(value: str, known: Mapping[str, str]) -> str:
    """`$(NAME)` as Kubernetes expands it in a container's env: unknown names stay as written, `$$` is one dollar."""

    def one(found: re.Match[str]) -> str:
        if found[1] == "$":
            return "$"
        return known.get(found[2], found[0])

    return _REFERENCE.sub(one, value)


def variables(written: Sequence[EnvVar], around: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The sweep's env, expanded in order, and notes on what only a cluster can give.

    `valueFrom` names a Secret or ConfigMap of a cluster: here a variable of the same name in the shell stands for it.
    """
    out: dict[str, str] = {}
    notes = []
    for variable in written:
        if variable.value_from:
            if variable.name not in around:
                notes.append(f"training.env {variable.name} comes from the cluster: export it in this shell if needed")
            continue
        # In a pod only variables that stand before can be referred to.
        out[variable.name] = expand(variable.value or "", out)
    return out, notes


def packages() -> list[str]:
    """Folders from which the driver must be importable: that of this package and, in a checkout, that of trainjobs."""
    here = Path(trainsweep.__file__).resolve().parents[1]
    found = [str(here)]
    if (here.parent / "trainjobs" / "__init__.py").exists():
        found.append(str(here.parent))
    return found


def source(found: Input, folder: Path) -> tuple[list[str], list[str]]:
    """Folders with the training code, and notes on where it was found.

    A ConfigMap that `training.source` names is taken from the same file, or from the configMapGenerator of the
    kustomization beside it; the sweep's own folder is on the path in any case.
    """
    beside = Path(found.file).resolve().parent if Path(found.file).exists() else Path.cwd()
    wanted = found.spec.training.source.config_map if found.spec.training.source else None
    if wanted is None:
        return [str(beside)], []
    data = _from_documents(found.file, wanted.name)
    if data is None:
        data = _from_kustomization(beside, wanted.name)
    if data is None:
        note = f"ConfigMap {wanted.name} is neither in the file nor in a kustomization beside it: {beside} is used"
        return [str(beside)], [note]
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in data.items():
        if name != Path(name).name or name in (".", ".."):
            raise ValueError(f"ConfigMap {wanted.name}: {name!r} is no file name")
        (folder / name).write_text(text)
    return [str(folder), str(beside)], []


def _from_documents(file: str, name: str) -> dict[str, str] | None:
    if not Path(file).exists():
        return None
    try:
        found = manifests(read(file))
    except YamlError:
        return None
    for manifest in found:
        if (manifest.kind, manifest.api_version, manifest.name) == ("ConfigMap", "v1", name):
            data = manifest.document.value.get("data")
            return {str(k): str(v) for k, v in data.items()} if isinstance(data, dict) else {}
    return None


def _from_kustomization(folder: Path, name: str) -> dict[str, str] | None:
    """Files of a configMapGenerator: entries are `path` or `key=path`."""
    for file in ("kustomization.yaml", "kustomization.yml", "Kustomization"):
        if not (folder / file).exists():
            continue
        try:
            documents = read(str(folder / file))
        except YamlError:
            return None
        generators = documents[0].value.get("configMapGenerator") if documents else None
        for generator in generators if isinstance(generators, list) else []:
            if isinstance(generator, dict) and generator.get("name") == name:
                out = {}
                for entry in generator.get("files") or []:
                    key, _, path = str(entry).rpartition("=")
                    out[key or Path(path).name] = (folder / path).read_text()
                return out
    return None


def process_environment(found: Input, folder: Path) -> tuple[dict[str, str], list[str]]:
    """The whole environment of the driver's process, and notes for the user."""
    own, notes = variables(found.spec.training.env, os.environ)
    paths, more = source(found, folder / "source")
    written = [own.pop("PYTHONPATH")] if own.get("PYTHONPATH") else []
    around = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    env = {**os.environ, **own, "PYTHONUNBUFFERED": "1"}
    env["PYTHONPATH"] = os.pathsep.join([*paths, *written, *packages(), *around])
    env["RAY_TRAIN_COLLECTIVE_TIMEOUT_S"] = env.get("RAY_TRAIN_COLLECTIVE_TIMEOUT_S", "1800")
    region = found.spec.storage.region
    if region:
        env.setdefault("AWS_REGION", region)
        env.setdefault("AWS_DEFAULT_REGION", region)
    if found.spec.storage.endpoint_url:
        env["AWS_REQUEST_CHECKSUM_CALCULATION"] = env["AWS_RESPONSE_CHECKSUM_VALIDATION"] = "when_required"
    return env, notes + more
