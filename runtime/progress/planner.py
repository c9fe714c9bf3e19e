"""Plans of epochs, from committed state: the records each task may read, and the positions of its stores."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..ir.topology import GlobalTable, Store, Subtopology, Topic, Topology, group_of_start, parse_start
from ..log.commit.external_records import EXTERNAL_LANE
from ..log.commit.records import Beginning
from ..records.schema import changelog_topic
from ..task_id import StoreId, TaskId, TaskKey
from ..tasks.plan import LaneInput, Positions, StoreInput, TaskPlan, TopicInput
from .committed import Committed, Network, Node, unfinished
from .kafka_ends import TopicEnds
from .named_records import check_not_repartitioned
from .rewinding import EARLIEST, LATEST, Whence, positions_at, positions_in_kafka

NOTHING_YET = LaneInput(EXTERNAL_LANE, 0, (), clock=-1, idle=False)
"""The lane of a topic with a writer that has not started: empty, but records will come."""


class Planner:
    """Plans the epochs of one application. Reads committed state, changes nothing."""

    def __init__(self, committed: Committed, max_records: int, max_bytes: int | None = None) -> None:
        self._committed = committed
        self._max_records = max_records
        self._max_bytes = max_bytes

    def unread(self, tasks: Iterable[TaskId]) -> int:
        """The number of committed records that tasks of the application have not consumed."""
        return sum(self._committed.unread(task.key(self._committed.application)) for task in tasks)

    def with_unread(self, part: Subtopology) -> tuple[TaskId, ...]:
        """The tasks of a subtopology with unread records."""
        unread = self._committed.unread_by_partition(self._committed.application, part.name, part.partitions)
        beginning = {partition for partition in range(part.partitions) if self._takes_whole(part, partition)}
        # What differs between two results is known once the new one is complete.
        due = beginning if beginning and self._are_idle(part) else set()
        due |= {partition for partition, count in enumerate(unread) if count and partition not in beginning}
        return tuple(TaskId(part.number, partition, part.name) for partition in sorted(due))

    def _takes_whole(self, part: Subtopology, partition: int) -> bool:
        """Whether a task has to take all records of its topic at first: it compares them with those in Kafka."""
        if all(produced.recomputed != "changes" for produced in part.produced.values()):
            return False
        done = self._committed.own.tasks.last_commit(TaskKey(self._committed.application, part.name, partition))
        return not any(topic in done.positions for topic in part.produced)

    def _are_idle(self, part: Subtopology) -> bool:
        """Whether everything that writes the sources of a subtopology has caught up."""
        network = self._committed.network()
        writers = [network.writer(topic.name) for topic in part.sources]
        tasks = [
            TaskKey(*writer, number)
            for writer in writers
            if writer is not None
            for number in range(network.part(writer).partitions)
        ]
        return None not in writers and all(self._committed.idle(tasks, network).values())

    def stream_time(self, task: TaskId) -> int:
        """The committed stream time of a task, ms; -1 before its first record."""
        return self._committed.own.tasks.last_commit(task.key(self._committed.application)).stream_time

    def punctuating(self, part: Subtopology, now: int | None) -> tuple[TaskId, ...]:
        """The tasks of a subtopology with a due punctuation.

        `now`: for wall-clock punctuations, ms; None for stream-time punctuations, by the task's stream time.
        """
        if not part.processors:
            return ()
        tasks = (TaskId(part.number, partition, part.name) for partition in range(part.partitions))
        return tuple(task for task in tasks if self._punctuates(task, part, now))

    def _punctuates(self, task: TaskId, part: Subtopology, now: int | None) -> bool:
        done = self._committed.own.tasks.last_commit(task.key(self._committed.application))
        kind, time = ("stream_time", done.stream_time) if now is None else ("wall_clock", now)
        punctuations = (
            punctuation
            for punctuation in done.scheduled
            if punctuation.kind == kind and punctuation.processor in part.processors
        )
        return any(0 <= punctuation.due <= time for punctuation in punctuations)

    def task(
        self,
        part: Subtopology,
        partition: int,
        applied: Mapping[str, int],
        network: Network | None = None,
        idle: dict[TaskKey, bool] | None = None,
        passed: int | None = None,
    ) -> TaskPlan:
        """The plan of one task's epoch. `applied`: store -> known changelog position of the client's copy.

        `idle`: results of the same moment, see `idle_tasks`. `passed`: the stream time to which the task moves without
        records, ms.
        """
        own = self._committed.own
        network = network or self._committed.network()
        key = TaskKey(self._committed.application, part.name, partition)
        done = own.tasks.last_commit(key)
        whole = self._takes_whole(part, partition)
        most = sys.maxsize if whole else self._max_records
        return TaskPlan(
            key=key,
            max_records=most,
            stream_time=done.stream_time if passed is None else passed,
            time_passes=passed is not None,
            max_bytes=None if whole else self._max_bytes,
            whole=whole,
            clocks=dict(done.clocks),
            scheduled=done.scheduled,
            inputs=tuple(
                self._topic(part, topic, partition, done.positions.get(topic.name, {}), network, idle, most)
                for topic in part.sources
            ),
            stores=tuple(
                self.store(store, partition, applied.get(store.name, 0), done.clocks) for store in part.stores
            ),
        )

    def behind(self, part: Subtopology, topic: str, lane: int, network: Network) -> tuple[TaskKey, ...] | None:
        """Why records may still come on a lane of a subtopology's source: the tasks with unread records.

        None if no application writes the topic yet.
        """
        writer = network.writer(topic)
        if writer is None:
            return None
        tasks = [TaskKey(*writer, lane), *_responding(network, writer, (self._committed.application, part.name))]
        return unfinished(network, tasks, lambda task: self._committed.unread(task) == 0)

    def lists(self, path: str) -> bool:
        """Whether commits list a file of records now. Raises FullyRefreshedError."""
        return self._committed.lists(path)

    def clocks(self, task: TaskId) -> Mapping[str, int]:
        """The committed stream times of a task's window stores, ms."""
        return self._committed.own.tasks.last_commit(task.key(self._committed.application)).clocks

    def store(
        self, store: Store, partition: int, applied: int, clocks: Mapping[str, int], records: int | None = None
    ) -> StoreInput:
        """How a store gets from `applied` to its committed position, see `StoreInput.committed`."""
        at = StoreId(store.name, partition)
        return StoreInput.committed(self._committed.own, at, applied, clocks.get(store.name, -1), records)

    def end(self, store: StoreId) -> int:
        """The committed position of a store."""
        return self._committed.own.store_end(store)

    def bytes_from(self, store: StoreId, position: int) -> int:
        """The approximate size of a store's changelog from a position on, in bytes; 0 for a global table."""
        topic = changelog_topic(self._committed.application, store.store)
        return self._committed.own.bytes_from(topic, store.partition, store.partition, position)

    def globals(
        self, tables: Sequence[GlobalTable], held: Mapping[str, Positions]
    ) -> dict[str, tuple[TopicInput, ...]]:
        """The plan to bring a client's copies of global tables to the ends of their topics, for the epoch.

        `held`: table -> known positions of the client's copy.
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
        most: int,
    ) -> TopicInput:
        if partition >= topic.partitions:  # a subtopology has as many tasks as the most partitions of a source
            return TopicInput(topic.name, (LaneInput(EXTERNAL_LANE, 0, ()),))
        if topic.writer is None:
            lane = self._lane(self._committed.of(topic), topic, partition, EXTERNAL_LANE, consumed, most=most)
            return TopicInput(topic.name, (lane,))
        state = self._committed.writer(topic)
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
                    most,
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
        """For which of the writing `tasks` of a topic this subtopology need not wait."""
        reader = self._committed.application, part.name
        if topic.name in part.answers or network.in_a_circle(reader, writer):
            return dict.fromkeys(tasks, True)
        responding = _responding(network, writer, reader)
        idle = self._committed.idle([*tasks, *responding], network, known)
        if all(idle[task] for task in responding):
            return idle
        return dict.fromkeys(tasks, False)

    def _lane(
        self,
        state: TopicEnds,
        topic: Topic,
        partition: int,
        lane: int,
        consumed: Mapping[int, int],
        clock: int = -1,
        idle: bool = True,
        most: int | None = None,
    ) -> LaneInput:
        position = consumed.get(lane, 0)
        with state.lock:
            ranges = state.lane_ranges(topic.name, partition, lane, position, most)
            more = bool(ranges) and ranges[-1].end < state.lane_ends(topic.name, partition)[lane]
        return LaneInput(lane, position, ranges, clock, idle, more)

    def _rest(self, topic: Topic, partition: int, held: Mapping[int, int]) -> TopicInput:
        writer = self._committed.writer(topic)
        return TopicInput(
            topic.name,
            tuple(
                LaneInput(lane, held.get(lane, 0), writer.lane_ranges(topic.name, partition, lane, held.get(lane, 0)))
                for lane in sorted(writer.lane_ends(topic.name, partition))
            ),
            writer.mark,
        )


def _responding(network: Network, writer: Node, reader: Node) -> list[TaskKey]:
    """The tasks of `Network.responding`."""
    nodes = network.responding(writer, reader)
    return [TaskKey(*node, number) for node in nodes for number in range(network.part(node).partitions)]


# Where an application starts in new topics, by `start` of its flows.


def beginnings(topology: Topology, committed: Committed) -> tuple[Beginning, ...]:
    """The positions for the claim of an application, in topics without positions of its tasks.

    They are determined now; existing positions never change. Raises LogError, and TopicRepartitionedError if existing
    positions would be invalid from this claim on.
    """
    check_not_repartitioned(committed, only_read=True)
    if not any(part.starts or _raw(part) for part in topology.subtopologies):
        return ()
    committed.refresh()
    check_not_repartitioned(committed, only_read=True)
    return tuple(beginning for part in topology.subtopologies for beginning in _beginnings_of(part, committed))


def _beginnings_of(part: Subtopology, committed: Committed) -> Iterator[Beginning]:
    for topic in part.sources:
        if topic.name in part.starts or topic.kafka is not None:
            positions = first_positions(part, topic, committed)
            if positions is not None:
                yield Beginning(part.name, topic.name, positions)


def _raw(part: Subtopology) -> list[Topic]:
    return [topic for topic in part.sources if topic.kafka is not None]


def first_positions(part: Subtopology, topic: Topic, committed: Committed) -> dict[int, dict[int, int]] | None:
    """Partition -> lane -> position at which tasks would start in a topic now; None if a task has a position in it.

    In Kafka, partitions may have been added: they start at their first records. Without `start` too: earlier records
    than the first one are gone. Raises LogError, and errors of `KafkaEnds`.
    """
    whence = _whence(part.starts.get(topic.name, "earliest"))
    if topic.kafka is not None:
        return _first_in_kafka(part, topic, committed, whence)
    if _is_read(part, topic, committed):
        return None
    writer = committed.writer(topic)
    return {
        partition: positions_at(committed.log, writer, topic.name, partition, whence)
        for partition in range(topic.partitions)
    }


def _first_in_kafka(
    part: Subtopology, topic: Topic, committed: Committed, whence: Whence
) -> dict[int, dict[int, int]] | None:
    read = [
        committed.own.tasks.last_commit(TaskKey(committed.application, part.name, partition)).positions
        for partition in range(topic.partitions)
    ]
    new = [partition for partition, positions in enumerate(read) if topic.name not in positions]
    if not new or topic.name not in committed.kafka:
        return None
    first = positions_in_kafka(committed.kafka, topic.name, whence if len(new) == topic.partitions else EARLIEST)
    return {partition: {EXTERNAL_LANE: first[partition]} for partition in new}


def _is_read(part: Subtopology, topic: Topic, committed: Committed) -> bool:
    tasks = (TaskKey(committed.application, part.name, partition) for partition in range(part.partitions))
    return any(topic.name in committed.own.tasks.last_commit(task).positions for task in tasks)


def _whence(start: str) -> Whence:
    if (group := group_of_start(start)) is not None:
        return Whence("group", group=group)
    parsed = parse_start(start)
    if isinstance(parsed, int):
        return Whence("time", parsed)
    return EARLIEST if parsed == "earliest" else LATEST
