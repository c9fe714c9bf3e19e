"""The plan of the next epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..ir.topology import GlobalTable, Store, Subtopology, Topic, Topology, parse_start
from ..log.commit.external_records import EXTERNAL_LANE
from ..log.commit.records import Beginning
from ..log.state import LogState
from ..records.schema import changelog_topic
from ..task_id import StoreId, TaskId, TaskKey
from ..tasks.plan import LaneInput, StoreInput, TaskPlan, TopicInput
from .committed import Committed, Network, Node, unfinished
from .named_records import check_not_repartitioned
from .rewinding import EARLIEST, LATEST, Whence, positions_at

# Makes the plan of an epoch from committed state: the records each task may read, and the positions of its stores.

NOTHING_YET = LaneInput(EXTERNAL_LANE, 0, (), clock=-1, idle=False)
"""The lane of a topic whose writing application has not started: it is empty, but records will come."""


class Planner:
    """Plans the epochs of one application. Reads committed state, changes nothing."""

    def __init__(self, committed: Committed, max_records: int, max_bytes: int | None = None) -> None:
        self._committed = committed
        self._max_records = max_records
        self._max_bytes = max_bytes

    def unread(self, tasks: Iterable[TaskId]) -> int:
        """Records committed to the sources of the application's tasks that these have not consumed."""
        return sum(self._committed.unread(task.key(self._committed.application)) for task in tasks)

    def with_unread(self, part: Subtopology) -> tuple[TaskId, ...]:
        """The tasks of a subtopology for which there are some."""
        unread = self._committed.unread_by_partition(self._committed.application, part.name, part.partitions)
        return tuple(TaskId(part.number, partition, part.name) for partition, count in enumerate(unread) if count)

    def stream_time(self, task: TaskId) -> int:
        """The committed stream time of a task, ms; -1 before its first record."""
        return self._committed.own.tasks.last_commit(task.key(self._committed.application)).stream_time

    def punctuating(self, part: Subtopology, now: int | None) -> tuple[TaskId, ...]:
        """The tasks of a subtopology for which a wall-clock punctuation is due at `now`, ms; None: a stream-time
        punctuation by the task's stream time.
        """
        if not part.processors:
            return ()
        tasks = (TaskId(part.number, partition, part.name) for partition in range(part.partitions))
        return tuple(task for task in tasks if self._punctuates(task, part, now))

    def _punctuates(self, task: TaskId, part: Subtopology, now: int | None) -> bool:
        done = self._committed.own.tasks.last_commit(task.key(self._committed.application))
        kind, time = ("stream_time", done.stream_time) if now is None else ("wall_clock", now)
        of_part = (each for each in done.scheduled if each.kind == kind and each.processor in part.processors)
        return any(0 <= each.due <= time for each in of_part)

    def task(
        self,
        part: Subtopology,
        partition: int,
        applied: Mapping[str, int],
        network: Network | None = None,
        idle: dict[TaskKey, bool] | None = None,
        passed: int | None = None,
    ) -> TaskPlan:
        """Plan one task's epoch. `applied`: store -> changelog position that the client's copy is known to hold.

        `idle`: which writers are idle, as far as tasks that are planned at the same moment have found out. `passed`:
        the stream time to which time alone moves the task, ms.
        """
        own = self._committed.own
        network = network or self._committed.network()
        key = TaskKey(self._committed.application, part.name, partition)
        done = own.tasks.last_commit(key)
        return TaskPlan(
            key=key,
            max_records=self._max_records,
            stream_time=done.stream_time if passed is None else passed,
            time_passes=passed is not None,
            max_bytes=self._max_bytes,
            clocks=dict(done.clocks),
            scheduled=done.scheduled,
            inputs=tuple(
                self._topic(part, topic, partition, done.positions.get(topic.name, {}), network, idle)
                for topic in part.sources
            ),
            stores=tuple(
                self.store(store, partition, applied.get(store.name, 0), done.clocks) for store in part.stores
            ),
        )

    def behind(self, part: Subtopology, topic: str, lane: int, network: Network) -> tuple[TaskKey, ...] | None:
        """Why records may still come on a lane of a topic that a subtopology reads: the tasks that have some to take.

        None where nobody writes the topic yet.
        """
        writer = network.writer(topic)
        if writer is None:
            return None
        tasks = [TaskKey(*writer, lane), *_answering(network, writer, (self._committed.application, part.name))]
        return unfinished(network, tasks, lambda task: self._committed.unread(task) == 0)

    def lists(self, path: str) -> bool:
        """Whether commits list a file of records by now. Raises FullyRefreshedError."""
        return self._committed.lists(path)

    def clocks(self, task: TaskId) -> Mapping[str, int]:
        """The committed stream times of the window stores of one of the tasks, ms."""
        return self._committed.own.tasks.last_commit(task.key(self._committed.application)).clocks

    def store(
        self, store: Store, partition: int, applied: int, clocks: Mapping[str, int], records: int | None = None
    ) -> StoreInput:
        """The plan to bring a store from `applied` to its committed position.

        `records`: only the beginning of the way, which has that many changelog records or more.
        """
        own = self._committed.own
        topic = changelog_topic(self._committed.application, store.name)
        with own.lock:  # all of one moment
            position = self.end(store.name, partition)
            wanted = own.lane_ranges(topic, partition, partition, applied, records) if applied < position else ()
            horizon, mark = own.horizon(topic, partition, partition), own.mark
        # Fewer records than asked for are all there are: behind them positions may have no records any more.
        if records is not None and wanted and sum(each.records for each in wanted) >= records:
            position = wanted[-1].end
        return StoreInput(store.name, applied, position, wanted, clocks.get(store.name, -1), mark, horizon)

    def end(self, store: str, partition: int) -> int:
        """The committed position of a store."""
        topic = changelog_topic(self._committed.application, store)
        return self._committed.own.lane_ends(topic, partition).get(partition, 0)

    def bytes_from(self, store: StoreId, position: int) -> int:
        """About how many bytes of a store's changelog lie from a position on; 0 for a global table, which has none."""
        topic = changelog_topic(self._committed.application, store.store)
        return self._committed.own.bytes_from(topic, store.partition, store.partition, position)

    def globals(
        self, tables: Sequence[GlobalTable], held: Mapping[str, Mapping[int, Mapping[int, int]]]
    ) -> dict[str, tuple[TopicInput, ...]]:
        """The plan to bring a client's copies of global tables to the end of their topics, which the epoch then uses.

        `held`: table -> partition -> lane -> position that the client's copy is known to hold.
        """
        return {
            table.name: tuple(
                self._rest(table.topic, partition, held.get(table.name, {}).get(partition, {}))
                for partition in range(table.topic.partitions)
            )
            for table in tables
        }

    def _topic(
        self,
        part: Subtopology,
        topic: Topic,
        partition: int,
        consumed: Mapping[int, int],
        network: Network,
        known: dict[TaskKey, bool] | None,
    ) -> TopicInput:
        if partition >= topic.partitions:  # a subtopology has as many tasks as its widest topic has partitions
            return TopicInput(topic.name, (LaneInput(EXTERNAL_LANE, 0, ()),))
        state = self._committed.of(topic)
        if topic.writer is None:
            return TopicInput(topic.name, (self._lane(state, topic, partition, EXTERNAL_LANE, consumed),))
        writer = network.writer(topic.name)
        if writer is None:
            return TopicInput(topic.name, (NOTHING_YET,))
        tasks = [TaskKey(*writer, number) for number in range(network.part(writer).partitions)]
        idle = self._idle(part, topic, writer, tasks, network, known)
        return TopicInput(
            topic.name,
            tuple(
                self._lane(
                    state,
                    topic,
                    partition,
                    task.partition,
                    consumed,
                    state.tasks.last_commit(task).stream_time,
                    idle[task],
                )
                for task in tasks
            ),
            responses=topic.name in part.answers,
        )

    def _idle(
        self,
        part: Subtopology,
        topic: Topic,
        writer: Node,
        tasks: Sequence[TaskKey],
        network: Network,
        known: dict[TaskKey, bool] | None,
    ) -> Mapping[TaskKey, bool]:
        """Which of the `tasks` that write a topic this subtopology need not wait for."""
        reader = self._committed.application, part.name
        if topic.name in part.answers or network.in_a_circle(reader, writer):
            return dict.fromkeys(tasks, True)
        answering = _answering(network, writer, reader)
        idle = self._committed.idle([*tasks, *answering], network, known)
        if all(idle[task] for task in answering):
            return idle
        return dict.fromkeys(tasks, False)

    def _lane(
        self,
        state: LogState,
        topic: Topic,
        partition: int,
        lane: int,
        consumed: Mapping[int, int],
        clock: int = -1,
        idle: bool = True,
    ) -> LaneInput:
        position = consumed.get(lane, 0)
        with state.lock:
            ranges = state.lane_ranges(topic.name, partition, lane, position, self._max_records)
            more = bool(ranges) and ranges[-1].end < state.lane_ends(topic.name, partition)[lane]
        return LaneInput(lane, position, ranges, clock, idle, more)

    def _rest(self, topic: Topic, partition: int, held: Mapping[int, int]) -> TopicInput:
        writer = self._committed.of(topic)
        return TopicInput(
            topic.name,
            tuple(
                LaneInput(lane, held.get(lane, 0), writer.lane_ranges(topic.name, partition, lane, held.get(lane, 0)))
                for lane in sorted(writer.lane_ends(topic.name, partition))
            ),
            writer.mark,
        )


