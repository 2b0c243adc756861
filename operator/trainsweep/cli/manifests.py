"""Finds the sweep, and a class beside it, among the documents of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainsweep.api import API_VERSION, GROUP
from trainsweep.cli.yamlfile import Document, YamlError, read


@dataclass(frozen=True)
class Manifest:
    """One Kubernetes object of a file."""

    document: Document
    kind: str
    api_version: str
    name: str

    @property
    def ours(self) -> bool:
        """Whether it is of our API group."""
        return self.api_version.split("/")[0] == GROUP


@dataclass(frozen=True)
class SweepFile:
    """The sweep of a file, and the class that stands beside it, if one does."""

    sweep: Manifest
    sweep_class: Manifest | None

    @property
    def spec(self) -> dict[str, Any]:
        """`.spec` of the sweep."""
        spec = self.sweep.document.value.get("spec")
        return spec if isinstance(spec, dict) else {}


def manifests(documents: Sequence[Document]) -> list[Manifest]:
    """The objects of these documents, those of a `kind: List` one by one.

    Raises:
        YamlError: for a document that is no Kubernetes object.
    """
    found: list[Manifest] = []
    for document in documents:
        value = document.value
        if not isinstance(value, dict):
            raise YamlError(
                document.file, document.line(""), "is no Kubernetes object: a map with apiVersion and kind is"
            )
        for key in ("apiVersion", "kind"):
            if not isinstance(value.get(key), str) or not value[key]:
                raise YamlError(document.file, document.line(key), f"{key} is required and must be a string")
        kind, items = value["kind"], value.get("items")
        if kind == "List" or (kind.endswith("List") and isinstance(items, list)):
            if not isinstance(items, list):
                raise YamlError(document.file, document.line("items"), "items must be a list")
            found += manifests([document.at(i) for i in range(len(items))])
            continue
        metadata = value.get("metadata")
        name = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, dict) else None
        found.append(Manifest(document, kind, value["apiVersion"], name if isinstance(name, str) else ""))
    return found


def stranger(manifest: Manifest) -> str:
    """What a document is, for a message: `kind Experiment of kubeflow.org`."""
    group = manifest.api_version.split("/")[0] if "/" in manifest.api_version else "the core API"
    return f"kind {manifest.kind} of {group}"


def pick(found: Sequence[Manifest], file: str, name: str | None = None) -> SweepFile:
    """The one sweep among these objects.

    Args:
        found: the objects of the file.
        file: the file's name, for messages.
        name: `metadata.name` of the sweep, needed where there are several.

    Raises:
        YamlError: where there is none, or there are several and no name was given.
    """
    sweeps = [m for m in found if m.ours and m.kind == "TrainSweep"]
    if not sweeps:
        others = ", ".join(dict.fromkeys(stranger(m) for m in found))
        line = found[0].document.line("kind") if found else 0
        raise YamlError(file, line, f"{others or 'no document'}, expected TrainSweep of {GROUP}")
    named = [m for m in sweeps if name is None or m.name == name]
    names = ", ".join(m.name or "(without a name)" for m in sweeps)
    if not named:
        raise YamlError(file, 0, f"holds no sweep named {name}: it holds {names}")
    if len(named) > 1:
        raise YamlError(file, named[1].document.line("kind"), f"holds several sweeps ({names}): name one with --name")
    sweep = named[0]
    if sweep.api_version != API_VERSION:
        text = f"apiVersion {sweep.api_version} is not known here: write {API_VERSION}"
        raise YamlError(file, sweep.document.line("apiVersion"), text)
    return SweepFile(sweep, class_beside(sweep, found))


def class_beside(sweep: Manifest, found: Sequence[Manifest]) -> Manifest | None:
    """The class among these objects that a sweep would get: the one it names, else the only or the default one."""
    classes = [m for m in found if m.ours and m.kind == "TrainSweepClass"]
    spec = sweep.document.value.get("spec")
    wanted = spec.get("className") if isinstance(spec, dict) else None
    if wanted:
        return next((m for m in classes if m.name == wanted), None)
    return classes[0] if len(classes) == 1 else next((m for m in classes if _is_default(m)), None)


def _is_default(manifest: Manifest) -> bool:
    metadata = manifest.document.value.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and annotations.get("trainsweep.io/is-default-class") == "true"


def load(path: str, name: str | None = None) -> SweepFile:
    """The sweep of a file (`-`: standard input).

    Raises:
        YamlError: naming file, line and cure.
    """
    documents = read(path)
    return pick(manifests(documents), documents[0].file if documents else path, name)
