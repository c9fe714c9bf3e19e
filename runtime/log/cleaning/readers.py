"""Positions of a topic's readers, the lanes to clean with them, and records that stay for them.

Readers are all applications of the log that read a topic, running or not. A topology of the project that has not
committed yet that it reads the topic counts too: it is new, was not selected so far, has a new source, or was just
fully refreshed. It starts at the first record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...ir.topology import Topology
from ...records.window_keys import first_kept_key
from ...task_id import TaskKey
from ...timed_parts import wall_ms
from ..commit.encoding import decode_commit
from ..errors import CommitFormatError, LogError
from ..log import Log
from ..placed_log import PlacedLog
from ..segments.segment import Segment
from ..state import LogState
from .compaction import LIMITS, Limits
from .deletions import MERGE_ONLY, Policy
from .jobs import Lane, held

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
            state.refresh_or_reload()
            return state
        except LogError:
            return None


def _unbegun(log: Log) -> frozenset[str]:
    """Applications with a rebuild that has not started: their positions are unknown."""
    if not isinstance(log, PlacedLog):
        return frozenset()
    there = log.kept.applications()
    return frozenset(name for name, each in log.places().recomputed.items() if each.place not in there)


# The lanes of an application for cleaning.


class Lanes:
    """The committed lanes of an application, with what their cleaning depends on. Used by one thread at a time.

    `now`: returns the time, ms.
    """

    def __init__(
        self, log: Log, policies: Mapping[str, Policy], readers: DeclaredReaders, now: Callable[[], int] = wall_ms
    ) -> None:
        self._policies = policies
        self._now = now
        self._readers = Readers(log, readers)

    def all(self, state: LogState) -> Iterator[tuple[Lane, Policy]]:
        """The lanes with segments, topic by topic, with the policies of their topics."""
        # Readers first: the records that they have consumed by now were committed before.
        self._readers.refresh(state)
        by_topic: dict[str, list[Segment]] = {}
        for segment in state.segments():
            by_topic.setdefault(segment.topic, []).append(segment)
        for topic, segments in sorted(by_topic.items()):
            policy = self._policies.get(topic, MERGE_ONLY)
            for lane in self._of_topic(state, topic, segments, policy):
                yield lane, policy

    def _of_topic(self, state: LogState, topic: str, segments: Sequence[Segment], policy: Policy) -> Iterator[Lane]:
        lanes: dict[tuple[int, int], list[Segment]] = {}
        newest: dict[int, int] = {}
        for segment in segments:
            lanes.setdefault((segment.partition, segment.lane), []).append(segment)
            latest = max((batch.max_timestamp for batch in segment.batches), default=-1)
            newest[segment.partition] = max(newest.get(segment.partition, -1), latest)
        has_readers = not policy.changelog and (policy.key or policy.retention_ms is not None or policy.consumed)
        for (partition, lane), own in sorted(lanes.items()):
            readers = self._readers.positions(topic, partition, lane) if has_readers else {}
            yield Lane(
                topic,
                partition,
                lane,
                tuple(own),
                consumed=min(readers.values(), default=None),
                readers=readers,
                newest=newest[partition],
                expired_below=_expired_below(state, partition, policy),
                pinned=policy.retention_ms is not None and self._readers.is_global(topic),
                applied=_applied(state, partition, policy),
                now=self._now(),
            )


def _applied(state: LogState, partition: int, policy: Policy) -> int:
    kept = policy.deletions
    if kept is None:
        return 0
    return state.tasks.last_commit(TaskKey(state.application, kept.subtopology, partition)).applied.get(kept.store, 0)


def _expired_below(state: LogState, partition: int, policy: Policy) -> bytes:
    windows = policy.windows
    if windows is None:
        return b""
    task = TaskKey(state.application, windows.subtopology, partition)
    clock = state.tasks.last_commit(task).clocks.get(windows.store, -1)
    return first_kept_key(clock, windows.kept_ms, windows.step_ms) if clock >= 0 else b""


# Records that stay in the log only because a reader has not consumed them yet.


@dataclass(frozen=True)
class HeldBack:
    """Records of a topic that would have expired or be compacted, if the application `reader` had consumed them."""

    topic: str
    reader: str
    records: int


class Waiting:
    """Sums up, lane by lane, the records that stay for readers."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._records: dict[tuple[str, str], int] = {}

    def add(self, lane: Lane, policy: Policy) -> None:
        """Add a lane."""
        for reader, records in held(lane, policy, self._limits).items():
            self._records[lane.topic, reader] = self._records.get((lane.topic, reader), 0) + records

    def held(self) -> tuple[HeldBack, ...]:
        """The sums, by topic and reader."""
        return tuple(HeldBack(*key, records) for key, records in sorted(self._records.items()))


def held_back(
    log: Log, state: LogState, policies: Mapping[str, Policy], readers: DeclaredReaders
) -> tuple[HeldBack, ...]:
    """The records of an application's topics that stay for readers. Reads only commits. Raises LogError."""
    waiting = Waiting()
    for lane, policy in Lanes(log, policies, readers).all(state):
        waiting.add(lane, policy)
    return waiting.held()


def last_commit_at(log: Log, application: str) -> int | None:
    """The time of an application's last commit, ms since 1970; None without one, or if it cannot be read."""
    try:
        commits = log.commits(application)
        last = commits.read(number) if (number := commits.latest()) else None
        return None if last is None else decode_commit(last).at
    except (LogError, CommitFormatError):
        return None