def _answering(network: Network, writer: Node, reader: Node) -> list[TaskKey]:
    """The tasks that answer what `writer` asks for, if `reader` has no part in it."""
    nodes = network.answering(writer, reader)
    return [TaskKey(*node, number) for node in nodes for number in range(network.part(node).partitions)]


# Where an application begins in the topics that it has not read yet, as `start` of its flows says.


def beginnings(topology: Topology, committed: Committed) -> tuple[Beginning, ...]:
    """The positions for the claim of an application: of topics in which none of its tasks has one.

    They are looked up at this moment. Positions that are there never change. Raises LogError, and
    TopicRepartitionedError where they would count other records from this claim on.
    """
    check_not_repartitioned(committed, only_read=True)
    if not any(part.starts for part in topology.subtopologies):
        return ()
    committed.refresh()
    check_not_repartitioned(committed, only_read=True)
    return tuple(found for part in topology.subtopologies for found in _of(part, committed))


def _of(part: Subtopology, committed: Committed) -> Iterator[Beginning]:
    for topic in part.sources:
        if topic.name in part.starts and (found := first_positions(part, topic, committed)) is not None:
            yield Beginning(part.name, topic.name, found)


def first_positions(part: Subtopology, topic: Topic, committed: Committed) -> dict[int, dict[int, int]] | None:
    """Partition -> lane -> where its tasks would begin in a topic now; None if one of them has a position in it.

    Raises LogError.
    """
    if _is_read(part, topic, committed):
        return None
    writer, whence = committed.of(topic), _whence(part.starts.get(topic.name, "earliest"))
    return {
        partition: positions_at(committed.log, writer, topic.name, partition, whence)
        for partition in range(topic.partitions)
    }


def _is_read(part: Subtopology, topic: Topic, committed: Committed) -> bool:
    tasks = (TaskKey(committed.application, part.name, partition) for partition in range(part.partitions))
    return any(topic.name in committed.own.tasks.last_commit(task).positions for task in tasks)


def _whence(start: str) -> Whence:
    found = parse_start(start)
    if isinstance(found, int):
        return Whence("time", found)
    return EARLIEST if found == "earliest" else LATEST
