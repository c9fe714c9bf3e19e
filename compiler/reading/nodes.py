"""The tree of a YAML file, in which every value knows its place in the file.

There are three kinds of nodes, all frozen: `Mapping`, `Sequence` and `Scalar`. All code that reads a project uses them
and no plain dictionaries. So a later stage can show each mistake where it was written.

    step = topology["flows"]["late"]["steps"][0]
    predicate = step["filter"]
    predicate.text                       # 'dep_delay > 15', Jinja already rendered
    predicate.position_at(10)            # where the 15 comes from: the `{{` of `{{ var('late_minutes') }}`
    step.key_position("filter")          # the key itself
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..diagnostics import Position

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
class Scalar:
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
class Sequence:
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

    key: Scalar
    node: Node

    @property
    def name(self) -> str:
        """The key's text."""
        return self.key.text


@dataclass(frozen=True, slots=True, eq=False)
class Mapping:
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

    def key(self, name: str) -> Scalar:
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


Node = Mapping | Sequence | Scalar
