"""Events of a run, as data for observers.

A new event also needs a sentence in `event_texts.py`. `cli/printing/progress.py` has the events that a terminal shows
as lines, and `results.py` what the results of a run contain. Counts of dropped records are in the commits of tasks, not
in events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from ..placing.assigned import Move
from ..task_id import TaskId

if TYPE_CHECKING:  # printing events does not load the log
    from .epoch_reports import EpochTrace
    from .errors import WaitsFor
    from .status import RunStatus


@dataclass(frozen=True)
class ApplicationStarted:
    """The loop of an application starts, with its generation and tasks. `restored`: tasks with state."""

    application: str
    generation: int
    tasks: int
    restored: int


@dataclass(frozen=True)
class TasksPlaced:
    """An assignor has assigned the tasks. For the fields see `Assigned`. `clients`: their number."""

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
    """An assignment is invalid, so tasks stay on their clients. `entries`: the invalid parts."""

    application: str
    assignor: str
    message: str
    entries: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClientLost:
    """A client is lost while the application runs. Its tasks move to others.

    `silent`: seconds without a sign of life, if that is why it counts as lost; it may come back.
    """

    application: str
    client: str
    silent: float | None = None


@dataclass(frozen=True)
class ClientJoined:
    """A client has joined while the application runs, and gets tasks."""

    application: str
    client: str


@dataclass(frozen=True)
class ClientRefused:
    """A client that cannot join: `cause`. The application runs without it."""

    application: str
    client: str
    cause: str


@dataclass(frozen=True)
class ApplicationPaused:
    """The application was paused at `since`, ms since 1970: no epoch and no slice of a restore starts."""

    application: str
    since: int


@dataclass(frozen=True)
class ApplicationResumed:
    """The pause has ended."""

    application: str


@dataclass(frozen=True)
class ApplicationStopping:
    """The application ends once its open `epochs` are finished and committed."""

    application: str
    epochs: int


@dataclass(frozen=True)
class TopicRepartitioned:
    """An external topic was repartitioned: its `records` from `was` into `partitions` partitions, by `key` instead of
    `old_key`. `application`: of the external topics. `seconds`: duration.
    """

    application: str
    topic: str
    records: int
    was: int
    partitions: int
    old_key: str
    key: str
    seconds: float


@dataclass(frozen=True)
class RecomputationBegun:
    """A rebuild of the application's result starts or resumes. `records`: topic -> records that it reads again, of
    topics that are not rebuilt themselves.
    """

    application: str
    records: Mapping[str, int]


@dataclass(frozen=True)
class ResultSwitched:
    """The rebuild has caught up and has replaced the old result."""

    application: str


@dataclass(frozen=True)
class RecomputationUnfinished:
    """This run cannot finish the rebuild: `cause`. The old result stays."""

    application: str
    cause: str


@dataclass(frozen=True)
class NothingToRead:
    """External topics that have never had a record."""

    application: str
    topics: tuple[str, ...]


@dataclass(frozen=True)
class EpochCommitted:
    """The tasks of one subtopology on one client have committed an epoch.

    `records`: consumed. `bytes`: of these in memory; the setting `max_bytes` limits them. `lag`: unread records of the
    source topics of these tasks. `seconds`: from the plan to the commit. `dropped`: `<step>:<reason>` -> records.
    """

    application: str
    subtopology: str
    client: str
    commit: int
    records: int
    lag: int
    seconds: float
    dropped: Mapping[str, int] = field(default_factory=dict)
    bytes: int = 0


@dataclass(frozen=True)
class EpochTraced:
    """The trace of a finished epoch, committed or not. Only in a run with a trace."""

    application: str
    trace: EpochTrace


@dataclass(frozen=True)
class Waiting:
    """Records may not be consumed yet: the writers of their topics are behind and do not run.

    `writers`: these applications; the application itself where some of its tasks have stopped.
    """

    application: str
    records: int
    writers: tuple[str, ...]


@dataclass(frozen=True)
class TasksWait:
    """Tasks wait though they have unread records, for a cause that only a user can end: a stopped task, or an
    application that does not run or is paused. One event per cause, and another one with all tasks when more of them
    wait for it.
    """

    application: str
    tasks: tuple[TaskId, ...]
    waits_for: WaitsFor


@dataclass(frozen=True)
class WaitEnded:
    """The cause for which these tasks have waited is over."""

    application: str
    tasks: tuple[TaskId, ...]
    waits_for: WaitsFor


@dataclass(frozen=True)
class TaskFailed:
    """A task has stopped: a step could not process one of its records, or its stores cannot be restored. `hint`: the
    way out, None if unknown.
    """

    application: str
    subtopology: str
    partition: int
    message: str
    hint: str | None = None


@dataclass(frozen=True)
class TaskBeginsAgain:
    """An epoch of a task failed because of its stores: `cause`. They are checked, and restored if they are damaged."""

    application: str
    subtopology: str
    partition: int
    client: str
    cause: str


@dataclass(frozen=True)
class StoreRestoring:
    """A store of an active task is being restored, from `position` to `end` of its changelog, in records.

    `bytes_left`: size of the changelog's files between the two. `Restoring` adds up rates and remaining times.
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
    """A store of an active task is at its committed position. `records`: applied changelog records."""

    application: str
    client: str
    store: str
    partition: int
    records: int


