"""How a column list differs from an earlier one, as a diff that people read."""

from __future__ import annotations

from dataclasses import dataclass

from .types import split_columns
from .unknown_types import UNKNOWN_TYPES


@dataclass(frozen=True)
class ColumnChanges:
    """The differences of two column lists. `added`, `dropped`: name and type. `retyped`: name, earlier type, type now.

    `reordered`: whether columns that both have are in another order.
    """

    added: tuple[tuple[str, str], ...]
    dropped: tuple[tuple[str, str], ...]
    retyped: tuple[tuple[str, str, str], ...]
    reordered: bool

    @classmethod
    def between(cls, was: str, is_: str) -> ColumnChanges:
        """Of two lists in Spark SQL DDL. Raises TypeSyntaxError."""
        old, new = dict(split_columns(was)), dict(split_columns(is_))
        kept = [name for name in old if name in new]
        return cls(
            tuple((name, new[name]) for name in new if name not in old),
            tuple((name, old[name]) for name in old if name not in new),
            tuple((name, old[name], new[name]) for name in kept if old[name] != new[name]),
            kept != [name for name in new if name in old],
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """The diff: `+ gate string`, `- tail string`, `~ delay int -> double`."""
        return (
            *(f"+ {name} {_shown(type_)}" for name, type_ in self.added),
            *(f"- {name} {type_}" for name, type_ in self.dropped),
            *(f"~ {name} {was} -> {is_}" for name, was, is_ in self.retyped),
            *(("~ the order of columns",) if self.reordered else ()),
        )


def unknown_columns(columns: str) -> list[str]:
    """The columns of a list whose types are not known yet."""
    return [name for name, type_ in split_columns(columns) if type_ in UNKNOWN_TYPES]


def _shown(type_: str) -> str:
    return "(its type is not known yet)" if type_ in UNKNOWN_TYPES else type_
