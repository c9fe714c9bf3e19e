"""How far the readers of a topic are: all applications of the log whose topology reads it, running or not.

A topology counts, too, that the project has and that has not committed yet that it reads the topic: it is new, was not
selected so far, has another input than before, or was just fully refreshed. It begins at the first record.
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
"""The application that writes a topic, and the topic -> the applications that read it in the project."""


def declared_readers(topologies: Iterable[Topology]) -> DeclaredReaders:
    """Topologies themselves, and the readers that their topics name (`Topic.readers`)."""
    found: dict[tuple[str, str], set[str]] = {}
    for topology in topologies:
        for part in topology.subtopologies:
            for topic in (*part.read, *part.sinks):
                own = (topology.application,) if topic in part.read else ()
                writer = topic.writer or f"{topology.project}-seed"
                found.setdefault((writer, topic.name), set()).update(own, topic.readers)
    return found


class Readers:
    """Used by one thread at a time. It keeps the states of other applications, and brings them forward."""

    def __init__(self, log: Log, declared: DeclaredReaders) -> None:
        self._log = log
        self._declared = declared
        self._states: dict[str, LogState | None] = {}
        self._stale: set[str] = set()
        self._writer = ""
        self._unbegun: frozenset[str] = frozenset()
        self._former: frozenset[str] = frozenset()

    def refresh(self, writer: LogState) -> None:
        """Look at what is committed now. `writer`: the application whose topics are asked for."""
        names = self._log.applications()
        self._states = {name: self._states.get(name) for name in names}
        self._states[writer.application] = writer
        self._writer, self._former = writer.application, writer.former
        self._unbegun = _unbegun(self._log)
        self._stale = {name for name in names if name != writer.application}

    def positions(self, topic: str, partition: int, lane: int) -> dict[str, int]:
        """The position up to which each reader has consumed a lane, by application."""
        found: dict[str, int] = {}
        for name, position in self._positions(topic, partition, lane):
            found[name] = min(position, found.get(name, position))
        return found

    def is_global(self, topic: str) -> bool:
        """Whether a global table holds the topic: each client loads all of it when it starts."""
        return any(
            state is not None and self._uses(state, topic) and state.topology.topics[topic].global_
            for _, state in self._current()
        )

    def _positions(self, topic: str, partition: int, lane: int) -> Iterator[tuple[str, int]]:
        new = set(self._declared.get((self._writer, topic), ()))
        for application, state in self._current():
            if state is None:
                yield application, 0  # nobody knows what it has read
                continue
            if not self._uses(state, topic):
                continue
            if application not in self._unbegun:
                new.discard(application)
            else:
                yield application, 0  # its result is computed again, from the first record on
            if self._was_moved(state, topic):
                yield application, 0  # it begins again with them as they lie now
                continue
            for name, part in state.topology.subtopologies.items():
                if topic in part.sources and partition < part.partitions:
                    positions = state.tasks.last_commit(TaskKey(state.application, name, partition)).positions
                    yield application, positions.get(topic, {}).get(lane, 0)
        for application in new:
            yield application, 0

    def _was_moved(self, state: LogState, topic: str) -> bool:
        """Whether the records were put into other partitions since an application has read them."""
        writer = self._states[self._writer]
        fed = None if writer is None else writer.topics.get(topic)
        return fed is not None and fed.was_moved(state.topology.topics[topic].since)

    def _uses(self, state: LogState, topic: str) -> bool:
        """Whether an application uses this writer's topic, and not one of the same name in another project."""
        used = state.topology.topics.get(topic)
        if used is None:
            return False
        fed = self._writer.removesuffix("seed") if self._writer.endswith("-seed") else None
        # Or as the writer was called when the reader was started last.
        return (
            used.writer == self._writer
            or used.writer in self._former
            or (used.writer is None and fed is not None and state.application.startswith(fed))
        )

    def _current(self) -> Iterator[tuple[str, LogState | None]]:
        for name in self._states:
            if name in self._stale:
                self._stale.discard(name)
                self._states[name] = self._refreshed(name)
            yield name, self._states[name]

    def _refreshed(self, name: str) -> LogState | None:
        """The state of another application; None if its commits cannot be read, which its own run tells."""
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
    """The applications whose results are to be computed again, and are not yet: nothing says what they have read."""
    if not isinstance(log, PlacedLog):
        return frozenset()
    there = log.kept.applications()
    return frozenset(name for name, each in log.places().recomputed.items() if each.place not in there)
