"""What flows between two steps: columns with their types, and what is known of the key."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from ....runtime.topology import Store, Window
from ...diagnostics import Position
from ...language.expressions import Types

WINDOW_COLUMNS = {"window_start": "timestamp", "window_end": "timestamp"}


@dataclass(frozen=True)
class Rekey:
    """The change of a stream's key that no repartition topic has followed yet: which step of which flow made it."""

    flow: str
    step: str | None
    position: Position


@dataclass(frozen=True)
class Shape:
    """What flows between two steps.

    `key` holds `window_start` and `window_end` too where `windowed`. A type is None where it is not known; with `open`
    some columns are not known either, because of an error that has been reported. `rekey`: the stream's records are
    not (all) in the partitions of their keys.
    `window`: a stream between `window` and `aggregate`. `unsettled`: a table behind a filter whose deletions of rows
    that were not there are still among its changes. `store`: the table's own store, None where it has none.
    """

    kind: Literal["stream", "table"] = "stream"
    key: Types = field(default_factory=dict)
    value: Types = field(default_factory=dict)
    partitions: int = 1
    windowed: bool = False
    rekey: Rekey | None = None
    window: Window | None = None
    emit: str = "per_epoch"
    unsettled: bool = False
    store: Store | None = None
    open: bool = False

    @property
    def is_table(self) -> bool:
        """Whether it is a table."""
        return self.kind == "table"

    @property
    def plain_key(self) -> dict[str, str | None]:
        """The key's columns without those of the window."""
        return {name: type_ for name, type_ in self.key.items() if not (self.windowed and name in WINDOW_COLUMNS)}

    @property
    def known(self) -> bool:
        """Whether all columns and types are known."""
        return not self.open and None not in self.key.values() and None not in self.value.values()

    def with_value(self, value: Types) -> Shape:
        """The same with other value columns; a table has no store of its own then."""
        return replace(self, value=dict(value), store=None)


UNKNOWN = Shape(open=True)
"""What comes after an error."""
