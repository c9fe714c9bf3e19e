"""Operators that keep the rows or the changes of a table, or give them when their windows have closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from ...environment import duration_text
from ...ir.topology import Store
from .operator import Emit, Place, Releases, SameColumns, Stores, Transforms

if TYPE_CHECKING:
    from ..execution.node import Edges, TaskEpoch

WhenFull = Literal["emit", "fail"]
"""What a full buffer does: the oldest change goes on at once, or the task stops."""


@dataclass(frozen=True)
class Table(SameColumns, Stores):
    """Keeps the last processed row of each key, even if its timestamp is older: upserts in, changes of a table out.

    `emit`: every update, or one change for each key and epoch. `old`: with the replaced rows. Null keys are dropped and
    counted.
    """

    flow: str
    store: Store
    emit: Emit = "each_update"
    old: bool = False
    at: Place = ""

    text = ""
    old_rows = "stored"
    releases = "at once"
    needs_all = False

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.table import keep_rows

        keep_rows(self, edges, epoch)


@dataclass(frozen=True)
class Materialize(SameColumns, Stores):
    """Stores a table's rows that SQL has computed (expressions over aggregates, filtered or projected tables).

    It keeps the last row of each key; the changes go on unchanged. In a store of aggregates the row also has their
    hidden state, which arrives in `Rows.state` and goes no further. The clock of another store with windows is the
    greatest time of these changes.
    """

    flow: str
    store: Store
    at: Place = ""

    text = ""
    old_rows = "derived"
    releases = "at once"
    needs_all = False

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.table import materialize

        materialize(self, edges, epoch)


@dataclass(frozen=True)
class Suppress(SameColumns, Stores):
    """Holds changes of a table back in `store`, one for each key: a later one replaces the one that waits.

    In a store of type `window_changes` each waits until `wait_ms` after the end of its window, and a stream of the last
    rows goes on. In one of type `changes` each waits until `wait_ms` after the first one of its key, and changes of a
    table go on; `old`: with the replaced rows. `when_full`: what happens if more than `max_records` wait (None: no
    limit).

    It has a clock of its own: the greatest timestamp that has reached it. A change goes on when a later one finds its
    time passed, with its own timestamp and headers. Deletions go on too, but for those of windows whose rows nobody has
    seen.
    """

    flow: str
    store: Store
    wait_ms: int
    max_records: int | None = None
    when_full: WhenFull = "emit"
    old: bool = False
    at: Place = ""

    old_rows = "derived"
    releases = "later"
    needs_all = False

    @property
    def text(self) -> str:
        return "suppress until window_closes" if self.store.type == "window_changes" else "suppress"

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """How long a window stays open is told with its store."""
        waits = (("suppress.for", duration_text(self.wait_ms)),) if self.store.type == "changes" else ()
        most = "none" if self.max_records is None else str(self.max_records)
        return (*waits, ("suppress.max_records", most), ("suppress.when_full", self.when_full))

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Raises RowFailedError."""
        from ..execution.suppress import suppress

        suppress(self, edges, epoch)


@dataclass(frozen=True)
class FinalResults(SameColumns, Transforms):
    """Turns the updates of a windowed aggregate into a stream: one record for each row whose window has closed.

    `store`: the aggregate's, which has all of these updates already. Rows come by start and then by key bytes; sessions
    by end, start and key bytes. A row keeps its timestamp, and has the headers of the record that closed its window. A
    row that is open stays in the store, also at the end of the input.
    """

    flow: str
    store: Store
    at: Place = ""

    text = "emit on_close"
    releases: ClassVar[Releases] = "later"

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.final_results import emit_closed

        emit_closed(self, edges, epoch)