@dataclass(frozen=True)
class StoreDamaged:
    """A client's copy of a store was damaged and is wiped. It is restored from its changelog, if it has one.

    `partition`: -1 for a global table, which is loaded again.
    """

    application: str
    client: str
    store: str
    partition: int
    cause: str


@dataclass(frozen=True)
class StoreOutdated:
    """A client's copy of a store was wiped and is restored from the first position: it was at `position` of its
    changelog, which has dropped deletions before `horizon`. So the copy may have had deleted rows.
    """

    application: str
    client: str
    store: str
    partition: int
    position: int
    horizon: int


@dataclass(frozen=True)
class SnapshotUnusable:
    """The snapshot of a store cannot be loaded: `cause`. A restore uses an older one, or the whole changelog."""

    application: str
    client: str
    store: str
    partition: int
    cause: str


@dataclass(frozen=True)
class SnapshotNotSaved:
    """A snapshot of a store could not be saved: `cause`. It is tried again when the next one is due."""

    application: str
    client: str
    store: str
    partition: int
    cause: str


@dataclass(frozen=True)
class UpkeepFailed:
    """Upkeep of the log failed: `cause`. `work`: `fold` old commits, `remove` unused files, or `clean`: merge, compact
    or expire segments.

    It is tried again; until it succeeds, the log takes more space. One event per cause.
    """

    application: str
    work: Literal["fold", "remove", "clean"]
    cause: str


@dataclass(frozen=True)
class ForeignStoresWiped:
    """Stores of a client contained commits that the log does not have, and are wiped.

    The log may be a copy with which another run has continued, for example. Stores with a changelog are restored from
    it. `stores`: `<store>/<partition>` -> number of the last commit in it.
    """

    application: str
    client: str
    stores: Mapping[str, int]


@dataclass(frozen=True)
class CopiesRemoved:
    """A client has removed copies of stores that none of its tasks has used for `state_cleanup_delay`.

    `stores`: their `<store>/<partition>`. `cause`: why further ones could not be removed; empty if all are.
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
class StatusTaken:
    """The status of the run, about once a second and at its end."""

    application: str
    status: RunStatus


@dataclass(frozen=True)
class LogCleaned:
    """Segments of the log were merged, compacted or expired: `before` segments have become `after`. `seconds`:
    duration, in parallel to epochs.
    """

    application: str
    before: int
    after: int
    seconds: float


@dataclass(frozen=True)
class RecordsHeldBack:
    """`records` of a topic would be expired or compacted by now, but `reader` has not consumed them and does not run.

    `since`: its last commit, ms since 1970; None: it has none. One event per topic and reader.
    """

    application: str
    topic: str
    reader: str
    records: int
    since: int | None


@dataclass(frozen=True)
class ApplicationStopped:
    """The loop has ended. `reason`: a `Status` of `results.py`. `error`: the message of the error that has ended it."""

    application: str
    reason: str
    records: int
    commits: int
    error: str | None = None


@dataclass(frozen=True)
class ClusterEnded:
    """The cluster was ended while the run was stopping: `cause`. Open epochs are not committed."""

    application: str
    cause: str


@dataclass(frozen=True)
class LineageNotSent:
    """OpenLineage's server or file (`target`) has not accepted an event: `cause`. One event per run, which
    continues.
    """

    application: str
    target: str
    cause: str


@dataclass(frozen=True)
class TraceNotWritten:
    """The file of the run's trace (`path`) cannot be written any more: `cause`. One event per run, which continues."""

    application: str
    path: str
    cause: str


Event = (
    TasksPlaced
    | ApplicationStarted
    | AssignmentFailed
    | ClientLost
    | ClientJoined
    | ClientRefused
    | ApplicationPaused
    | ApplicationResumed
    | ApplicationStopping
    | TopicRepartitioned
    | RecomputationBegun
    | ResultSwitched
    | RecomputationUnfinished
    | NothingToRead
    | EpochCommitted
    | EpochTraced
    | Waiting
    | TasksWait
    | WaitEnded
    | TaskFailed
    | TaskBeginsAgain
    | StoreRestoring
    | StoreRestored
    | StoreDamaged
    | StoreOutdated
    | SnapshotUnusable
    | SnapshotNotSaved
    | UpkeepFailed
    | ForeignStoresWiped
    | CopiesRemoved
    | StoreLost
    | StatusTaken
    | LogCleaned
    | ClusterEnded
    | RecordsHeldBack
    | ApplicationStopped
    | LineageNotSent
    | TraceNotWritten
)


class Observer(Protocol):
    """Observes a run. It is called from the threads of loops and must not block."""

    def on(self, event: Event) -> None:
        """Handle an event."""


class Silent:
    """An observer that ignores all events."""

    def on(self, event: Event) -> None:
        """Do nothing."""
