"""Files: documents, lines, limits, and what is named when one cannot be read."""

from __future__ import annotations

import io
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.corpus_files import READABLE, UNREADABLE, expectation, expected_line
from trainsweep.cli import yamlfile
from trainsweep.cli.lint import Severity, lint
from trainsweep.cli.manifests import load, manifests, pick
from trainsweep.cli.yamlfile import YamlError, parse, read

SWEEP = b"apiVersion: trainsweep.io/v1alpha1\nkind: TrainSweep\nmetadata: {name: %s}\nspec: {}\n"


def value(text: str) -> Any:
    (document,) = parse("f", text.encode())
    return document.value


def fails(text: str | bytes) -> YamlError:
    with pytest.raises(YamlError) as caught:
        parse("f", text if isinstance(text, bytes) else text.encode())
    return caught.value


@pytest.mark.parametrize("path", UNREADABLE, ids=lambda p: p.stem)
def test_E_unreadable_files_name_their_line(path: Path) -> None:
    with pytest.raises(YamlError) as caught:
        read(str(path))
    assert caught.value.line == expected_line(path)
    assert str(caught.value).startswith(f"{path}:{caught.value.line}: ")


@pytest.mark.parametrize("path", READABLE, ids=lambda p: p.stem)
def test_E_the_corpus_gets_its_verdicts(path: Path) -> None:
    errors = [f for f in lint([str(path)]) if f.severity is Severity.ERROR]
    seen = 0
    for manifest in manifests(read(str(path))):
        if not manifest.ours:
            continue
        seen += 1
        lines = manifest.document.lines.values()
        mine = [f.path for f in errors if min(lines) <= f.line <= max(lines)]
        _, expected = expectation(manifest.document.value)
        if expected:
            assert any(p == expected or p.startswith(expected) for p in mine), (
                f"{manifest.name}: {expected} not in {mine}"
            )
        else:
            assert mine == [], manifest.name
    assert seen


class TestLines:
    TEXT = "a:\n  b: 1\n  c:\n  - x\n  - {d: 2,\n     e: 3}\n"

    def test_each_value_knows_its_line(self) -> None:
        (document,) = parse("f", self.TEXT.encode())
        assert [document.line(p) for p in ("a.b", "a.c", "a.c[0]", "a.c[1].d", "a.c[1].e")] == [2, 3, 4, 5, 6]

    def test_a_missing_one_takes_the_nearest_around_it(self) -> None:
        (document,) = parse("f", self.TEXT.encode())
        assert [document.line(p) for p in ("a.c[1].missing.deep", "a.c[7]", "zzz", "")] == [5, 3, 1, 1]

    def test_a_list_s_items_keep_the_file_s_lines(self) -> None:
        text = b"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: A\n  metadata:\n    name: x\n"
        (manifest,) = manifests(parse("f", text))
        assert manifest.document.line("metadata.name") == 7
        assert manifest.name == "x"


class TestE1Spaces:
    def test_bom_and_crlf_are_fine(self) -> None:
        (document,) = parse("f", "\ufeffa: 1\r\nb: two\r\n".encode())
        assert document.value == {"a": 1, "b": "two"}

    def test_a_tab_as_indent_is_named(self) -> None:
        error = fails("a:\n\tb: 1\n")
        assert (error.line, error.message) == (2, "a tab is used as indentation: use spaces")

    def test_a_tab_inside_a_block_scalar_is_content(self) -> None:
        assert value("a: |\n  x\ty\n  \tz\n") == {"a": "x\ty\n\tz\n"}

    @pytest.mark.parametrize("text", ["a:\n  b: 1\n\u00a0\u00a0c: 2\n", "a: 1\nb\u00a0: 2\n", "a: 1\nb: 2\u00a0\n"])
    def test_a_no_break_space_is_named(self, text: str) -> None:
        error = fails(text)
        assert "no-break space (U+00A0)" in error.message
        assert error.line in (2, 3)

    def test_a_no_break_space_in_quotes_is_content(self) -> None:
        assert value('a: "x\u00a0"\n') == {"a": "x\u00a0"}

    def test_control_characters_and_other_encodings(self) -> None:
        assert fails("a: 1\nb: x\x07y\n").line == 2
        error = fails(b"a: 1\nb: \xff\n")
        assert (error.line, "UTF-8" in error.message) == (2, True)


class TestE1Doubles:
    def test_a_key_twice_names_both_lines(self) -> None:
        error = fails("a: 1\nb: 2\na: 3\n")
        assert error.line == 3
        assert "line 1" in error.message

    def test_two_spellings_of_one_key_are_one_key(self) -> None:
        assert fails("y: 1\nyes: 2\n").line == 2
        assert fails('1: a\n"1": b\n').line == 2

    def test_the_same_key_in_two_maps_is_fine(self) -> None:
        assert value("a: {x: 1}\nb: {x: 1}\n") == {"a": {"x": 1}, "b": {"x": 1}}


