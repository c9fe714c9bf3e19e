"""Reads values of expected kinds from the tree of a file.

Values of another shape, already reported, count as missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from ...runtime.durations import parse_duration
from ..reading.nodes import Mapping, Node, Scalar, Sequence

_Default = TypeVar("_Default")


def named(node: Mapping, key: str) -> Iterator[tuple[Scalar, Mapping]]:
    """The entries of a section that are mappings; an entry of another shape counts as empty."""
    section = mapping(node, key)
    for entry in section.entries if section else ():
        yield entry.key, entry.node if isinstance(entry.node, Mapping) else Mapping((), entry.key.position)


def pairs(node: Mapping, key: str) -> Iterator[tuple[Scalar, Scalar]]:
    """The entries of a section that are single values."""
    section = mapping(node, key)
    if section is not None:
        yield from entries(section)


def entries(node: Node) -> Iterator[tuple[Scalar, Scalar]]:
    """The entries of a mapping that are single values."""
    for entry in node.entries if isinstance(node, Mapping) else ():
        if isinstance(entry.node, Scalar):
            yield entry.key, entry.node


def scalars(node: Node | None) -> Iterator[Scalar]:
    """The value, or the values of a list."""
    if isinstance(node, Scalar) and node.value is not None:
        yield node
    elif isinstance(node, Sequence):
        yield from (item for item in node if isinstance(item, Scalar) and item.value is not None)


def mapping(node: Mapping | None, key: str) -> Mapping | None:
    """The section at a key; None if missing."""
    found = node.get(key) if node else None
    return found if isinstance(found, Mapping) else None


def scalar(node: Mapping | None, key: str) -> Scalar | None:
    """The value at a key; None if it is missing or null."""
    found = node.get(key) if node else None
    return found if isinstance(found, Scalar) and found.value is not None else None


def text(node: Mapping | None, key: str, default: _Default) -> str | _Default:
    """The text at a key."""
    found = scalar(node, key)
    return default if found is None else found.text


def integer(node: Mapping | None, key: str, default: _Default) -> int | _Default:
    """The whole number at a key."""
    found = scalar(node, key)
    return found.value if found is not None and type(found.value) is int else default


def flag(node: Mapping | None, key: str, default: bool) -> bool:
    """The boolean at a key."""
    found = scalar(node, key)
    return found.value if found is not None and isinstance(found.value, bool) else default


def milliseconds(duration: Scalar | None) -> int | None:
    """A duration in milliseconds; None if it is not a duration."""
    if duration is None:
        return None
    try:
        return parse_duration(duration.text)
    except ValueError:
        return None
