"""The tree of a YAML file with positions, and the mapping from rendered text to the file."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from ..diagnostics import Position

# The tree of a YAML file, in which every value has its position.
#
# The nodes are frozen: `MappingNode`, `SequenceNode` and `ScalarNode`. All code that reads a project uses them instead
# of dictionaries, so every stage can report a mistake at its position.
#
#     step = topology["flows"]["late"]["steps"][0]
#     predicate = step["filter"]
#     predicate.text                       # 'dep_delay > 15', Jinja already rendered
#     predicate.position_at(10)            # where the 15 comes from: the `{{` of `{{ var('late_minutes') }}`
#     step.key_position("filter")          # the key itself

NOTES = ("description", "tags", "meta")
"""The keys for people and their tools, allowed in any entry. They have no influence on a run."""


def without_notes(written: AbstractMapping[str, Any]) -> dict[str, Any]:
    """The entry without notes."""
    return {key: value for key, value in written.items() if key not in NOTES}


class Origin(Protocol):
    """Maps the characters of a scalar's text to positions in the file."""

    def position(self, offset: int, end: int | None = None) -> Position:
        """The position of the character at `offset`, or of `[offset, end)`, cut at the end of its first line."""


@dataclass(frozen=True, slots=True)
class FixedOrigin:
    """An origin with one position for all offsets."""

    at: Position

    def position(self, offset: int, end: int | None = None) -> Position:  # noqa: ARG002
        """The one position."""
        return self.at


@dataclass(frozen=True, slots=True, eq=False)
class ScalarNode:
    """One value.

    `value`: str, int, float, bool or None. `text`: as written, after rendering; expressions are parsed from it, so
    `filter: true` has the value True and the text `true`. `position`: the whole scalar in the file, with quotes.
    `cut_by_comment`: the position of a ` #` that ends a plain scalar, which may be the reason if the text does not
    parse. `broken`: it has a reported error; its value is None, and later stages ignore it.
    """

    value: str | int | float | bool | None
    text: str
    position: Position
    origin: Origin
    cut_by_comment: Position | None = None
    broken: bool = False

    def position_at(self, offset: int, end: int | None = None) -> Position:
        """The position in the file of `text[offset]` or `text[offset:end]`, traced through Jinja, quotes, `|`, `>`."""
        return self.origin.position(offset, end)

    def to_python(self) -> Any:
        """The value."""
        return self.value


@dataclass(frozen=True, slots=True, eq=False)
class SequenceNode:
    """A list of nodes."""

    items: tuple[Node, ...]
    position: Position

    @property
    def value(self) -> tuple[Node, ...]:
        """The items."""
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
    """A key of a mapping with its value. Keys are unique strings, and not rendered."""

    key: ScalarNode
    node: Node

    @property
    def name(self) -> str:
        """The key's text."""
        return self.key.text


@dataclass(frozen=True, slots=True, eq=False)
class MappingNode:
    """Nodes by string keys, in the order of the file. `position`: of the first key, or of the `{`."""

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
        """The scalar of the key `name`. Raises KeyError if it is missing."""
        for entry in self.entries:
            if entry.name == name:
                return entry.key
        raise KeyError(name)

    def key_position(self, name: str) -> Position:
        """The position of the key `name`. Raises KeyError if it is missing."""
        return self.key(name).position

    def to_python(self) -> dict[str, Any]:
        """The mapping as plain Python values."""
        return {entry.name: entry.node.to_python() for entry in self.entries}


Node = MappingNode | SequenceNode | ScalarNode


# From a scalar's text back to the file.
#
# PyYAML gives only the first and the last index of a scalar. `SourceOrigin` finds the indexes of the characters
# between: it reads the scalar's source again, in its style, and aligns it with the value. In every style, the visible
# characters have the same order in the source and in the value, despite indentation, folds and quotes.

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
        return [0, *(line_break.end() for line_break in _LINE_BREAK.finditer(self.text))]

    def position(self, index: int, end: int | None = None) -> Position:
        """The position of the character at `index`, or of `[index, end)`, cut at the end of the line."""
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
    """Maps the characters of a YAML scalar to its file. The map is computed on first use."""

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
        """The position of the value's character at `offset`, or of `[offset, end)`."""
        if not self._indexes:
            return self._source.position(self._start, self._end)
        first = self._indexes[min(offset, len(self._indexes) - 1)] + max(offset - len(self._indexes) + 1, 0)
        if end is None or end <= offset:
            return self._source.position(first)
        return self._source.position(first, self._indexes[min(end, len(self._indexes)) - 1] + 1)


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of rendered text, which begins at `start`.

    `verbatim`: copied from `offset` of the template. Otherwise: the result of the expression at `[offset, end)`.
    """

    start: int
    offset: int
    end: int
    verbatim: bool


@dataclass(frozen=True, slots=True)
class RenderedOrigin:
    """Maps rendered text to characters of the template, or to the expression that produced it."""

    template: Origin
    pieces: tuple[Piece, ...]

    def position(self, offset: int, end: int | None = None) -> Position:
        """The position of the rendered character at `offset`, or of `[offset, end)`."""
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
    """The scalar's characters with their indexes in `text`, without quotes and the header of a block.

    Escapes of white space are decoded. Other escapes become "", which stands for any visible character.
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
    """The index in the file of each character of the value.

    White space may differ: the value `a b` of the source `a`, line break, 2 spaces, `b` at 0, 1, 2, 3, 4 has the
    indexes 0, 1, 4.
    """
    indexes: list[int] = []
    at = 0
    for character in value:
        if not character.isspace():
            while at < len(characters) and characters[at][0].isspace():
                at += 1
        indexes.append(characters[at][1] if at < len(characters) else end)
        if at < len(characters) and (not character.isspace() or characters[at][0] in (character, "")):
            at += 1
    return indexes
