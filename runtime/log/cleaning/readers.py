"""Positions of a topic's readers: all applications of the log that read it, running or not.

A topology of the project that has not committed yet that it reads the topic counts too: it is new, was not selected so
far, has a new source, or was just fully refreshed. It starts at the first record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from ...ir.topology import Topology
from ...task_id import TaskKey
from ..errors import FullyRefreshedError, LogError
from ..log import Log
from ..placed_log import PlacedLog
from ..state import LogState

DeclaredReaders = Mapping[tuple[str, str], Collection[str]]
"""Writer and topic -> the applications that read it in the project."""


def declared_readers(topologies: Iterable[Topology]) -> DeclaredReaders:
    """The topologies, and further readers of their topics (`Topic.readers`)."""
    readers: dict[tuple[str, str], set[str]] = {}
    for topology in topologies:
        for part in topology.subtopologies:
            for topic in (*part.read, *part.sinks):
                own = (topology.application,) if topic in part.read else ()
                writer = topic.writer or f"{topology.project}-seed"
                readers.setdefault((writer, topic.name), set()).update(own, topic.readers)
    return readers


class Readers:
    """The readers of one application's topics. Keeps and refreshes the states of other applications.

    Used by one thread at a time.
    """

    def __init__(self, log: Log, declared: DeclaredReaders) -> None:
        self._log = log
        self._declared = declared
        self._states: dict[str, LogState | None] = {}
        self._stale: set[str] = set()
        self._writer = ""
        self._unbegun: frozenset[str] = frozenset()
        self._former: frozenset[str] = frozenset()

    def refresh(self, writer: LogState) -> None:
        """Use the present commits. `writer`: the state of the application that writes the topics."""
        names = self._log.applications()
        self._states = {name: self._states.get(name) for name in names}
        self._states[writer.application] = writer
        self._writer, self._former = writer.application, writer.former
        self._unbegun = _unbegun(self._log)
        self._stale = {name for name in names if name != writer.application}

    def positions(self, topic: str, partition: int, lane: int) -> dict[str, int]:
        """The position up to which each reader has consumed a lane, by application."""
        positions: dict[str, int] = {}
        for name, position in self._positions(topic, partition, lane):
            positions[name] = min(position, positions.get(name, position))
        return positions

    def is_global(self, topic: str) -> bool:
        """Whether the topic is the source of a global table, which each client loads as a whole when it starts."""
        return any(
            state is not None and self._uses(state, topic) and state.topology.topics[topic].global_
            for _, state in self._current()
        )

    def _positions(self, topic: str, partition: int, lane: int) -> Iterator[tuple[str, int]]:
        new = set(self._declared.get((self._writer, topic), ()))
        for application, state in self._current():
            if state is None:
                yield application, 0  # its positions are unknown
                continue
            if not self._uses(state, topic):
                continue
            if application not in self._unbegun:
                new.discard(application)
            else:
                yield application, 0  # it is being rebuilt, from the first record on
            if self._was_moved(state, topic):
                yield application, 0  # it restarts with the repartitioned topic
                continue
            for name, part in state.topology.subtopologies.items():
                if topic in part.sources and partition < part.partitions:
                    positions = state.tasks.last_commit(TaskKey(state.application, name, partition)).positions
                    yield application, positions.get(topic, {}).get(lane, 0)
        for application in new:
            yield application, 0

    def _was_moved(self, state: LogState, topic: str) -> bool:
        """Whether the topic was repartitioned since an application has read it."""
        writer = self._states[self._writer]
        external = None if writer is None else writer.topics.get(topic)
        return external is not None and external.was_moved(state.topology.topics[topic].since)

    def _uses(self, state: LogState, topic: str) -> bool:
        """Whether an application reads this writer's topic, and not one with the same name of another project."""
        used = state.topology.topics.get(topic)
        if used is None:
            return False
        project = self._writer.removesuffix("seed") if self._writer.endswith("-seed") else None
        # The writer may have had another name at the last start of the reader.
        return (
            used.writer == self._writer
            or used.writer in self._former
            or (used.writer is None and project is not None and state.application.startswith(project))
        )

    def _current(self) -> Iterator[tuple[str, LogState | None]]:
        for name in self._states:
            if name in self._stale:
                self._stale.discard(name)
                self._states[name] = self._refreshed(name)
            yield name, self._states[name]

    def _refreshed(self, name: str) -> LogState | None:
        """The state of another application; None if its commits cannot be read, which its own run reports."""
        state = self._states[name]
        try:
            if state is None:
                return LogState.load(self._log.commits(name))
            try:
                state.refresh()
                state.check_same()
            except FullyRefreshedError:
                state.reload()
            return state
        except LogError:
            return None


def _unbegun(log: Log) -> frozenset[str]:
    """Applications with a rebuild that has not started: their positions are unknown."""
    if not isinstance(log, PlacedLog):
        return frozenset()
    there = log.kept.applications()
    return frozenset(name for name, each in log.places().recomputed.items() if each.place not in there)
