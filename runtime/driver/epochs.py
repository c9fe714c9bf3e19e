"""Epochs: units of work, commits, the feed of a test, and work that only time makes due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ..ir.topology import Subtopology, Topology
from ..log.commit.records import Ends, Purged, StoreSnapshot, TaskCommit
from ..log.log import Listed
from ..log.state_parts.parts import later_ends
from ..progress.committed import Committed
from ..progress.committer import Committer
from ..progress.planner import Planner
from ..progress.positions import GlobalTask
from ..task_id import TaskId, TaskKey
from ..tasks.measured import TaskOutcome
from ..tasks.plan import EpochPlan, TaskPlan
from ..tasks.task import StreamTask
from .cluster import EpochJob
from .member import GroupMember
from .removal import FileRemoval


@dataclass
class Tally:
    """Totals of the loop so far. `waiting`, `waits_for`, `empty`: see `ApplicationResult`."""

    commits: int = 0
    records: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    waits_for: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()


@dataclass(frozen=True)
class LastCommit:
    """One commit. `records`: consumed; `dropped`: `<step>:<reason>` -> records."""

    number: int = -1
    records: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)


class EpochCommits:
    """Commits the tasks of an application. Used from the loop's thread only.

    Records that global tables have dropped belong to no task of a client: their counts go with the next commit. `last`:
    the last commit.
    """

    def __init__(
        self,
        committer: Committer,
        committed: Committed,
        global_task: GlobalTask,
        removal: FileRemoval,
        tally: Tally | None = None,
    ) -> None:
        """`tally`: of the application's earlier loops in this run."""
        self._committer = committer
        self._committed = committed
        self._global_task = global_task
        self._removal = removal
        self._epoch = 0
        self.tally = tally or Tally()
        self.last = LastCommit()
        self._ends: Ends = {}

    @property
    def epoch(self) -> int:
        """The number of the latest epoch."""
        return self._epoch

    def next_epoch(self) -> int:
        """The number of a new epoch."""
        self._epoch += 1
        return self._epoch

    def finished(self, ends: Ends) -> None:
        """Note the ends of raw topics that were known at the planning of a finished epoch, for the next commit."""
        self._ends = {**self._ends, **later_ends(self._ends, ends)}

    def advance(self) -> None:
        """Read new records of global tables. Raises LogError."""
        self._global_task.advance()

    def flush(self) -> None:
        """Commit the counts of records that global tables have dropped, if there are any."""
        if self._global_task.dropped:
            self._commit(self._global_task.take())

    def commit(self, tasks: Sequence[TaskCommit]) -> int:
        """Commit the results of tasks. Returns the commit's number. Raises FencedError."""
        self._commit((*tasks, *self._global_task.take()))
        return self.last.number

    def list_snapshots(self, added: Sequence[StoreSnapshot], removed: Sequence[str]) -> None:
        """Commit the list of store snapshots, and remove those not listed any more. Raises FencedError."""
        self._committer.list_snapshots(added, removed)
        self._remove_unlisted()

    def discard(self, path: str) -> None:
        """Remove a snapshot that no commit lists. Thread-safe."""
        self._committed.log.remove(path)

    def purge(self, purged: Sequence[Purged]) -> None:
        """Purge records that their readers have consumed, and remove their files. Raises FencedError."""
        self._committer.purge(purged)
        self._remove_unlisted()

    def rewrite(self, segments: Sequence[Listed]) -> None:
        """Replace segments by cleaned ones. The old files are removed later. Raises FencedError,
        SegmentsChangedError.
        """
        self._committer.rewrite(segments, self._removal.delay_ms)
        self._remove_unlisted()

    def _commit(self, tasks: Sequence[TaskCommit]) -> None:
        number = self._committer.commit(self._epoch, tasks, self._committed.sources(), self._ends)
        self._remove_unlisted()
        dropped = sum((Counter(task.dropped) for task in tasks), Counter[str]())
        self.last = LastCommit(number, sum(task.records for task in tasks), dict(dropped))
        self.tally.commits += 1
        self.tally.records += self.last.records
        self.tally.dropped.update(dropped)

    def _remove_unlisted(self) -> None:
        self._removal.now(self._committed.own.unlisted)
        self._removal.later(self._committed.own.replaced)


