"""What is committed, and which inputs are idle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..ir.topology import Topic, Topology
from ..log.commit.descriptions import SubtopologyDescription, TopologyDescription
from ..log.log import Log
from ..log.placed_log import called
from ..log.state import LogState
from ..task_id import TaskKey
from .committer import renames_of

# Which writers may still write. A reader waits for a lane that has run out only if its writer may.
#
# A writing task is idle when it has consumed all committed input and every writer of its inputs is idle. Topics fed
# from outside have no writer to wait for. Subtopologies that read one another in a circle do not wait for each other,
# because each would wait for the other's clock for ever.
#
# A task that has stopped at a record that fails is not idle: that record is unread. Those who read what it writes wait
# where it stands. If they went on, its records would come too late once the step is corrected: closed windows would
# leave them out, and joins would find other rows.
#
# Answers come back to those who have asked. They close a circle, too, but they lead to no new questions: so nobody
# waits for them within it, and whoever is asked waits for those who ask. Others, who read what is made of the answers,
# wait for whoever answers, too.

Node = tuple[str, str]
"""Application and subtopology."""


class Network:
    """Who writes what, over all applications that a run knows of."""

    def __init__(self, parts: Mapping[Node, SubtopologyDescription]) -> None:
        self._parts = dict(parts)
        self._writers = {topic: node for node, part in self._parts.items() for topic in part.sinks}
        self._upstream = {node: self._reachable(node) for node in self._parts}

    def writer(self, topic: str) -> Node | None:
        """The subtopology that writes `topic`; None for a topic fed from outside or one that was never written."""
        return self._writers.get(topic)

    def part(self, node: Node) -> SubtopologyDescription:
        """The description of `node`: what it reads and writes."""
        return self._parts[node]

    def waited_for(self, node: Node) -> tuple[str, ...]:
        """What `node` reads, without answers."""
        part = self._parts[node]
        return tuple(topic for topic in part.sources if topic not in part.answers)

    def writers(self, task: TaskKey) -> Iterator[TaskKey]:
        """The tasks that write what `task` waits for."""
        node = task.application, task.subtopology
        for topic in self.waited_for(node):
            writer = self._writers.get(topic)
            if writer is not None and not self.in_a_circle(node, writer):
                yield from (TaskKey(*writer, partition) for partition in range(self._parts[writer].partitions))

    def answering(self, writer: Node, reader: Node) -> tuple[Node, ...]:
        """Who answers what `writer` asks for, if `reader` has no part in it."""
        found = (self._writers.get(topic) for topic in self._parts[writer].answers)
        answering = tuple(dict.fromkeys(node for node in found if node is not None))
        inside = any(reader == node or self.in_a_circle(reader, node) for node in answering)
        return () if inside else answering

    def in_a_circle(self, reader: Node, writer: Node) -> bool:
        """Whether `writer` reads, directly or through others, what `reader` writes."""
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
    """For each of `tasks`, and of the tasks upstream of them, whether it is idle.

    `consumed_all` says whether a task has consumed everything committed to its inputs. `known`: what this has returned
    before, at the same moment; it is added to.
    """
    idle: dict[TaskKey, bool] = {} if known is None else known

    def visit(task: TaskKey) -> bool:
        if task in idle:
            return idle[task]
        idle[task] = True  # until its own upstream is known: a circle does not wait for itself
        idle[task] = consumed_all(task) and all(map(visit, network.writers(task)))
        return idle[task]

    for task in tasks:
        visit(task)
    return idle


def unfinished(
    network: Network, tasks: Iterable[TaskKey], consumed_all: Callable[[TaskKey], bool]
) -> tuple[TaskKey, ...]:
    """Why `tasks` are not idle: those of them, or the next ones upstream, that have not consumed all."""
    found: set[TaskKey] = set()
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
            found.add(task)
    return tuple(sorted(found))


# The committed state that a driver plans from: its own application's, and that of every application it reads from.


@dataclass(frozen=True)
class _Unread:
    """How many records a task at these positions has not consumed of topics that end there."""

    positions: Mapping[str, Mapping[int, int]]
    topics: Sequence[str]
    ends: Sequence[int]
    records: int

    def holds(self, positions: Mapping[str, Mapping[int, int]], topics: Sequence[str], ends: Sequence[int]) -> bool:
        """Whether this is still so: a commit brings new positions, and records new ends."""
        unmoved = self.positions is positions or not (self.positions or positions)
        return unmoved and self.topics is topics and self.ends == ends


class Committed:
    """The log states of the own application and, read only, of its writers: direct ones and those behind them."""

    def __init__(self, log: Log, topology: Topology, own: LogState | None = None, resets: Collection[str] = ()) -> None:
        """`own`: the application's state, if it is loaded already. `resets`: stores to take for such, see `resets`."""
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
        self._fed: dict[str, int] = {}
        self._unread: dict[TaskKey, _Unread] = {}
        self._far_enough: dict[str, dict[str, list[dict[int, int]]]] = {}
        for topic in topology.read:
            if topic.writer is not None:
                self._state(topic.writer)
            else:
                self._fed[topic.name] = topic.partitions
        self.refresh()

    @property
    def own(self) -> LogState:
        """The state of the application that this driver commits to."""
        return self.states[self.application]

    @property
    def resets(self) -> frozenset[str]:
        """The stores whose rows are to be computed again, as somebody has asked for it."""
        return self._resets.union(self.own.resets)

    @property
    def version(self) -> tuple[int, ...]:
        """A value that changes whenever one of the states does."""
        return tuple(state.number for state in self.states.values())

    def of(self, topic: Topic) -> LogState:
        """The state of the application that writes `topic`."""
        return self.states[topic.writer or self.seeds]

    @property
    def writers(self) -> tuple[LogState, ...]:
        """The states of the other applications that the own one reads from, those behind them left out."""
        found = {state.place: state for state in map(self.of, self._read) if state is not self.own}
        return tuple(found.values())

    def sources(self) -> dict[str, tuple[int, int]]:
        """The last commit of each of the `writers`, as an epoch notes it: see `EpochRecord.sources`."""
        marks = (state.mark for state in self.writers)
        return {mark.application: (mark.number, mark.checksum) for mark in marks if mark is not None}

    @property
    def begun(self) -> dict[str, int]:
        """Topic fed from outside -> the commit with which it began."""
        topics = self.states[self.seeds].topics
        return {name: topic.since for name, topic in topics.items() if topic.since is not None}

    def refresh(self) -> None:
        """Apply new commits of the other applications, and load their writers once they are known.

        This is repeated until there are no new ones, so that all states are of one moment. Otherwise a task whose
        writers' states are older than its own would seem to have consumed all input. Raises FullyRefreshedError for an
        application that was fully refreshed.
        """
        self._discover()
        while any(state.refresh() for state in self._others()):
            self._discover()

    def lists(self, path: str) -> bool:
        """Whether one of the applications lists a file of records by now: that some time ago it was listed says nothing
        about a file that is not there. Raises FullyRefreshedError.
        """
        if self._listed(path):
            self.own.refresh()
            self.refresh()
        return self._listed(path)

    def empty(self) -> tuple[str, ...]:
        """The topics fed from outside that the application reads and that never had a record, by name."""
        return tuple(sorted(name for name in self._fed if not self._has_records(name)))

    def network(self) -> Network:
        """Who writes what, over all known applications."""
        return Network(
            {
                (application, name): part
                for application, state in self.states.items()
                for name, part in state.topology.subtopologies.items()
            }
        )

    def unread(self, task: TaskKey) -> int:
        """Committed records of the task's inputs that it has not consumed.

        A driver asks this of all tasks, many times a second, and most of them are where they were.
        """
        state = self.states[task.application]
        topics = state.topology.subtopologies[task.subtopology].sources
        return self._unread_of(task, state, topics, [self._writer_state(state, topic) for topic in topics])

    def unread_by_partition(self, application: str, subtopology: str, partitions: int) -> list[int]:
        """The same for the tasks of a subtopology, in the order of their partitions."""
        state = self.states[application]
        topics = state.topology.subtopologies[subtopology].sources
        writers = [self._writer_state(state, topic) for topic in topics]
        tasks = (TaskKey(application, subtopology, partition) for partition in range(partitions))
        return [self._unread_of(task, state, topics, writers) for task in tasks]

    def stop_at_ends(self, applications: Collection[str]) -> None:
        """From now on, records of others that come later do not count as unread by these applications.

        So they are caught up some day, also while records keep coming. They may consume them all the same.
        """
        self._unread.clear()
        for application in applications:
            state = self.states[application]
            topics = {topic for part in state.topology.subtopologies.values() for topic in part.sources}
            others = {topic: self._writer_state(state, topic) for topic in topics}
            self._far_enough[application] = {
                topic: [dict(writer.lane_ends(topic, each)) for each in range(state.topology.topics[topic].partitions)]
                for topic, writer in others.items()
                if writer is not None and writer is not state
            }

    def half_done(self, topology: Topology) -> frozenset[str]:
        """The repartition topics with records that the topology has written, and has not consumed yet."""
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
        """The other applications that have not consumed all of their committed input, by name."""
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
        """Which of `tasks` are idle. `known`: of which that was found out at the same moment; it is added to."""
        return idle_tasks(network, tasks, lambda task: self.unread(task) == 0, known)

    def writer_now(self, topic: str, writer: str) -> str:
        """What the writer of a topic is called now, that was called so when its reader was started last."""
        *others, now = called(self.log, writer)
        found = (each for each in others if each in self.states and topic in self.states[each].topology.topics)
        return next(found, now)

    def described(self) -> TopologyDescription:
        """The own application as it is committed, with its writers' names of now."""
        found = self.own.topology
        topics = {
            name: used if used.writer is None else replace(used, writer=self.writer_now(name, used.writer))
            for name, used in found.topics.items()
        }
        return replace(found, topics=topics)

    def _listed(self, path: str) -> bool:
        return any(path in state.paths() for state in self.states.values())

    def _others(self) -> list[LogState]:
        return [state for name, state in self.states.items() if name != self.application]

    def _unread_of(
        self, task: TaskKey, state: LogState, topics: Sequence[str], writers: Sequence[LogState | None]
    ) -> int:
        """`state`: of the task's application. `writers`: of each topic."""
        ends = [
            0 if writer is None else writer.end(topic, task.partition)
            for topic, writer in zip(topics, writers, strict=True)
        ]
        positions = state.tasks.last_commit(task).positions
        known = self._unread.get(task)
        if known is None or not known.holds(positions, topics, ends):
            far_enough = self._far_enough.get(task.application, {})
            records = _count_unread(positions, task.partition, topics, writers, far_enough)
            known = self._unread[task] = _Unread(positions, topics, ends, records)
        return known.records

    def _writer_state(self, reader: LogState, topic: str) -> LogState | None:
        writer = reader.topology.topics[topic].writer
        return self.states.get(self.writer_now(topic, writer) if writer else self.seeds)

    def _has_records(self, topic: str) -> bool:
        seeds = self.states[self.seeds]
        return any(any(seeds.lane_ends(topic, each).values()) for each in range(self._fed[topic]))

    def _discover(self) -> None:
        """Load the writers of the writers, if they have started."""
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
    writers: Sequence[LogState | None],
    far_enough: Mapping[str, Sequence[Mapping[int, int]]],
) -> int:
    behind = 0
    for topic, writer in zip(topics, writers, strict=True):
        if writer is None:
            continue
        consumed = positions.get(topic, {})
        # A reader's state may be newer than its writer's here. It has then consumed more than `ends` says.
        ends = writer.lane_ends(topic, partition)
        if topic in far_enough and partition < len(far_enough[topic]):
            ends = far_enough[topic][partition]
        behind += sum(max(0, end - consumed.get(lane, 0)) for lane, end in ends.items())
    return behind
