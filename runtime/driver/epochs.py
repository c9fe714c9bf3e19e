"""Epochs: units, commits, and records that are fed in."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ..ir.topology import Subtopology, Topology
from ..log.commit.records import Purged, StoreSnapshot, TaskCommit
from ..log.log import Listed
from ..progress.committed import Committed
from ..progress.committer import Committer
from ..progress.planner import Planner
from ..progress.positions import GlobalTask
from ..task_id import TaskId, TaskKey
from ..tasks.measured import TaskOutcome
from ..tasks.plan import EpochPlan, TaskPlan
from ..tasks.stream_task import StreamTask
from .cluster import EpochJob
from .member import GroupMember
from .removal import FileRemoval

# The epochs of one application as they are committed, and what they add up to.


@dataclass
class Tally:
    """What the loop has done so far."""

    commits: int = 0
    records: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    waits_for: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    caught_up: bool = False


@dataclass(frozen=True)
class Done:
    """One commit. `records`: consumed; `dropped`: `<step>:<reason>` -> records."""

    number: int = -1
    records: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)


class EpochCommits:
    """The Commits of an application's tasks. Used from the loop's thread only.

    What global tables have dropped goes with the next commit, as it is about no task of a client. `last`: the commit
    that was made last.
    """

    def __init__(
        self, committer: Committer, committed: Committed, global_task: GlobalTask, removal: FileRemoval
    ) -> None:
        self._committer = committer
        self._committed = committed
        self._global_task = global_task
        self._removal = removal
        self._epoch = 0
        self.tally = Tally()
        self.last = Done()

    @property
    def epoch(self) -> int:
        """The number of the epoch that began last."""
        return self._epoch

    def next_epoch(self) -> int:
        """The number of an epoch that begins."""
        self._epoch += 1
        return self._epoch

    def advance(self) -> None:
        """Look at what global tables have got. Raises LogError."""
        self._global_task.advance()

    def flush(self) -> None:
        """Commit what global tables have dropped, if that is all there is to commit."""
        if self._global_task.dropped:
            self._commit(self._global_task.take())

    def commit(self, tasks: Sequence[TaskCommit]) -> int:
        """Commit what tasks have come to; the commit's number. Raises FencedError."""
        self._commit((*tasks, *self._global_task.take()))
        return self.last.number

    def list_snapshots(self, added: Sequence[StoreSnapshot], removed: Sequence[str]) -> None:
        """List copies of stores, and remove those that are not listed any more. Raises FencedError."""
        self._committer.list_snapshots(added, removed)
        self._remove_unlisted()

    def discard(self, path: str) -> None:
        """Remove a copy that no commit lists. Any thread may do that."""
        self._committed.log.remove(path)

    def purge(self, purged: Sequence[Purged]) -> None:
        """Give up records that their readers have consumed, and remove their files. Raises FencedError."""
        self._committer.purge(purged)
        self._remove_unlisted()

    def rewrite(self, segments: Sequence[Listed]) -> None:
        """Put segments in the place of others, whose files are removed later. Raises FencedError,
        SegmentsChangedError.
        """
        self._committer.rewrite(segments, self._removal.delay_ms)
        self._remove_unlisted()

    def _commit(self, tasks: Sequence[TaskCommit]) -> None:
        number = self._committer.commit(self._epoch, tasks, self._committed.sources())
        self._remove_unlisted()
        dropped = sum((Counter(task.dropped) for task in tasks), Counter[str]())
        self.last = Done(number, sum(task.records for task in tasks), dict(dropped))
        self.tally.commits += 1
        self.tally.records += self.last.records
        self.tally.dropped.update(dropped)

    def _remove_unlisted(self) -> None:
        self._removal.now(self._committed.own.unlisted)
        self._removal.later(self._committed.own.replaced)


# A unit of work of the epoch loop: the tasks of one subtopology on one client, and when they are due.

SMALLER_EPOCHS = 4
"""Epochs of a task that had to have fewer records, before twice as many are tried."""