SMALLER_EPOCHS = 4
"""Epochs of a task with a reduced number of records, before twice as many are tried."""


@dataclass
class Unit:
    """The tasks of one subtopology on one client, which share an epoch. Mutable, owned by the loop's thread.

    Its tasks are those of the member, and change. `blocked_at`: version of the committed state at which an epoch made
    no progress though records are unread: another epoch would not either before the version changes. `held_globals`:
    global table -> partition -> lane -> position that the client's copy has reached, shared by the units of the client.
    `smaller`: partition -> (most records of an epoch of its task, epochs for which that holds), where the rows of more
    records were too large.
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
        """All of its active tasks, in any state."""
        return [task.id for task in self.member.tasks.active if task.id.subtopology == self.part.number]

    def due(self, now: float, interval: float, version: tuple[int, ...], *, eager: bool, timely: bool = False) -> bool:
        """Whether to start an epoch at `now`: there may be unread records, and the commit `interval` (s) has passed.

        A unit whose last epoch was full starts at once, and so does an `eager` one, while no other unit works.
        `timely`: a task has work that time makes due, even without unread records.
        """
        if self.blocked_at == version and not timely:
            return False
        return self.full or eager or now >= self.started + interval

    def bounded(self, task: TaskPlan) -> TaskPlan:
        """The plan of one of its tasks, limited to the records that its last epochs could process."""
        most, _ = self.smaller.get(task.key.partition, (task.max_records, 0))
        return replace(task, max_records=min(task.max_records, most))

    def took(self, plan: EpochPlan, outcomes: Sequence[TaskOutcome], version: tuple[int, ...]) -> None:
        """Note the outcomes of an epoch. `version`: of the committed state that it was planned from."""
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
        """Limit the records of a task for some epochs, then raise the limit again."""
        most, left = self.smaller.pop(outcome.partition, (0, 0))
        if outcome.most:
            self.smaller[outcome.partition] = outcome.most, SMALLER_EPOCHS
        elif outcome.full and most:
            self.smaller[outcome.partition] = (most, left - 1) if left > 1 else (most * 2, SMALLER_EPOCHS)

    def _distrust(self, store: str) -> None:
        """A store is damaged; `store` is its name, empty if unknown. A damaged global table is loaded again."""
        names = {table.name for table in self.part.global_tables if table.store.name == store} if store else set()
        if names or store not in {declared.name for declared in self.part.stores}:
            for name in names or list(self.held_globals):
                self.held_globals.pop(name, None)


@dataclass(frozen=True)
class OpenEpoch:
    """An epoch in progress. `version`: of the committed state that it was planned from.

    `started`: time, seconds; `planning`: duration of the planning, seconds. `ends`: of raw topics, as they were seen
    before the planning.
    """

    unit: Unit
    plan: EpochPlan
    tasks: tuple[StreamTask, ...]
    started: float
    planning: float
    version: tuple[int, ...]
    ends: Ends


class Feed(Protocol):
    """Gives records and the time to a run until caught up, for tests of a project. The loop's thread calls it."""

    def more(self) -> bool:
        """Append the next records, once all others are consumed and committed. Whether there were any."""

    def stream_time(self) -> int:
        """The stream time in ms to which all tasks advance without a record once all is consumed; -1: not at all."""

    def now(self) -> int:
        """The wall-clock time of the next epoch in ms: `current_timestamp()` of its records."""


