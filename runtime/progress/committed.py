"""The committed state that a driver plans from, and idle inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..ir.topology import Topic, Topology
from ..kafka.sources import Clusters
from ..log.commit.descriptions import SubtopologyDescription, TopologyDescription
from ..log.log import Log
from ..log.placed_log import called
from ..log.state import LogState
from ..task_id import TaskKey
from .committer import renames_of
from .kafka_ends import CommittedEnds, KafkaEnds, TopicEnds

# Which writers may still write. A reader waits for an empty lane only if its writer may.
#
# A writing task is idle when it has consumed all committed input and every writer of its inputs is idle. External
# topics have no writer to wait for. Subtopologies that read one another in a circle do not wait for each other, because
# each would wait for the other's clock forever.
#
# A task that has stopped at a failing record is not idle: the record is unread. Readers of its output wait at its
# position. If they continued, its records would be late once the step is corrected: closed windows would drop them, and
# joins would find other rows.
#
# Responses of a foreign-key join return to the subscribing subtopology. They close a circle too, but cause no new
# subscriptions. So tasks do not wait for responses within the circle, and the responding one waits for its subscribers.
# Readers of the join's output also wait for the responding subtopology.

Node = tuple[str, str]
"""Application and subtopology."""


class Network:
    """Subtopologies and the topics between them, over all applications that a run knows."""

    def __init__(self, parts: Mapping[Node, SubtopologyDescription]) -> None:
        self._parts = dict(parts)
        self._writers = {topic: node for node, part in self._parts.items() for topic in part.sinks}
        self._upstream = {node: self._reachable(node) for node in self._parts}

    def writer(self, topic: str) -> Node | None:
        """The subtopology that writes `topic`; None for an external topic, or one that was never written."""
        return self._writers.get(topic)

    def part(self, node: Node) -> SubtopologyDescription:
        """The description of `node`."""
        return self._parts[node]

    def waited_for(self, node: Node) -> tuple[str, ...]:
        """The sources of `node`, without responses."""
        part = self._parts[node]
        return tuple(topic for topic in part.sources if topic not in part.answers)

    def writers(self, task: TaskKey) -> Iterator[TaskKey]:
        """The tasks that write the topics for which `task` waits."""
        node = task.application, task.subtopology
        for topic in self.waited_for(node):
            writer = self._writers.get(topic)
            if writer is not None and not self.in_a_circle(node, writer):
                yield from (TaskKey(*writer, partition) for partition in range(self._parts[writer].partitions))

    def responding(self, writer: Node, reader: Node) -> tuple[Node, ...]:
        """The subtopologies that respond to subscriptions of `writer`, unless `reader` is part of the circle."""
        writers = (self._writers.get(topic) for topic in self._parts[writer].answers)
        responding = tuple(dict.fromkeys(node for node in writers if node is not None))
        inside = any(reader == node or self.in_a_circle(reader, node) for node in responding)
        return () if inside else responding

    def in_a_circle(self, reader: Node, writer: Node) -> bool:
        """Whether `writer` reads the output of `reader`, directly or through others."""
        return reader in self._upstream.get(writer, frozenset())

    def _reachable(self, start: Node) -> frozenset[Node]:
        seen: set[Node] = set()
        todo = [start]
        while todo:
            for topic in self.waited_for(todo.pop()):
                writer = self._writers.get(topic)
                if writer is not None and writer not in seen:
                    seen.add(writer)
                    todo.append(writer)
        return frozenset(seen)


def idle_tasks(
    network: Network,
    tasks: Iterable[TaskKey],
    consumed_all: Callable[[TaskKey], bool],
    known: dict[TaskKey, bool] | None = None,
) -> dict[TaskKey, bool]:
    """Whether each of `tasks`, and of the tasks upstream of them, is idle.

    `consumed_all`: whether a task has consumed all committed input. `known`: earlier results of the same moment; new
    results are added.
    """
    idle: dict[TaskKey, bool] = {} if known is None else known

    def visit(task: TaskKey) -> bool:
        if task in idle:
            return idle[task]
        idle[task] = True  # until its upstream is known: a circle does not wait for itself
        idle[task] = consumed_all(task) and all(map(visit, network.writers(task)))
        return idle[task]

    for task in tasks:
        visit(task)
    return idle


def unfinished(
    network: Network, tasks: Iterable[TaskKey], consumed_all: Callable[[TaskKey], bool]
) -> tuple[TaskKey, ...]:
    """Why `tasks` are not idle: those of them, or the next ones upstream, that have not consumed all input."""
    behind: set[TaskKey] = set()
    seen: set[TaskKey] = set()
    todo = [*tasks]
    while todo:
        task = todo.pop()
        if task in seen:
            continue
        seen.add(task)
        if consumed_all(task):
            todo += network.writers(task)
        else:
            behind.add(task)
    return tuple(sorted(behind))


# The committed states of a driver's application, and of all applications that it reads from.


@dataclass(frozen=True)
class _Unread:
    """A cached number of records that a task at these positions has not consumed of topics with these ends."""

    positions: Mapping[str, Mapping[int, int]]
    topics: Sequence[str]
    ends: Sequence[int]
    records: int

    def is_valid(self, positions: Mapping[str, Mapping[int, int]], topics: Sequence[str], ends: Sequence[int]) -> bool:
        """Whether positions and ends are unchanged: each commit has new positions, and new records move the ends."""
        unmoved = self.positions is positions or not (self.positions or positions)
        return unmoved and self.topics is topics and self.ends == ends


class Committed:
    """The log states of the own application and, read only, of all applications upstream of it."""

    def __init__(
        self,
        log: Log,
        topology: Topology,
        own: LogState | None = None,
        resets: Collection[str] = (),
        kafka: Clusters | None = None,
    ) -> None:
        """`own`: the application's state, if it is loaded already.

        `resets`: further stores to rebuild, see `resets`. `kafka`: the clusters of the application's raw topics. None:
        they are not asked, and its raw topics end where its driver has last committed.
        """
        self.log = log
        self.application = topology.application
        self.seeds = f"{topology.project}-seed"
        self._resets = frozenset(resets)
        self.states: dict[str, LogState] = {}
        if own is not None:
            self.states[self.application] = own
        self._state(self.application)
        if renames := renames_of(topology, self.own):
            self.own.rename(renames)
        self._state(self.seeds)
        self._read = tuple({topic.name: topic for topic in topology.read}.values())
        self._external: dict[str, int] = {}
        raw = [] if kafka is None else [topic for topic in self._read if topic.kafka is not None]
        self.kafka = KafkaEnds(raw, kafka or {})
        self._unread: dict[TaskKey, _Unread] = {}
        self._far_enough: dict[str, dict[str, list[dict[int, int]]]] = {}
        for topic in topology.read:
            if topic.writer is not None:
                self._state(topic.writer)
            elif topic.kafka is None:
                self._external[topic.name] = topic.partitions
        self.refresh()

    @property
    def own(self) -> LogState:
        """The state of this driver's application."""
        return self.states[self.application]

    @property
    def resets(self) -> frozenset[str]:
        """The stores that a user has requested to rebuild."""
        return self._resets.union(self.own.resets)

    @property
    def version(self) -> tuple[int, ...]:
        """A value that changes whenever one of the states does, or an offset in Kafka."""
        return (*(state.number for state in self.states.values()), self.kafka.number)

    @property
    def is_new(self) -> bool:
        """Whether none of the applications has a commit."""
        return not any(state.number for state in self.states.values())

    def of(self, topic: Topic) -> TopicEnds:
        """Where the records of `topic` are: in the state of its `writer`, or in Kafka."""
        return self.writer(topic) if topic.kafka is None else self._raw(self.own, topic.name)

    def writer(self, topic: Topic) -> LogState:
        """The state of the application that writes `topic`."""
        return self.states[topic.writer or self.seeds]

    @property
    def writers(self) -> tuple[LogState, ...]:
        """The states of other applications that this one reads from directly."""
        topics = (topic for topic in self._read if topic.kafka is None)
        states = {state.place: state for state in map(self.writer, topics) if state is not self.own}
        return tuple(states.values())

    def sources(self) -> dict[str, tuple[int, int]]:
        """The last commit of each of the `writers`, see `EpochRecord.sources`."""
        marks = (state.mark for state in self.writers)
        return {mark.application: (mark.number, mark.checksum) for mark in marks if mark is not None}

    @property
    def begun(self) -> dict[str, int]:
        """External topic -> the commit with which it starts."""
        topics = self.states[self.seeds].topics
        return {name: topic.since for name, topic in topics.items() if topic.since is not None}

    def refresh(self) -> None:
        """Apply new commits of the other applications, and load their writers once known. Poll the ends in Kafka.

        Repeated until there are no new ones, so that all states are of one moment. Otherwise a task with older states
        of its writers would seem to have consumed all input. Raises FullyRefreshedError, and errors of `KafkaEnds`.
        """
        self.kafka.poll()
        self._discover()
        while any(state.refresh() for state in self._others()):
            self._discover()

    def lists(self, path: str) -> bool:
        """Whether an application lists a file of records in its newest commit. Raises FullyRefreshedError.

        Listed states are refreshed first, as the file may have been replaced.
        """
        if self._listed(path):
            self.own.refresh()
            self.refresh()
        return self._listed(path)

    def empty(self) -> tuple[str, ...]:
        """The application's external topics in the log that never had a record, sorted."""
        return tuple(sorted(name for name in self._external if not self._has_records(name)))

    def network(self) -> Network:
        """The network of all known applications."""
        return Network(
            {
                (application, name): part
                for application, state in self.states.items()
                for name, part in state.topology.subtopologies.items()
            }
        )

    def unread(self, task: TaskKey) -> int:
        """The number of committed records of a task's inputs that it has not consumed.

        Cached, because drivers call this for all tasks many times a second, and few of them have moved.
        """
        state = self.states[task.application]
        topics = state.topology.subtopologies[task.subtopology].sources
        return self._unread_of(task, state, topics, [self._ends(state, topic) for topic in topics])

    def unread_by_partition(self, application: str, subtopology: str, partitions: int) -> list[int]:
        """`unread` of the tasks of a subtopology, by partition."""
        state = self.states[application]
        topics = state.topology.subtopologies[subtopology].sources
        writers = [self._ends(state, topic) for topic in topics]
        tasks = (TaskKey(application, subtopology, partition) for partition in range(partitions))
        return [self._unread_of(task, state, topics, writers) for task in tasks]

    def stop_at_ends(self, applications: Collection[str]) -> None:
        """From now on, later records of other applications do not count as unread by these applications.

        So they catch up, even while records keep coming. They may still consume such records.
        """
        self._unread.clear()
        for application in applications:
            state = self.states[application]
            topics = {topic for part in state.topology.subtopologies.values() for topic in part.sources}
            others = {topic: self._ends(state, topic) for topic in topics}
            self._far_enough[application] = {
                topic: [
                    dict(writer.lane_ends(topic, partition))
                    for partition in range(state.topology.topics[topic].partitions)
                ]
                for topic, writer in others.items()
                if writer is not None and writer is not state
            }

    def half_done(self, topology: Topology) -> frozenset[str]:
        """The repartition topics with records that the topology has not consumed yet."""
        own = self.own
        topics = {name for part in topology.subtopologies for name in part.repartition_topics}
        return frozenset(
            topic.name
            for part in topology.subtopologies
            for topic in part.sources
            if topic.name in topics
            for partition in range(topic.partitions)
            for lane, end in own.lane_ends(topic.name, partition).items()
            if end
            > own.tasks.last_commit(TaskKey(self.application, part.name, partition))
            .positions.get(topic.name, {})
            .get(lane, 0)
        )

    def behind(self) -> tuple[str, ...]:
        """The other applications that have not consumed all committed input, sorted by name."""
        return tuple(
            application
            for application, state in sorted(self.states.items())
            if application != self.application
            and any(
                self.unread(TaskKey(application, name, partition))
                for name, part in state.topology.subtopologies.items()
                for partition in range(part.partitions)
            )
        )

    def idle(
        self,
        tasks: Collection[TaskKey],
        network: Network,
        known: dict[TaskKey, bool] | None = None,
    ) -> Mapping[TaskKey, bool]:
        """Which of `tasks` are idle. `known`: see `idle_tasks`."""
        return idle_tasks(network, tasks, lambda task: self.unread(task) == 0, known)

    def writer_now(self, topic: str, writer: str) -> str:
        """The present name of a topic's writer. `writer`: its name at the last start of the reader."""
        *others, now = called(self.log, writer)
        names = (name for name in others if name in self.states and topic in self.states[name].topology.topics)
        return next(names, now)

    def described(self) -> TopologyDescription:
        """The committed description of the own application, with present names of writers."""
        description = self.own.topology
        topics = {
            name: used if used.writer is None else replace(used, writer=self.writer_now(name, used.writer))
            for name, used in description.topics.items()
        }
        return replace(description, topics=topics)

    def _listed(self, path: str) -> bool:
        return any(path in state.paths() for state in self.states.values())

    def _others(self) -> list[LogState]:
        return [state for name, state in self.states.items() if name != self.application]

    def _unread_of(
        self, task: TaskKey, state: LogState, topics: Sequence[str], writers: Sequence[TopicEnds | None]
    ) -> int:
        """`state`: of the task's application. `writers`: the ends of each topic."""
        ends = [
            0 if writer is None else writer.end(topic, task.partition)
            for topic, writer in zip(topics, writers, strict=True)
        ]
        positions = state.tasks.last_commit(task).positions
        cached = self._unread.get(task)
        if cached is None or not cached.is_valid(positions, topics, ends):
            far_enough = self._far_enough.get(task.application, {})
            records = _count_unread(positions, task.partition, topics, writers, far_enough)
            cached = self._unread[task] = _Unread(positions, topics, ends, records)
        return cached.records

    def _ends(self, reader: LogState, topic: str) -> TopicEnds | None:
        """Where a topic ends that an application reads; None if its writer is unknown."""
        used = reader.topology.topics[topic]
        if used.kafka_id is not None:
            return self._raw(reader, topic)
        return self.states.get(self.writer_now(topic, used.writer) if used.writer else self.seeds)

    def _raw(self, reader: LogState, topic: str) -> TopicEnds:
        """Where a raw topic of an application ends. Only its own driver asks Kafka."""
        return self.kafka if reader is self.own and topic in self.kafka else CommittedEnds(reader)

    def _has_records(self, topic: str) -> bool:
        seeds = self.states[self.seeds]
        partitions = range(self._external[topic])
        return any(any(seeds.lane_ends(topic, partition).values()) for partition in partitions)

    def _discover(self) -> None:
        """Load the states of all applications upstream that have started."""
        known = len(self.states)
        for state in list(self.states.values()):
            for topic in state.topology.topics.values():
                if topic.writer is not None:
                    for name in called(self.log, topic.writer):
                        self._state(name)
        if len(self.states) > known:
            self._discover()

    def _state(self, application: str) -> None:
        if application not in self.states:
            self.states[application] = LogState.load(self.log.commits(application))


def _count_unread(
    positions: Mapping[str, Mapping[int, int]],
    partition: int,
    topics: Sequence[str],
    writers: Sequence[TopicEnds | None],
    far_enough: Mapping[str, Sequence[Mapping[int, int]]],
) -> int:
    behind = 0
    for topic, writer in zip(topics, writers, strict=True):
        if writer is None:
            continue
        consumed = positions.get(topic, {})
        # If the reader's state is newer than its writer's, it may have consumed more than `ends`.
        ends = writer.lane_ends(topic, partition)
        if topic in far_enough and partition < len(far_enough[topic]):
            ends = far_enough[topic][partition]
        behind += sum(max(0, end - consumed.get(lane, 0)) for lane, end in ends.items())
    return behind
