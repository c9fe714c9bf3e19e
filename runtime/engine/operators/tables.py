"""Operators that store the rows or changes of a table, or release them when their windows close."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...environment import duration_text
from ...ir.topology import Store
from .operator import Emit, Place, SameColumns, Stores

if TYPE_CHECKING:
    from ..execution.node import Edges, TaskEpoch

WhenFull = Literal["emit", "fail"]
"""The behaviour of a full buffer: it releases the oldest change at once, or the task stops."""


@dataclass(frozen=True)
class Table(SameColumns, Stores):
    """Stores the last processed row of each key, even if its timestamp is older. Turns upserts into changes of a table.

    `emit`: every update, or one change for each key and epoch. `old`: whether changes include the replaced rows.
    Records with a null key are dropped and counted.
    """

    flow: str
    store: Store
    emit: Emit = "each_update"
    old: bool = False
    at: Place = ""

    text = ""
    old_rows = "stored"

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.table import keep_rows

        keep_rows(self, edges, epoch)


@dataclass(frozen=True)
class Materialize(SameColumns, Stores):
    """Stores a table's rows that SQL has computed (expressions over aggregates, filtered or projected tables).

    It stores the last row of each key, and passes the changes on unchanged. In a store of aggregates, the row includes
    their hidden state, which arrives in `Rows.state` and is not passed on. In other windowed stores, the clock is the
    greatest time of these changes.
    """

    flow: str
    store: Store
    at: Place = ""

    text = ""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.table import materialize

        materialize(self, edges, epoch)


@dataclass(frozen=True)
class Suppress(SameColumns, Stores):
    """Buffers changes of a table in `store`, one for each key. A later change replaces the waiting one.

    In a store of type `window_changes`, a change waits until `wait_ms` after the end of its window. The output is a
    stream of the last rows. In a store of type `changes`, it waits until `wait_ms` after the first change of its key.
    The output is changes of a table; `old`: whether they include the replaced rows. `when_full`: the behaviour if more
    than `max_records` changes wait (None: no limit).

    It has its own clock: the greatest timestamp of its input. A change is released when a later one advances the clock
    far enough. It keeps its own timestamp and headers. Deletions are released, too, except those of windows without a
    released row.
    """

    flow: str
    store: Store
    wait_ms: int
    max_records: int | None = None
    when_full: WhenFull = "emit"
    old: bool = False
    at: Place = ""

    releases = "later"

    @property
    def text(self) -> str:
        return "suppress until window_closes" if self.store.type == "window_changes" else "suppress"

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """The settings of the buffer. The grace period of a window is part of its store."""
        waits = (("suppress.for", duration_text(self.wait_ms)),) if self.store.type == "changes" else ()
        most = "none" if self.max_records is None else str(self.max_records)
        return (*waits, ("suppress.max_records", most), ("suppress.when_full", self.when_full))

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Raises RowFailedError."""
        from ..execution.suppress import suppress

        suppress(self, edges, epoch)


@dataclass(frozen=True)
class FinalResults(SameColumns):
    """Turns the updates of a windowed aggregate into a stream: one record for each closed window.

    `store`: of the aggregate. It contains these updates already. Records come by window start and key bytes; those of
    sessions by end, start and key bytes. A record has the timestamp of its row, and the headers of the record that
    closed its window. Rows of open windows stay in the store, even at the end of the input.
    """

    flow: str
    store: Store
    at: Place = ""

    text = "emit on_close"
    releases = "later"

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.final_results import emit_closed

        emit_closed(self, edges, epoch)