@dataclass
class Unit:
    """Mutable: owned by the loop's thread. Which tasks it has is the member's to say, and changes.

    `blocked_at`: version of the committed state at which an epoch stayed where it was though records are unread: there
    is no point in another before it changes. `held_globals`: global table -> partition -> lane -> position that the
    client's copy is known to have reached: of the client, shared by its units. `smaller`: partition -> how many records
    its task takes in an epoch, where the rows of more were too large, and for how many epochs that holds.
    """

    part: Subtopology
    member: GroupMember
    job: EpochJob
    started: float = float("-inf")
    full: bool = False
    blocked_at: tuple[int, ...] | None = None
    lost: bool = False
    held_globals: dict[str, dict[int, dict[int, int]]] = field(default_factory=dict)
    smaller: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def tasks(self) -> list[TaskId]:
        """All its tasks, whatever state they are in."""
        return [task.id for task in self.member.tasks.active if task.id.subtopology == self.part.number]

    def due(self, now: float, interval: float, version: tuple[int, ...], *, eager: bool, timely: bool = False) -> bool:
        """Whether to start an epoch: there may be something to take, and the commit interval has passed.

        A unit whose last epoch took all it may goes on at once; so does an `eager` one, for which nobody else works.
        `timely`: whether one of its tasks has something to do, as time passes, though it may have nothing to take.
        """
        if self.blocked_at == version and not timely:
            return False
        return self.full or eager or now >= self.started + interval

    def bounded(self, task: TaskPlan) -> TaskPlan:
        """The plan of one of its tasks, with as many records as its last epochs could have."""
        most, _ = self.smaller.get(task.key.partition, (task.max_records, 0))
        return replace(task, max_records=min(task.max_records, most))

    def took(self, plan: EpochPlan, outcomes: Sequence[TaskOutcome], version: tuple[int, ...]) -> None:
        """Note what an epoch's tasks have taken; `version` is the committed state it was planned from."""
        commits = [outcome.commit for outcome in outcomes if outcome.commit is not None]
        troubled = len(commits) < len(outcomes)
        for commit in commits:
            self.held_globals.update({table: plan.pinned(table) for table in commit.globals_})
        self.full = any(outcome.full for outcome in outcomes)
        for outcome in outcomes:
            self._bound(outcome)
        self.blocked_at = None if troubled or plan.advancing(commits) else version
        for trouble in (outcome.trouble for outcome in outcomes if outcome.trouble is not None):
            if trouble.kind in ("corrupted", "missing"):
                self._distrust(trouble.store)

    def _bound(self, outcome: TaskOutcome) -> None:
        """Have a task go on with fewer records for a while, and then with more again."""
        most, left = self.smaller.pop(outcome.partition, (0, 0))
        if outcome.most:
            self.smaller[outcome.partition] = outcome.most, SMALLER_EPOCHS
        elif outcome.full and most:
            self.smaller[outcome.partition] = (most, left - 1) if left > 1 else (most * 2, SMALLER_EPOCHS)

    def _distrust(self, store: str) -> None:
        """A store is damaged, by its name if that is known. Of a global table: it is loaded again before tasks run."""
        names = {table.name for table in self.part.global_tables if table.store.name == store} if store else set()
        if names or store not in {each.name for each in self.part.stores}:
            for name in names or list(self.held_globals):
                self.held_globals.pop(name, None)


@dataclass(frozen=True)
class OpenEpoch:
    """An epoch that a job works on. `version`: of the committed state that it was planned from.

    `started`: when, in seconds; `planning`: how many of them that took.
    """

    unit: Unit
    plan: EpochPlan
    tasks: tuple[StreamTask, ...]
    started: float
    planning: float
    version: tuple[int, ...]


# Records that a run is given while it goes on, and the time that it is told: for tests of a project; and what tasks do
# as time passes, without a record.


class Feed(Protocol):
    """Asked by the loop's thread of a run until caught up."""

    def more(self) -> bool:
        """All that there was is consumed and committed. Append what comes next; whether there was anything more."""

    def stream_time(self) -> int:
        """The stream time to which all tasks move without a record once all is consumed, in ms; -1: to none."""

    def now(self) -> int:
        """The time that the next epoch gets, in ms: `current_timestamp()` of its records."""


def wall_clock() -> int:
    """The time, in ms."""
    return time.time_ns() // 1_000_000


