"""Positions in source text, and the nodes of YAML that carry them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from ..diagnostics import Position

# The tree of a YAML file, in which every value knows its place in the file.
#
# There are three kinds of nodes, all frozen: `Mapping`, `Sequence` and `Scalar`. All code that reads a project uses
# them and no plain dictionaries. So a later stage can show each mistake where it was written.
#
#     step = topology["flows"]["late"]["steps"][0]
#     predicate = step["filter"]
#     predicate.text                       # 'dep_delay > 15', Jinja already rendered
#     predicate.position_at(10)            # where the 15 comes from: the `{{` of `{{ var('late_minutes') }}`
#     step.key_position("filter")          # the key itself

NOTES = ("description", "tags", "meta")
"""The keys that any entry may have for people and their tools. They change nothing that runs."""


def without_notes(written: AbstractMapping[str, Any]) -> dict[str, Any]:
    """The keys of an entry that change what runs."""
    return {key: value for key, value in written.items() if key not in NOTES}


class Origin(Protocol):
    """Where each character of a scalar's text comes from."""

    def position(self, offset: int, end: int | None = None) -> Position:
        """The place of the character at `offset`; with `end`, of the range `[offset, end)`, cut at the end of its first
        line.
        """


@dataclass(frozen=True, slots=True)
class FixedOrigin:
    """An origin with the same place for every offset."""

    at: Position

    def position(self, offset: int, end: int | None = None) -> Position:  # noqa: ARG002
        """That place."""
        return self.at


@dataclass(frozen=True, slots=True, eq=False)
class ScalarNode:
    """One value. `value`: as Python (str, int, float, bool or None). `text`: as written, after rendering.

    Expressions are parsed from `text`: `filter: true` has the value True and the text `true`. `position` spans the
    scalar in the file, quotes included. `cut_by_comment` is the place of a ` #` that ends a plain scalar on its line.
    If the text does not parse, that comment is the likely reason. `broken` marks a scalar with a reported error: its
    value is None, and later stages ignore it.
    """

    value: str | int | float | bool | None
    text: str
    position: Position
    origin: Origin
    cut_by_comment: Position | None = None
    broken: bool = False

    def position_at(self, offset: int, end: int | None = None) -> Position:
        """The place in the file of `text[offset]` or `text[offset:end]`, traced through Jinja, quotes, `|` and `>`."""
        return self.origin.position(offset, end)

    def to_python(self) -> Any:
        """The value itself."""
        return self.value


@dataclass(frozen=True, slots=True, eq=False)
class SequenceNode:
    """A list of nodes."""

    items: tuple[Node, ...]
    position: Position

    @property
    def value(self) -> tuple[Node, ...]:
        """The nodes of the list."""
        return self.items

    def __iter__(self) -> Iterator[Node]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Node:
        return self.items[index]

    def to_python(self) -> list[Any]:
        """The list as plain Python values."""
        return [item.to_python() for item in self.items]


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a mapping, with its value. Keys are strings, unique in their mapping, and not rendered."""

    key: ScalarNode
    node: Node

    @property
    def name(self) -> str:
        """The key's text."""
        return self.key.text


@dataclass(frozen=True, slots=True, eq=False)
class MappingNode:
    """Nodes by string keys, in the order of the file. `position` is that of the first key or of the `{`."""

    entries: tuple[Entry, ...]
    position: Position
    value: dict[str, Node] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", {entry.name: entry.node for entry in self.entries})

    def __iter__(self) -> Iterator[str]:
        return iter(self.value)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, key: object) -> bool:
        return key in self.value

    def __getitem__(self, key: str) -> Node:
        return self.value[key]

    def get(self, key: str) -> Node | None:
        """The node at `key`, or None."""
        return self.value.get(key)

    def items(self) -> Iterator[tuple[str, Node]]:
        """Pairs of key and node, in the order of the file."""
        return iter(self.value.items())

    def key(self, name: str) -> ScalarNode:
        """The scalar of the key `name`. Raises KeyError if there is none."""
        for entry in self.entries:
            if entry.name == name:
                return entry.key
        raise KeyError(name)

    def key_position(self, name: str) -> Position:
        """The place of the key `name`. Raises KeyError if there is none."""
        return self.key(name).position

    def to_python(self) -> dict[str, Any]:
        """The mapping as plain Python values."""
        return {entry.name: entry.node.to_python() for entry in self.entries}


Node = MappingNode | SequenceNode | ScalarNode