class PassingTime:
    """Tasks with work that time makes due, without a record. Used from the loop's thread only.

    Such work is a due wall-clock punctuation and, where a feed advances stream time, everything that depends on it.
    Stream time advances in one subtopology after the other, in the order of the flow of records, each time once all is
    consumed: the next subtopology gets the records that the steps of the one before emit, before its own time advances.
    Stream-time punctuations run in an epoch after that.
    """

    def __init__(
        self,
        topology: Topology,
        planner: Planner,
        feed: Feed | None,
        clock: Callable[[], int],
        failed: Callable[[], Collection[TaskKey]],
    ) -> None:
        """`failed`: the stopped tasks. `clock`: the wall clock in ms."""
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
        """The tasks that may start an epoch without records."""
        return {*self._wall_clock(until_caught_up), *self._behind(self._moving), *self._punctuating}

    def go_on(self) -> bool:
        """Choose the tasks in which stream time advances next, once all is consumed. Whether there are any."""
        self._moving = self._next()
        self._punctuating = frozenset() if self._moving else self._stream_time()
        return bool(self._moving or self._punctuating)

    def planned(self, tasks: Iterable[TaskId]) -> Mapping[TaskId, int]:
        """Of the tasks of a new epoch, those in which stream time advances: task -> stream time in ms."""
        chosen = [*tasks]
        self._punctuating -= {*chosen}
        return dict.fromkeys(self._behind(self._moving.intersection(chosen)), self._time)

    @property
    def _time(self) -> int:
        return -1 if self._feed is None else self._feed.stream_time()

    def _wall_clock(self, until_caught_up: bool) -> Iterable[TaskId]:
        """The tasks with due wall-clock punctuations.

        None in a run until caught up, which does not wait for time: punctuations run with the next records there. With
        a feed they run after the work of its stream time.
        """
        if until_caught_up and self._feed is None:
            return ()
        now, time = self._clock(), self._time
        due = (task for part in self._topology.subtopologies for task in self._planner.punctuating(part, now))
        return [task for task in self._running(due) if self._planner.stream_time(task) >= time]

    def _stream_time(self) -> frozenset[TaskId]:
        """The tasks with due stream-time punctuations, once for every time of the feed."""
        time = self._time
        if time < 0:
            return frozenset()
        parts = self._topology.subtopologies
        due_tasks = self._running(task for part in parts for task in self._planner.punctuating(part, None))
        due = frozenset(task for task in due_tasks if self._punctuated.get(task) != time)
        self._punctuated.update(dict.fromkeys(due, time))
        return due

    def _next(self) -> frozenset[TaskId]:
        """The tasks of the subtopologies that are behind the feed's time, while all that they read from are not."""
        if self._time < 0:
            return frozenset()
        parts = self._topology.subtopologies
        behind = {part.number: tasks for part in parts if (tasks := self._behind(_tasks(part)))}
        first = [number for number in behind if not (self._upstream[number] - {number}) & behind.keys()]
        chosen = first or list(behind)[:1]  # in a cycle no subtopology is first
        return frozenset(task for number in chosen for task in behind[number])

    def _behind(self, tasks: Iterable[TaskId]) -> list[TaskId]:
        time = self._time
        return [task for task in self._running(tasks) if self._planner.stream_time(task) < time]

    def _running(self, tasks: Iterable[TaskId]) -> list[TaskId]:
        application, failed = self._topology.application, self._failed()
        return [task for task in tasks if task.key(application) not in failed]


def _tasks(part: Subtopology) -> list[TaskId]:
    """The tasks of a subtopology with steps that depend on time."""
    if not part.stores and not part.processors:
        return []
    return [TaskId(part.number, partition, part.name) for partition in range(part.partitions)]


def _upstream(topology: Topology) -> dict[int, set[int]]:
    """Number of a subtopology -> numbers of all that it reads from, directly or not."""
    writers = {topic.name: part.number for part in topology.subtopologies for topic in part.sinks}
    upstream: dict[int, set[int]] = {
        part.number: {writers[topic.name] for topic in part.sources if topic.name in writers}
        for part in topology.subtopologies
    }
    for between in upstream:
        for reader in upstream.values():
            if between in reader:
                reader |= upstream[between]
    return upstream
