"""YAML as kubectl reads it, with the line of every value, so that each later complaint can name `FILE:LINE`.

PyYAML's C parser (the same libyaml that Go's reader was ported from) gives the events; values, merges and limits are
ours. Two things are stricter than kubectl on purpose: a key twice in one map, a number that underflows to zero.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from trainsweep.cli.scalars import Scalar, ScalarError, key_text, plain, tagged, underflows

MAX_BYTES = 3 * 1024 * 1024  # the API server takes no larger request
MAX_DEPTH = 200
MERGE = "<<"
_ODD_SPACES = "\u00a0\u2007\u202f\u3000\u200b\ufeff"


class YamlError(ValueError):
    """A file that cannot be read; `line` counts from 1, 0 where no line can be named."""

    def __init__(self, file: str, line: int, message: str) -> None:
        self.file, self.line, self.message = file, line, message
        super().__init__(f"{file}:{line}: {message}" if line else f"{file}: {message}")


@dataclass(frozen=True)
class Document:
    """One YAML document as JSON values."""

    file: str
    value: Any
    lines: dict[str, int]
    """Line of each value, by its path such as `spec.search.parameters[0].float.min`; '' is the document."""

    def line(self, path: str) -> int:
        """Line of the value at a path, or of the nearest one around it that is written in the file."""
        while path and path not in self.lines:
            path = _parent(path)
        return self.lines.get(path, 1)

    def at(self, index: int) -> Document:
        """An entry of a `kind: List` as a document of its own."""
        prefix = f"items[{index}]"
        lines = {
            p[len(prefix) :].lstrip("."): n for p, n in self.lines.items() if re.match(re.escape(prefix) + r"(\.|$)", p)
        }
        return Document(self.file, self.value["items"][index], lines)


def _parent(path: str) -> str:
    cut = max(path.rfind("."), path.rfind("["))
    return path[:cut] if cut > 0 else ""


def join(path: str, part: str | int) -> str:
    """A path one step further down."""
    if isinstance(part, int):
        return f"{path}[{part}]"
    return f"{path}.{part}" if path else part


@dataclass(slots=True)
class _Node:
    kind: str
    line: int
    value: Any = None
    tag: str | None = None
    is_plain: bool = False
    children: list[Any] = field(default_factory=list)
    alias_of: _Node | None = None
    open: bool = True


def read_bytes(path: str) -> bytes:
    """The bytes of a file, or of standard input for `-`.

    Raises:
        YamlError: where it cannot be read or is too large.
    """
    try:
        if path == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(path).open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise YamlError(path, 0, f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise YamlError(path, 0, f"larger than {MAX_BYTES} bytes, more than an API server takes")
    return data


def read(path: str) -> list[Document]:
    """All documents of a file (`-`: standard input), empty ones left out.

    Raises:
        YamlError: naming the line and what to change.
    """
    return parse("<stdin>" if path == "-" else path, read_bytes(path))


def parse(file: str, data: bytes) -> list[Document]:
    """All documents in these bytes, empty ones left out.

    Raises:
        YamlError: naming the line and what to change.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise YamlError(file, line, "not UTF-8: save the file as UTF-8") from None
    reader = _Reader(file, text)
    documents = []
    for root in reader.roots():
        value, lines = _Builder(file).document(root)
        if value is not None:
            documents.append(Document(file, value, lines))
    return documents