class PassingTime:
    """Which tasks have something to do though no record comes: used from the loop's thread only.

    These are wall-clock punctuations that are due; and where a feed moves stream time, all that goes by it. Time passes
    one subtopology after another, in the order in which records flow, each when all is consumed: what the steps of one
    give up has come to the next before its clocks move. Stream-time punctuations run in an epoch behind that.
    """

    def __init__(
        self,
        topology: Topology,
        planner: Planner,
        feed: Feed | None,
        clock: Callable[[], int],
        failed: Callable[[], Collection[TaskKey]],
    ) -> None:
        """`failed`: the tasks that have stopped."""
        self._topology = topology
        self._planner = planner
        self._feed = feed
        self._clock = clock
        self._failed = failed
        self._upstream = _upstream(topology)
        self._moving: frozenset[TaskId] = frozenset()
        self._punctuating: frozenset[TaskId] = frozenset()
        self._punctuated: dict[TaskId, int] = {}

    def due(self, until_caught_up: bool) -> set[TaskId]:
        """The tasks that may begin an epoch without records."""
        return {*self._wall_clock(until_caught_up), *self._behind(self._moving), *self._punctuating}

    def go_on(self) -> bool:
        """All is consumed: choose the tasks for which stream time passes now. Whether there are any."""
        self._moving = self._next()
        self._punctuating = frozenset() if self._moving else self._stream_time()
        return bool(self._moving or self._punctuating)

    def planned(self, tasks: Iterable[TaskId]) -> Mapping[TaskId, int]:
        """An epoch of these tasks is planned: those for which time passes in it, with the stream time, ms."""
        chosen = [*tasks]
        self._punctuating -= {*chosen}
        return dict.fromkeys(self._behind(self._moving.intersection(chosen)), self._time)

    @property
    def _time(self) -> int:
        return -1 if self._feed is None else self._feed.stream_time()

    def _wall_clock(self, until_caught_up: bool) -> Iterable[TaskId]:
        """A run that ends with its input does not wait for time: there punctuations run with the next records, unless
        the time is the feed's, and then behind what stream time brings about.
        """
        if until_caught_up and self._feed is None:
            return ()
        now, time = self._clock(), self._time
        due = (task for part in self._topology.subtopologies for task in self._planner.punctuating(part, now))
        return [task for task in self._running(due) if self._planner.stream_time(task) >= time]

    def _stream_time(self) -> frozenset[TaskId]:
        """The tasks with stream-time punctuations that are due, each once for a time of the feed."""
        time = self._time
        if time < 0:
            return frozenset()
        parts = self._topology.subtopologies
        found = self._running(task for part in parts for task in self._planner.punctuating(part, None))
        due = frozenset(task for task in found if self._punctuated.get(task) != time)
        self._punctuated.update(dict.fromkeys(due, time))
        return due

    def _next(self) -> frozenset[TaskId]:
        """The tasks of the subtopologies that time has not reached yet, but all those that they read from."""
        if self._time < 0:
            return frozenset()
        parts = self._topology.subtopologies
        behind = {part.number: tasks for part in parts if (tasks := self._behind(_tasks(part)))}
        first = [number for number in behind if not (self._upstream[number] - {number}) & behind.keys()]
        chosen = first or list(behind)[:1]  # none is first in a circle
        return frozenset(task for number in chosen for task in behind[number])

    def _behind(self, tasks: Iterable[TaskId]) -> list[TaskId]:
        time = self._time
        return [task for task in self._running(tasks) if self._planner.stream_time(task) < time]

    def _running(self, tasks: Iterable[TaskId]) -> list[TaskId]:
        application, failed = self._topology.application, self._failed()
        return [task for task in tasks if task.key(application) not in failed]


def _tasks(part: Subtopology) -> list[TaskId]:
    """The tasks of a subtopology with steps that go by time."""
    if not part.stores and not part.processors:
        return []
    return [TaskId(part.number, partition, part.name) for partition in range(part.partitions)]


def _upstream(topology: Topology) -> dict[int, set[int]]:
    """For each subtopology those from which records come to it, directly or not."""
    writers = {topic.name: part.number for part in topology.subtopologies for topic in part.sinks}
    found: dict[int, set[int]] = {
        part.number: {writers[topic.name] for topic in part.sources if topic.name in writers}
        for part in topology.subtopologies
    }
    for between in found:
        for reader in found.values():
            if between in reader:
                reader |= found[between]
    return found
