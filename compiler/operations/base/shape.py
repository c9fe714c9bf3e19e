"""The shape of the rows between two steps: columns with their types, and what is known about the key."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from ....runtime.operators.declarations import Emit
from ....runtime.topology import Store
from ....runtime.windows import AnyWindow, JoinWindow
from ...diagnostics import Position
from ...language.expressions import Types

WINDOW_COLUMNS = {"window_start": "timestamp", "window_end": "timestamp"}


@dataclass(frozen=True)
class Rekey:
    """A change of a stream's key that no repartition topic has followed yet: the flow and the step that made it."""

    flow: str
    step: str | None
    position: Position


@dataclass(frozen=True)
class Windows:
    """The windows of a table's rows. `kept_ms`: for how long a row is found after its window's start; sessions: end."""

    window: AnyWindow
    kept_ms: int


@dataclass(frozen=True)
class Shape:
    """The shape of the rows between two steps.

    If `windowed`, `key` includes `window_start` and `window_end`. A type is None if it is unknown. With `open` some
    columns are unknown, because of an error that has been reported. `rekey`: not all records of the stream are in the
    partitions of their keys. `window`: set for a stream between `window` and `aggregate`. `unsettled`: a table after a
    filter, whose changes may delete rows that did not exist. `closes_ms`: how long after its end a window of the table
    is closed, None where nobody says. `store`: the table's own store; None if it has none. `dropped_windows`: those of
    a table that was made of one with a windowed store. `forgets`: of a table with windows, that its rows leave its
    store some time after those have expired that they are made of.
    """

    kind: Literal["stream", "table"] = "stream"
    key: Types = field(default_factory=dict)
    value: Types = field(default_factory=dict)
    partitions: int = 1
    windowed: bool = False
    rekey: Rekey | None = None
    window: AnyWindow | None = None
    closes_ms: int | None = None
    emit: Emit = "per_epoch"
    unsettled: bool = False
    store: Store | None = None
    open: bool = False
    dropped_windows: Windows | None = None
    forgets: bool = False

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

    @property
    def windows(self) -> Windows | None:
        """The windows of a table's rows; None where nobody says, as of a topic."""
        store = self.store
        if store is None or store.window is None or isinstance(store.window, JoinWindow) or store.kept_ms is None:
            return self.dropped_windows if store is None else None
        return Windows(store.window, store.kept_ms)

    def without_store(self) -> Shape:
        """The same table, made of the one with the store."""
        return replace(self, store=None, dropped_windows=self.windows)

    def with_value(self, value: Types) -> Shape:
        """The same with other value columns. A table has no store of its own then."""
        return replace(self.without_store(), value=dict(value))


UNKNOWN = Shape(open=True)
"""The shape after an error."""
