"""Events of clients, of their tasks and stores, and of the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ...readable_text import counted, first_of, moment
from ..placing.assigned import Move
from ..task_id import TaskId
from .events import Event

# Clients and the placement of tasks.


@dataclass(frozen=True)
class TasksPlaced(Event, terminal="after_start"):
    """An assignor has assigned the tasks. For the fields see `Assigned`. `clients`: their number."""

    assignor: str
    clients: int
    kept: int
    new: int
    moves: tuple[Move, ...] = ()
    unassigned: tuple[TaskId, ...] = ()
    followup_deadline: int | None = None

    @property
    def said(self) -> str:
        counts = f"{self.kept:,} kept, {len(self.moves):,} moved, {self.new:,} new"
        said = f"{self.assignor} has placed the tasks on {counted(self.clients, 'client')}: {counts}"
        if self.unassigned:
            said += f", {len(self.unassigned):,} unassigned ({first_of(tuple(map(str, self.unassigned)))})"
        if self.followup_deadline is not None:
            said += f"; it asks for another assignment at {moment(self.followup_deadline)}"
        if self.moves:
            said += "\n    " + first_of(tuple(map(_moved, self.moves)), "\n    ")
        return said


def _moved(move: Move) -> str:
    """A moved task, and the clients with copies of its state."""
    copies = ", ".join(f"{client} {lag:,}" for client, lag in move.lags.items())
    behind = f" (records behind: {copies})" if copies else ""
    emptied = f"{move.emptied}, which has lost its state," if move.emptied else None
    return f"{move.task} from {move.source or emptied or 'a client that is gone'} to {move.target}{behind}"


@dataclass(frozen=True)
class AssignmentFailed(Event, level="warning", terminal="after_start"):
    """An assignment is invalid, so tasks stay on their clients. `entries`: the invalid parts."""

    assignor: str
    message: str
    entries: tuple[str, ...] = ()

    note = "assignor failed"

    @property
    def said(self) -> str:
        return (
            f"tasks stay where they were, and new ones are spread evenly, as assignor {self.assignor} failed: "
            + "\n    ".join((self.message, *self.entries))
        )


@dataclass(frozen=True)
class ClientLost(Event, level="warning", terminal="after_start"):
    """A client is lost while the application runs. Its tasks move to others.

    `silent`: seconds without a sign of life, if that is why it counts as lost; it may come back.
    """

    client: str
    silent: float | None = None

    @property
    def said(self) -> str:
        gone = "is gone" if self.silent is None else f"has been silent for {self.silent:.0f} s: it counts as lost"
        return f"{self.client} {gone}; its tasks go to other clients"

    @property
    def note(self) -> str:
        return f"{self.client} is gone"


@dataclass(frozen=True)
class ClientJoined(Event, terminal="after_start"):
    """A client has joined while the application runs, and gets tasks."""

    client: str

    @property
    def said(self) -> str:
        return f"{self.client} has joined"

    @property
    def note(self) -> str:
        return self.said


@dataclass(frozen=True)
class ClientRefused(Event, level="warning", terminal="after_start"):
    """A client that cannot join: `cause`. The application runs without it."""

    client: str
    cause: str

    @property
    def said(self) -> str:
        return f"{self.client} cannot join, and gets no tasks: {self.cause}"


# Stores.


@dataclass(frozen=True)
class StoreEvent(Event):
    """An event of a client's copy of a store. `partition`: -1 for a global table, which is loaded again."""

    client: str
    store: str
    partition: int

    @property
    def copy(self) -> str:
        """`store totals, partition 1,` or `table rates`: the subject of its sentence."""
        return f"store {self.store}, partition {self.partition}," if self.partition >= 0 else f"table {self.store}"


@dataclass(frozen=True)
class StoreRestoring(StoreEvent):
    """A store of an active task is being restored, from `position` to `end` of its changelog, in records.

    `bytes_left`: size of the changelog's files between the two. `Restoring` adds up rates and remaining times.
    """

    position: int
    end: int
    bytes_left: int = 0

    @property
    def said(self) -> str:
        done = f"{self.position:,} of {counted(self.end, 'record')}"
        return f"{self.copy} is restored on {self.client}: {done}"


@dataclass(frozen=True)
class StoreRestored(StoreEvent):
    """A store of an active task is at its committed position. `records`: applied changelog records."""

    records: int

    @property
    def said(self) -> str:
        return f"{self.copy} is restored on {self.client} by {counted(self.records, 'record')}"


@dataclass(frozen=True)
class StoreDamaged(StoreEvent, level="warning", terminal="always"):
    """A client's copy of a store was damaged and is wiped. It is restored from its changelog, if it has one."""

    cause: str

    @property
    def said(self) -> str:
        return f"{self.copy} was damaged on {self.client} and is wiped: {self.cause}"


