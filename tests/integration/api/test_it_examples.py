"""D5: every manifest that we show is taken by a strict API server with the CRDs of the same commit, and by lint."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.apiserver import ApiServer
from trainsweep.cli.lint import Severity, lint
from trainsweep.cli.manifests import manifests
from trainsweep.cli.yamlfile import parse

ROOT = Path(__file__).parents[3]
FENCE = re.compile(r"^```ya?ml\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shown() -> Iterator[tuple[str, str]]:
    """Every YAML text of ours that holds an object of our group, with a name for it."""
    for path in sorted([*ROOT.glob("examples/**/*.yaml"), *ROOT.glob("manifests/overlays/**/*.yaml")]):
        yield str(path.relative_to(ROOT)), path.read_text()
    pages = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
        *ROOT.glob("charts/**/*.txt"),
    ]
    for page in sorted(pages):
        for i, block in enumerate(FENCE.findall(page.read_text())):
            yield f"{page.relative_to(ROOT)}#{i}", block


SHOWN = [(name, text) for name, text in shown() if re.search(r"^apiVersion: trainsweep\.io/", text, re.MULTILINE)]


def test_D5_there_are_examples() -> None:
    assert {"examples/digits/sweep.yaml", "examples/tiny/sweep.yaml"} <= {name for name, _ in SHOWN}


@pytest.mark.parametrize(("name", "text"), SHOWN, ids=[name for name, _ in SHOWN])
def test_D5_a_shown_manifest_is_taken(api: ApiServer, tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / "shown.yaml"
    file.write_text(text)
    assert [str(f) for f in lint([str(file)]) if f.severity is Severity.ERROR] == []
    for manifest in manifests(parse(name, text.encode())):
        if manifest.ours:
            value = manifest.document.value
            # Other tests have, and end, namespaces of the names that we show.
            value["metadata"].pop("namespace", None)
            assert api.try_create(value) == []
