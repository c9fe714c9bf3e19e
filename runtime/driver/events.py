"""The events of a run, as data for observers. Printing them is up to the observer.

A new one also gets a sentence in `event_texts.py`; `cli/printing/progress.py` says which of them a terminal shows as
lines, and what is to stay goes into `results.py`. Numbers of dropped records are no events: they are in the commits of
tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from ..placing.assigned import Move
from ..task_id import TaskId

if TYPE_CHECKING:  # what prints events need not load the log for it
    from .epoch_reports import EpochTrace
    from .errors import WaitsFor
    from .status import RunStatus


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
class ApplicationStopping:
    """The application ends, once `epochs` that are open are finished and committed: a function may take its time."""

    application: str
    epochs: int


@dataclass(frozen=True)
class TopicRepartitioned:
    """The records of a topic were put elsewhere: `records` of them, from `was` into `partitions` partitions, by `key`
    instead of `old_key`. `application`: that of what is fed from outside. `seconds`: how long it took.
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
    """The application's result is computed again beside the one that is there, or goes on to be. `records`: topic ->
    those that are read again, of topics that are not computed again themselves.
    """

    application: str
    records: Mapping[str, int]


@dataclass(frozen=True)
class ResultSwitched:
    """The result that was computed again is caught up, and has taken the place of the old one."""

    application: str


@dataclass(frozen=True)
class RecomputationUnfinished:
    """The result that is computed again cannot be completed by this run: `cause`. The old one stays."""

    application: str
    cause: str


@dataclass(frozen=True)
class NothingToRead:
    """Topics that are fed from outside have never had a record, so there is nothing to process from them."""

    application: str
    topics: tuple[str, ...]


@dataclass(frozen=True)
class EpochCommitted:
    """One subtopology's tasks on one client committed an epoch.

    `records`: consumed. `bytes`: of these, as they are in memory, which `max_bytes` of the settings bounds. `lag`:
    records committed to the sources of these tasks and not consumed. `seconds`: from plan to commit. `dropped`:
    `<step>:<reason>` -> records.
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
    """An epoch is over, with a commit or without: what it did when. Only in a run with a trace."""

    application: str
    trace: EpochTrace


@dataclass(frozen=True)
class Waiting:
    """There are records that may not be taken yet: the writer of their topic is behind and not running.

    `writers`: those applications; the own one where some of its tasks have stopped.
    """

    application: str
    records: int
    writers: tuple[str, ...]


@dataclass(frozen=True)
class TasksWait:
    """Tasks take no records though there are some, and it will not end by itself: of a task that has stopped, or an
    application that does not run or is paused. Told once for each cause, and again with all of its tasks when there are
    more of them.
    """

    application: str
    tasks: tuple[TaskId, ...]
    waits_for: WaitsFor


@dataclass(frozen=True)
class WaitEnded:
    """What these tasks have waited for is over."""

    application: str
    tasks: tuple[TaskId, ...]
    waits_for: WaitsFor


@dataclass(frozen=True)
class TaskFailed:
    """A task has stopped: a step could not process one of its records, or its stores cannot be restored. `hint`: what
    to do about it, where that is known.
    """

    application: str
    subtopology: str
    partition: int
    message: str
    hint: str | None = None


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
class StoreOutdated:
    """A client's copy of a store was wiped and begins again from the first position: it stood at `position` of its
    changelog, of which deletions before `horizon` are dropped by now. So it may have had rows that are deleted.
    """

    application: str
    client: str
    store: str
    partition: int
    position: int
    horizon: int


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
class UpkeepFailed:
    """Old commits could not be folded (`fold`), superfluous files not removed (`remove`), or segments not merged,
    compacted or removed that have expired (`clean`): `cause`.

    The log takes more space until it succeeds. It is tried again; the same cause is told once.
    """

    application: str
    work: Literal["fold", "remove", "clean"]
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
class StatusTaken:
    """How the run stands, with all its numbers: about once a second, and once more at its end."""

    application: str
    status: RunStatus


@dataclass(frozen=True)
class LogCleaned:
    """Small segments of the log were merged, compacted, or their records have expired: `before` segments have become
    `after`. `seconds`: how long it took, beside the epochs.
    """

    application: str
    before: int
    after: int
    seconds: float


@dataclass(frozen=True)
class RecordsHeldBack:
    """`records` of a topic would have expired or be compacted by now, but `reader` has not consumed them, and does not
    run. `since`: when it committed last, in ms since 1970; None: never. Told once for each topic and reader.
    """

    application: str
    topic: str
    reader: str
    records: int
    since: int | None


@dataclass(frozen=True)
class ApplicationStopped:
    """The loop has ended. `reason`: caught up, interrupted, failed, fenced. `error`: the sentence that has ended it."""

    application: str
    reason: str
    records: int
    commits: int
    error: str | None = None


@dataclass(frozen=True)
class ClusterEnded:
    """What executes the epochs was ended while the run was ending, too: `cause`. What was open is not committed."""

    application: str
    cause: str


@dataclass(frozen=True)
class LineageNotSent:
    """OpenLineage's server or file (`target`) does not take an event: `cause`. Told once in a run, which goes on."""

    application: str
    target: str
    cause: str


@dataclass(frozen=True)
class TraceNotWritten:
    """The file of the run's trace (`path`) takes nothing any more: `cause`. Told once in a run, which goes on."""

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
    """Watches a run. It is called from the loop's own threads and must not block."""

    def on(self, event: Event) -> None:
        """Handle one event."""


class Silent:
    """An observer that ignores all events."""

    def on(self, event: Event) -> None:
        """Do nothing."""
