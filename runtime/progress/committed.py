"""The committed state that a driver plans from: its own application's, and that of every application it reads from."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..log.log import Log
from ..log.state import LogState
from ..task_id import TaskKey
from ..topology import Topic, Topology
from .idleness import Network, idle_tasks


class Committed:
    """The log states of the own application and, read only, of its writers: direct ones and those behind them."""

    def __init__(self, log: Log, topology: Topology, own: LogState | None = None) -> None:
        """`own`: the application's state, if it is loaded already."""
        self.log = log
        self.application = topology.application
        self.seeds = f"{topology.project}-seed"
        self.states: dict[str, LogState] = {}
        if own is not None:
            self.states[self.application] = own
        self._state(self.application)
        self._state(self.seeds)
        self._fed: dict[str, int] = {}
        for part in topology.subtopologies:
            for topic in (*part.sources, *(table.topic for table in part.global_tables)):
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
    def version(self) -> tuple[int, ...]:
        """A value that changes whenever one of the states does."""
        return tuple(state.number for state in self.states.values())

    def of(self, topic: Topic) -> LogState:
        """The state of the application that writes `topic`."""
        return self.states[topic.writer or self.seeds]

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
        for state in self._others():
            state.check_same()

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
        """Committed records of the task's inputs that it has not consumed."""
        application, name, partition = task
        state = self.states[application]
        topics = state.topology.subtopologies[name].sources
        positions = state.tasks.of(task).positions
        behind = 0
        for topic in topics:
            writer = self._writer_state(state, topic)
            if writer is None:
                continue
            consumed = positions.get(topic, {})
            # A reader's state may be newer than its writer's here. It has then consumed more than `ends` says.
            ends = writer.lane_ends(topic, partition)
            behind += sum(max(0, end - consumed.get(lane, 0)) for lane, end in ends.items())
        return behind

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

    def idle(self, tasks: Collection[TaskKey], network: Network, failed: Collection[TaskKey]) -> Mapping[TaskKey, bool]:
        """Which of `tasks` are idle."""
        return idle_tasks(network, tasks, lambda task: self.unread(task) == 0, failed)

    def _others(self) -> list[LogState]:
        return [state for name, state in self.states.items() if name != self.application]

    def _writer_state(self, reader: LogState, topic: str) -> LogState | None:
        writer = reader.topology.topics[topic].writer
        return self.states.get(writer or self.seeds)

    def _has_records(self, topic: str) -> bool:
        seeds = self.states[self.seeds]
        return any(any(seeds.lane_ends(topic, each).values()) for each in range(self._fed[topic]))

    def _discover(self) -> None:
        """Load the writers of the writers, if they have started."""
        known = len(self.states)
        for state in list(self.states.values()):
            for topic in state.topology.topics.values():
                if topic.writer is not None:
                    self._state(topic.writer)
        if len(self.states) > known:
            self._discover()

    def _state(self, application: str) -> None:
        if application not in self.states:
            self.states[application] = LogState.load(self.log.commits(application))