class TestE8Aliases:
    def test_a_merge_stands_where_it_is_written(self) -> None:
        base = "g: &g {a: 1, b: 2}\n"
        assert value(base + "x:\n  <<: *g\n  b: 9\n")["x"] == {"a": 1, "b": 9}
        # Go's reader lets a later merge win over an earlier key: surprising, and what kubectl does.
        assert value(base + "x:\n  b: 9\n  <<: *g\n")["x"] == {"a": 1, "b": 2}

    def test_of_a_list_of_merges_the_first_wins(self) -> None:
        assert value("g: &g {a: 1}\nh: &h {a: 2, c: 3}\nx:\n  <<: [*g, *h]\n")["x"] == {"a": 1, "c": 3}

    def test_a_quoted_merge_key_is_a_key(self) -> None:
        assert value('x: {"<<": 1}\n') == {"x": {"<<": 1}}

    def test_a_merge_takes_maps_only(self) -> None:
        assert fails("x:\n  <<: 5\n").line == 2

    def test_a_bomb_is_refused_quickly_in_little_memory(self) -> None:
        text = "a: &a [x, x, x, x, x, x, x, x, x]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True):
            text += f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
        tracemalloc.start()
        started = time.monotonic()
        error = fails(text)
        assert time.monotonic() - started < 2
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
        tracemalloc.stop()
        assert "aliases" in error.message

    def test_an_anchor_that_holds_itself_is_refused(self) -> None:
        assert "holds itself" in fails("a: &a [*a]\n").message

    def test_an_anchor_ends_with_its_document(self) -> None:
        assert fails("a: &a 1\n---\nb: *a\n").line == 3

    def test_deep_nesting_is_refused(self) -> None:
        assert "nested deeper" in fails("[" * 300 + "]" * 300).message


class TestE7Documents:
    def test_separators_comments_and_empty_documents_are_no_documents(self) -> None:
        text = "---\n# only words\n---\n---\na: 1\n---\n...\n"
        assert [d.value for d in parse("f", text.encode())] == [{"a": 1}]
        assert parse("f", b"") == []

    def test_two_sweeps_ask_for_a_name(self) -> None:
        found = manifests(parse("f", SWEEP % b"one" + b"---\n" + SWEEP % b"two"))
        with pytest.raises(YamlError, match=r"several sweeps \(one, two\): name one with --name"):
            pick(found, "f")
        assert pick(found, "f", "two").sweep.name == "two"
        with pytest.raises(YamlError, match="no sweep named three: it holds one, two"):
            pick(found, "f", "three")

    def test_no_sweep_says_which_kinds_were(self) -> None:
        text = b"apiVersion: v1\nkind: Secret\n---\napiVersion: kubeflow.org/v1beta1\nkind: Experiment\n"
        with pytest.raises(
            YamlError, match=r"kind Secret of the core API, kind Experiment of kubeflow.org, expected TrainSweep"
        ):
            pick(manifests(parse("f", text)), "f")
        with pytest.raises(YamlError, match="no document, expected TrainSweep"):
            pick([], "f")

    def test_another_version_is_named(self) -> None:
        found = manifests(parse("f", (SWEEP % b"a").replace(b"v1alpha1", b"v2")))
        with pytest.raises(YamlError, match=r"trainsweep\.io/v2 is not known here: write trainsweep\.io/v1alpha1"):
            pick(found, "f")

    def test_the_class_beside_a_sweep(self) -> None:
        one = b"---\napiVersion: trainsweep.io/v1alpha1\nkind: TrainSweepClass\nmetadata: {name: %s}\nspec: {}\n"
        named = (SWEEP % b"a").replace(b"{}", b"{className: two}")
        both = manifests(parse("f", named + one % b"one" + one % b"two"))
        picked = pick(both, "f").sweep_class
        assert picked is not None
        assert picked.name == "two"
        assert pick(manifests(parse("f", SWEEP % b"a" + one % b"one" + one % b"two")), "f").sweep_class is None
        alone = pick(manifests(parse("f", SWEEP % b"a" + one % b"one")), "f").sweep_class
        assert alone is not None

    @pytest.mark.parametrize("text", ["- a\n", "5\n", "kind: A\n", "apiVersion: v1\n", "apiVersion: v1\nkind: 5\n"])
    def test_what_is_no_object_is_refused(self, text: str) -> None:
        with pytest.raises(YamlError):
            manifests(parse("f", text.encode()))

    def test_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(yamlfile.sys, "stdin", SimpleNamespace(buffer=io.BytesIO(SWEEP % b"piped")))
        assert load("-").sweep.name == "piped"

    def test_files_that_cannot_be_read(self, tmp_path: Path) -> None:
        with pytest.raises(YamlError, match="cannot be read: No such file"):
            read(str(tmp_path / "none.yaml"))
        big = tmp_path / "big.yaml"
        big.write_bytes(b"a" * (yamlfile.MAX_BYTES + 1))
        with pytest.raises(YamlError, match="larger than"):
            read(str(big))