class _Reader:
    """From libyaml's events to nodes; anchors are kept as references and expanded later, under a limit."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text

    def roots(self) -> Iterator[_Node]:
        stack: list[_Node] = []
        anchors: dict[str | None, _Node] = {}
        try:
            for event in yaml.parse(self.text, Loader=yaml.CSafeLoader):
                if isinstance(event, DocumentStartEvent):
                    anchors = {}
                elif isinstance(event, (MappingEndEvent, SequenceEndEvent)):
                    node = stack.pop()
                    node.open = False
                    if not stack:
                        yield node
                elif isinstance(event, (ScalarEvent, MappingStartEvent, SequenceStartEvent, AliasEvent)):
                    node = self._node(event, anchors)
                    if stack:
                        stack[-1].children.append(node)
                    if node.kind in ("map", "list"):
                        stack.append(node)
                        if len(stack) > MAX_DEPTH:
                            raise YamlError(self.file, node.line, f"nested deeper than {MAX_DEPTH} levels")
                    elif not stack:
                        yield node
        except yaml.MarkedYAMLError as error:
            raise self._explain(error) from None
        except yaml.YAMLError as error:
            raise self._unprintable(str(error)) from None

    def _node(self, event: Any, anchors: dict[str | None, _Node]) -> _Node:
        line = event.start_mark.line + 1
        if isinstance(event, AliasEvent):
            target = anchors.get(event.anchor)
            if target is None:
                raise YamlError(self.file, line, f"the anchor &{event.anchor} is not known above this line")
            return _Node("alias", line, alias_of=target, open=False)
        if isinstance(event, ScalarEvent):
            node = _Node("scalar", line, event.value, event.tag, bool(event.implicit[0]), open=False)
            if node.is_plain and any(
                c in event.value for c in (event.value[:1], event.value[-1:]) if c in _ODD_SPACES and c
            ):
                raise YamlError(self.file, line, _odd_space(event.value))
        else:
            node = _Node("map" if isinstance(event, MappingStartEvent) else "list", line)
        if event.anchor:
            anchors[event.anchor] = node
        return node

    def _explain(self, error: yaml.MarkedYAMLError) -> YamlError:
        mark = error.problem_mark or error.context_mark
        number = mark.line + 1 if mark is not None else 0
        rows = self.text.splitlines()
        for near in (number, number - 1):
            row = rows[near - 1] if 0 < near <= len(rows) else ""
            indent = row[: len(row) - len(row.lstrip())]
            if "\t" in indent or ("\t" in row and "'\\t'" in str(error.problem)):
                return YamlError(self.file, near, "a tab is used as indentation: use spaces")
            if any(c in row for c in _ODD_SPACES):
                return YamlError(self.file, near, _odd_space(row))
        return YamlError(self.file, number, str(error.problem or error.context or "not YAML"))

    def _unprintable(self, problem: str) -> YamlError:
        for number, row in enumerate(self.text.splitlines(), 1):
            for character in row:
                if not character.isprintable() and character != "\t" and character not in _ODD_SPACES:
                    return YamlError(self.file, number, f"the control character U+{ord(character):04X}: remove it")
        return YamlError(self.file, 0, problem)


def _odd_space(text: str) -> str:
    found = next(c for c in text if c in _ODD_SPACES)
    name = {"\u00a0": "no-break space", "\u200b": "zero-width space"}.get(
        found, "space that YAML does not take for one"
    )
    return f"a {name} (U+{ord(found):04X}), perhaps from a web page: write a plain space"


class _Builder:
    """From nodes to JSON values, with Go's limit on aliases: a document that is nearly all aliases is a bomb."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[str, int] = {}
        self.made = self.from_aliases = self.in_alias = 0

    def document(self, root: _Node) -> tuple[Any, dict[str, int]]:
        value = self.value(root, "")
        return value, self.lines

    def value(self, node: _Node, path: str, line: int | None = None) -> Any:
        self.made += 1
        self.from_aliases += self.in_alias > 0
        if self.from_aliases > 100 and self.made > 1000 and self.from_aliases / self.made > self._allowed():
            raise YamlError(self.file, node.line, "aliases repeat the document too often: write the values out")
        self.lines[path] = line or node.line
        if node.kind == "alias":
            return self._alias(node, lambda target: self.value(target, path, node.line))
        if node.kind == "scalar":
            return self.scalar(node)
        if node.kind == "list":
            return [self.value(child, join(path, i)) for i, child in enumerate(node.children)]
        return self.mapping(node, path)

    def _allowed(self) -> float:
        low, high = 400_000, 4_000_000
        if self.made <= low:
            return 0.99
        return 0.10 if self.made >= high else 0.99 - 0.89 * (self.made - low) / (high - low)

    def _alias(self, node: _Node, build: Any) -> Any:
        target = node.alias_of
        if target is None or target.open:
            raise YamlError(self.file, node.line, "an anchor holds itself: write the value out")
        self.in_alias += 1
        target.open = True
        try:
            return build(target)
        finally:
            target.open = False
            self.in_alias -= 1

    def scalar(self, node: _Node) -> Scalar:
        try:
            if node.tag not in (None, ""):
                return tagged(str(node.tag), node.value)
            if not node.is_plain:
                return str(node.value)
            if underflows(node.value):
                raise ScalarError(f"{node.value} is too small for a number and would read as 0")
            return plain(node.value)
        except ScalarError as error:
            raise YamlError(self.file, node.line, str(error)) from None

    def mapping(self, node: _Node, path: str) -> dict[str, Any]:
        out: dict[str, Any] = {}
        written: dict[str, int] = {}
        for key_node, value_node in zip(node.children[::2], node.children[1::2], strict=True):
            if key_node.kind == "scalar" and key_node.is_plain and key_node.value == MERGE:
                self._merge(value_node, path, out)
                continue
            key = self._key(key_node)
            if key in written:
                raise YamlError(
                    self.file,
                    key_node.line,
                    f"the key {key!r} stands here and on line {written[key]}: remove one of them",
                )
            written[key] = key_node.line
            out[key] = self.value(value_node, join(path, key), key_node.line)
        return out

    def _key(self, node: _Node) -> str:
        if node.kind == "alias":
            return str(self._alias(node, self._key))
        if node.kind != "scalar":
            raise YamlError(self.file, node.line, "a key must be a plain word: quote it if it holds brackets or braces")
        if any(c in node.value for c in _ODD_SPACES):
            raise YamlError(self.file, node.line, _odd_space(node.value))
        try:
            return key_text(self.scalar(node))
        except ScalarError as error:
            raise YamlError(self.file, node.line, str(error)) from None

    def _merge(self, node: _Node, path: str, out: dict[str, Any]) -> None:
        """A merge key where it stands: as in Go's reader, what comes later wins, and of a list the first one."""
        target = node.alias_of if node.kind == "alias" else node
        if target is not None and target.kind == "list":
            for child in reversed(target.children):
                self._merge(child, path, out)
            return
        if target is None or target.kind != "map":
            raise YamlError(self.file, node.line, "a merge key takes a map or a list of maps")
        merged = (
            self._alias(node, lambda t: self.mapping(t, path)) if node.kind == "alias" else self.mapping(target, path)
        )
        for key, value in merged.items():
            self.lines.setdefault(join(path, key), node.line)
            out[key] = value
