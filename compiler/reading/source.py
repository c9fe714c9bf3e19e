"""A file's text, and the way back from a scalar's text to its place in the file.

PyYAML gives only the first and the last index of a scalar. `SourceOrigin` finds the indexes of the characters between.
It reads the scalar's source again, in the style in which it is written, and aligns it with the value. In every style
the visible characters have the same order in both, whatever happens to indentation, folds and quotes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ..diagnostics import Position
from .nodes import Origin

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