# A file's text, and the way back from a scalar's text to its place in the file.
#
# PyYAML gives only the first and the last index of a scalar. `SourceOrigin` finds the indexes of the characters
# between. It reads the scalar's source again, in the style in which it is written, and aligns it with the value. In
# every style the visible characters have the same order in both, whatever happens to indentation, folds and quotes.

_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_ESCAPE = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|\r\n[ \t]*|[\r\n][ \t]*|.)")
_ESCAPED_SPACE = {"n": "\n", "t": "\t", "\t": "\t", "r": "\r", " ": " "}


class SourceFile:
    """The text of one file and its name, relative to the project's root."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(found.end() for found in _LINE_BREAK.finditer(self.text))]

    def position(self, index: int, end: int | None = None) -> Position:
        """The place of the character at `index`; with `end`, of `[index, end)`, cut at the end of that line."""
        row = bisect_right(self._line_starts, index) - 1
        start = self._line_starts[row]
        if end is None or end <= index:
            return Position(self.name, row + 1, index - start + 1)
        last = end
        if row + 1 < len(self._line_starts) and end >= self._line_starts[row + 1] - 1:
            following = self._line_starts[row + 1]
            last = following - 1 - (self.text[following - 2 : following] == "\r\n")
        return Position(self.name, row + 1, index - start + 1, max(last, index + 1) - start + 1)


class SourceOrigin:
    """Where the characters of a YAML scalar are in its file. The map is computed on first use."""

    def __init__(self, source: SourceFile, start: int, end: int, style: str | None, value: str) -> None:
        self._source = source
        self._start = start
        self._end = end
        self._style = style
        self._value = value

    @cached_property
    def _indexes(self) -> list[int]:
        if self._style is None and self._source.text[self._start : self._end] == self._value:
            return list(range(self._start, self._end))
        return _align(self._value, list(_characters(self._source.text, self._start, self._end, self._style)), self._end)

    def position(self, offset: int, end: int | None = None) -> Position:
        """The place of the value's character at `offset`, or of the range `[offset, end)`."""
        if not self._indexes:
            return self._source.position(self._start, self._end)
        first = self._indexes[min(offset, len(self._indexes) - 1)] + max(offset - len(self._indexes) + 1, 0)
        if end is None or end <= offset:
            return self._source.position(first)
        return self._source.position(first, self._indexes[min(end, len(self._indexes)) - 1] + 1)


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of rendered text.

    Verbatim: copied from `offset` of the template. Otherwise: the result of `[offset, end)`.
    """

    start: int
    offset: int
    end: int
    verbatim: bool


@dataclass(frozen=True, slots=True)
class RenderedOrigin:
    """Where rendered text comes from: a character of the template, or the expression that produced it."""

    template: Origin
    pieces: tuple[Piece, ...]

    def position(self, offset: int, end: int | None = None) -> Position:
        """The place of the rendered character at `offset`, or of the range that starts there."""
        piece = self._piece(offset)
        if not piece.verbatim:
            return self.template.position(piece.offset, piece.end)
        first = piece.offset + offset - piece.start
        if end is None or end <= offset:
            return self.template.position(first)
        last = self._piece(end - 1)
        return self.template.position(first, last.offset + end - last.start if last.verbatim else last.end)

    def _piece(self, offset: int) -> Piece:
        return self.pieces[max(bisect_right(self.pieces, offset, key=lambda piece: piece.start) - 1, 0)]


def _characters(text: str, start: int, end: int, style: str | None) -> Iterator[tuple[str, int]]:
    """The scalar's characters with their indexes, without quotes and the header of a block.

    Escapes of white space are decoded. Any other escape is given as "", which stands for any visible character.
    """
    index = start
    if style in ("|", ">"):
        header = _LINE_BREAK.search(text, start, end)
        index = header.end() if header else end
    elif style is not None:
        index, end = start + 1, end - 1
    while index < end:
        if style == "'" and text.startswith("''", index, end):
            yield "'", index
            index += 2
        elif style == '"' and (escape := _ESCAPE.match(text, index, end)):
            if escape[0][1] not in "\r\n":
                yield _ESCAPED_SPACE.get(escape[0][1], ""), index
            index = escape.end()
        else:
            yield text[index], index
            index += 1


def _align(value: str, characters: list[tuple[str, int]], end: int) -> list[int]:
    indexes: list[int] = []
    at = 0
    for wanted in value:
        if not wanted.isspace():
            while at < len(characters) and characters[at][0].isspace():
                at += 1
        indexes.append(characters[at][1] if at < len(characters) else end)
        if at < len(characters) and (not wanted.isspace() or characters[at][0] in (wanted, "")):
            at += 1
    return indexes
