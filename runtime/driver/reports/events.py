"""The events of a run, as data for observers. Printing them is up to the observer.

A new one also gets a sentence in `event_texts.py`; `cli/progress.py` says which of them a terminal shows as lines, and
what is to stay goes into `results.py`. Numbers of dropped records are no events: they are in the commits of tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ...placing.assigned import Move
from ...task_id import TaskId


@dataclass(frozen=True)
class ApplicationStarted:
    """An application has its generation, its tasks and their state. Its loop begins."""

    application: str
    generation: int
    tasks: int
    restored: int


@dataclass(frozen=True)
class TasksPlaced:
    """An assignor has placed the tasks. For the fields see `Assigned`. `clients`: the number of clients."""

    application: str
    assignor: str
    clients: int
    kept: int
    new: int
    moves: tuple[Move, ...] = ()
    unassigned: tuple[TaskId, ...] = ()
    followup_deadline: int | None = None


@dataclass(frozen=True)
class AssignmentFailed:
    """An assignor's answer could not be carried out; tasks stay where they were. `entries`: the faulty parts."""

    application: str
    assignor: str
    message: str
    entries: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClientLost:
    """A client is gone while the application runs. Its tasks go to others.

    `silent`: for how many seconds nothing was heard of it, if it was given up for that. It may come back.
    """

    application: str
    client: str
    silent: float | None = None


@dataclass(frozen=True)
class ClientJoined:
    """A client has come while the application runs. It is given tasks."""

    application: str
    client: str


@dataclass(frozen=True)
class ClientRefused:
    """A client has come that cannot be given tasks: `cause`. The application runs without it."""

    application: str
    client: str
    cause: str


@dataclass(frozen=True)
class ApplicationPaused:
    """Somebody has paused the application, at `since` in ms since 1970: no epoch and no slice of a restore begins."""

    application: str
    since: int


@dataclass(frozen=True)
class ApplicationResumed:
    """The pause has ended: the application goes on."""

    application: str


@dataclass(frozen=True)
class NothingToRead:
    """Topics that are fed from outside have never had a record, so there is nothing to process from them."""

    application: str
    topics: tuple[str, ...]


@dataclass(frozen=True)
class EpochCommitted:
    """One subtopology's tasks on one client committed an epoch.

    `records`: consumed. `lag`: records committed to the sources of these tasks and not consumed. `seconds`: from plan
    to commit. `dropped`: `<step>:<reason>` -> records.
    """

    application: str
    subtopology: str
    client: str
    commit: int
    records: int
    lag: int
    seconds: float
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Waiting:
    """There are records that may not be taken yet: the writer of their topic is behind and not running."""

    application: str
    records: int
    writers: tuple[str, ...]


@dataclass(frozen=True)
class TaskFailed:
    """A task has stopped: a step could not process one of its records, or its stores cannot be restored."""

    application: str
    subtopology: str
    partition: int
    message: str


@dataclass(frozen=True)
class TaskBeginsAgain:
    """A task came to nothing in an epoch because of its stores: `cause`. They are examined, and restored if need be."""

    application: str
    subtopology: str
    partition: int
    client: str
    cause: str


@dataclass(frozen=True)
class StoreRestoring:
    """A store of an active task is being restored: it stands at `position`, in changelog records, and goes to `end`.

    `bytes_left`: what the changelog has between the two, in files. `Restoring` adds up rates and the time that is left.
    """

    application: str
    client: str
    store: str
    partition: int
    position: int
    end: int
    bytes_left: int = 0


@dataclass(frozen=True)
class StoreRestored:
    """A store of an active task stands where the commits say. `records`: changelog records that were applied."""

    application: str
    client: str
    store: str
    partition: int
    records: int


@dataclass(frozen=True)
class StoreDamaged:
    """A client's copy of a store was found damaged and wiped. It is restored from its changelog, if it has one.

    `partition`: -1 for a global table, which is loaded again.
    """

    application: str
    client: str
    store: str
    partition: int
    cause: str


@dataclass(frozen=True)
class SnapshotUnusable:
    """The snapshot with which a store was to be restored cannot be loaded: `cause`. An older one is loaded, or the
    changelog applied.
    """

    application: str
    client: str
    store: str
    partition: int
    cause: str


@dataclass(frozen=True)
class SnapshotNotSaved:
    """A store could not be copied into the log: `cause`. It is tried again when the next snapshot is due."""

    application: str
    client: str
    store: str
    partition: int
    cause: str


@dataclass(frozen=True)
class ForeignStoresWiped:
    """Stores of a client were made of commits that the log does not have, and are wiped.

    The log may be a copy on which other runs have continued, for example. Stores with a changelog are restored from it.
    `stores`: `<store>/<partition>` -> the number of the last commit that it was made of.
    """

    application: str
    client: str
    stores: Mapping[str, int]


@dataclass(frozen=True)
class CopiesRemoved:
    """A client has removed copies of stores that none of its tasks has had for long (`state_cleanup_delay`).

    `stores`: `<store>/<partition>` of each. `cause`: why no more could be removed; empty if nothing is left.
    """

    application: str
    client: str
    stores: tuple[str, ...]
    cause: str = ""


@dataclass(frozen=True)
class StoreLost:
    """A store has lost its committed rows and starts empty: it has no changelog, and no client has a copy."""

    application: str
    client: str
    store: str
    partition: int


@dataclass(frozen=True)
class ApplicationStopped:
    """The loop has ended. `reason`: caught up, interrupted, failed, fenced."""

    application: str
    reason: str
    records: int
    commits: int


Event = (
    TasksPlaced
    | ApplicationStarted
    | AssignmentFailed
    | ClientLost
    | ClientJoined
    | ClientRefused
    | ApplicationPaused
    | ApplicationResumed
    | NothingToRead
    | EpochCommitted
    | Waiting
    | TaskFailed
    | TaskBeginsAgain
    | StoreRestoring
    | StoreRestored
    | StoreDamaged
    | SnapshotUnusable
    | SnapshotNotSaved
    | ForeignStoresWiped
    | CopiesRemoved
    | StoreLost
    | ApplicationStopped
)


class Observer(Protocol):
    """Watches a run. It is called from the loop's own threads and must not block."""

    def on(self, event: Event) -> None:
        """Handle one event."""


class Silent:
    """An observer that ignores all events."""

    def on(self, event: Event) -> None:
        """Do nothing."""
