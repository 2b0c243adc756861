"""One corpus through kubectl and a real API server, and through our reader: same values, same verdict, same path."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from devcluster import Cluster
from tests.corpus_files import READABLE, UNREADABLE, expectation
from tests.integration.apiserver import ApiServer
from trainsweep.cli.manifests import Manifest, manifests
from trainsweep.cli.yamlfile import read


def kubectl_reads(cluster: Cluster, path: Path) -> tuple[list[dict[str, Any]], str]:
    """The objects that kubectl makes of a file, and its complaints."""
    program: list[str | Path] = [cluster.kubectl_bin, "--kubeconfig", cluster.kubeconfig]
    done = subprocess.run(
        [*program, "create", "--dry-run=client", "--validate=false", "-o", "json", "-f", path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    objects, rest, decoder = [], done.stdout.lstrip(), json.JSONDecoder()
    while rest:
        value, end = decoder.raw_decode(rest)
        objects.append(value)
        rest = rest[end:].lstrip()
    return objects, "" if done.returncode == 0 else done.stderr


def comparable(value: dict[str, Any]) -> str:
    """All but metadata, where kubectl adds a namespace; JSON text, so that 1, 1.0 and true differ."""
    return json.dumps({k: v for k, v in value.items() if k != "metadata"}, sort_keys=True)


@pytest.mark.parametrize("path", READABLE, ids=lambda p: p.stem)
def test_E_same_values_and_same_verdict(control_plane: Cluster, api: ApiServer, path: Path) -> None:
    theirs, complaint = kubectl_reads(control_plane, path)
    ours: list[Manifest] = manifests(read(str(path)))
    assert complaint == ""
    assert len(theirs) == len(ours)
    for their, our in zip(theirs, ours, strict=True):
        assert comparable(their) == comparable(our.document.value), our.name
        if not our.ours:
            continue
        expected, _ = expectation(our.document.value)
        told = api.try_create(their)
        if not expected:
            assert told == [], our.name
        else:
            # A strict decoding error and a refusal by `not` carry the path in their words; a generated name is a name.
            expected = expected.replace("generateName", "name")
            assert any(at == expected or f'"{expected}"' in text for at, text in told), (our.name, expected, told)


@pytest.mark.parametrize("path", UNREADABLE, ids=lambda p: p.stem)
def test_E_what_kubectl_cannot_read_and_what_only_we_refuse(control_plane: Cluster, path: Path) -> None:
    _, complaint = kubectl_reads(control_plane, path)
    assert (complaint == "") is path.name.startswith("unreadable-ours-")