@dataclass(frozen=True)
class StoreOutdated(StoreEvent, level="warning", terminal="always"):
    """A client's copy of a store was wiped and is restored from the first position: it was at `position` of its
    changelog, which has dropped deletions before `horizon`. So the copy may have had deleted rows.
    """

    position: int
    horizon: int

    @property
    def said(self) -> str:
        return (
            f"{self.copy} is restored from scratch on {self.client}: it was at position {self.position:,} of its "
            f"changelog, and deletions before {self.horizon:,} are dropped by now"
        )


@dataclass(frozen=True)
class StoreLost(StoreEvent, level="error", terminal="always"):
    """A store has lost its committed rows and starts empty: it has no changelog, and no client has a copy."""

    @property
    def said(self) -> str:
        lost = f"{self.copy} has lost its rows and starts empty on {self.client}"
        return f"{lost}: it has no changelog to be restored from"


@dataclass(frozen=True)
class SnapshotUnusable(StoreEvent, level="warning", terminal="always"):
    """The snapshot of a store cannot be loaded: `cause`. A restore uses an older one, or the whole changelog."""

    cause: str

    @property
    def said(self) -> str:
        return f"{self.copy} is restored on {self.client} without a snapshot that cannot be loaded: {self.cause}"


@dataclass(frozen=True)
class SnapshotNotSaved(StoreEvent, level="warning", terminal="always"):
    """A snapshot of a store could not be saved: `cause`. It is tried again when the next one is due."""

    cause: str

    @property
    def said(self) -> str:
        return (
            f"{self.copy} could not be saved as a snapshot on {self.client}; it is tried again when the next one is "
            f"due: {self.cause}"
        )


@dataclass(frozen=True)
class ForeignStoresWiped(Event, level="warning", terminal="always"):
    """Stores of a client contained commits that the log does not have, and are wiped.

    The log may be a copy with which another run has continued, for example. Stores with a changelog are restored from
    it. `stores`: `<store>/<partition>` -> number of the last commit in it.
    """

    client: str
    stores: Mapping[str, int]

    @property
    def said(self) -> str:
        stores = tuple(f"{store} up to commit {number}" for store, number in sorted(self.stores.items()))
        return (
            f"{counted(len(stores), 'store')} on {self.client} had changes of commits that this log does not have, "
            f"and {'is' if len(stores) == 1 else 'are'} wiped: {first_of(stores)}; the log may be a copy, or restored "
            "from a copy"
        )


@dataclass(frozen=True)
class CopiesRemoved(Event):
    """A client has removed copies of stores that none of its tasks has used for `state_cleanup_delay`.

    `stores`: their `<store>/<partition>`. `cause`: why further ones could not be removed; empty if all are.
    """

    client: str
    stores: tuple[str, ...]
    cause: str = ""

    @property
    def said(self) -> str:
        if self.cause:
            return f"{self.client} cannot remove copies of stores of which it has no task: {self.cause}"
        copies = counted(len(self.stores), "copy of a store", "copies of stores")
        return f"{self.client} has removed {copies} of which it has no task: {first_of(self.stores)}"


# The log.

_LEFT = {
    "fold": "old commits stay in the log for now, as their removal failed",
    "remove": "unused files stay in the log for now, as their removal failed",
    "clean": "the log takes more space than it needs for now, as its cleaning failed",
}


@dataclass(frozen=True)
class UpkeepFailed(Event, level="warning", terminal="always", needs_run=False):
    """Upkeep of the log failed: `cause`. `work`: `fold` old commits, `remove` unused files, or `clean`: merge, compact
    or expire segments.

    It is tried again; until it succeeds, the log takes more space. One event per cause.
    """

    work: Literal["fold", "remove", "clean"]
    cause: str

    @property
    def said(self) -> str:
        return f"{_LEFT[self.work]}: {self.cause}"


@dataclass(frozen=True)
class LogCleaned(Event, needs_run=False):
    """Segments of the log were merged, compacted or expired: `before` segments have become `after`. `seconds`:
    duration, in parallel to epochs.
    """

    before: int
    after: int
    seconds: float

    @property
    def said(self) -> str:
        return f"log cleaned, {counted(self.before, 'segment')} became {self.after:,} ({self.seconds:.1f} s)"


@dataclass(frozen=True)
class RecordsHeldBack(Event, level="warning", terminal="always", needs_run=False):
    """`records` of a topic would be expired or compacted by now, but `reader` has not consumed them and does not run.

    `since`: its last commit, ms since 1970; None: it has none. One event per topic and reader.
    """

    topic: str
    reader: str
    records: int
    since: int | None

    @property
    def said(self) -> str:
        ran = "has never run" if self.since is None else f"committed last at {moment(self.since)}"
        return (
            f"{counted(self.records, 'record')} of {self.topic} cannot be cleaned: {self.reader} has not read them "
            f"yet, and {ran}: run it, or, if its topology is not in the project any more, "
            f"`headwater remove {self.reader}`"
        )
