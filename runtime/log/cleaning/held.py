"""The lanes of an application for cleaning, and records that cleaning keeps for readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...records.window_keys import first_kept_key
from ...task_id import TaskKey
from ...timed_parts import wall_ms
from ..commit.encoding import decode_commit
from ..errors import CommitFormatError, LogError
from ..log import Log
from ..segments.segment import Segment
from ..state import LogState
from .compaction import LIMITS, Limits
from .deletions import MERGE_ONLY, Policy
from .jobs import Lane, held
from .readers import DeclaredReaders, Readers


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
