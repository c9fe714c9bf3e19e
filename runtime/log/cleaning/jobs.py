"""Jobs of a cleaning: the due work for a lane, from its segments, its topic's policy and its readers' positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, takewhile

from ....errors import HeadwaterError
from ..errors import LogError, SegmentError
from ..segments.segment import Deletions, Segment
from .compaction import LIMITS, Group, Limits, merges, packed
from .deletions import LaneDeletions, Policy

KEYED = 4
"""One compaction reads the keys of this many full segments; their last positions are in memory."""

PARTS_OF_RETENTION = 8
"""Segments are merged only if they expire within 1/8 of the retention: merged records expire with the newest one."""


@dataclass(frozen=True)
class Lane:
    """One lane, with its segments in order.

    `readers`: application -> the position up to which it has consumed the lane; `consumed`: the least of them, None
    without readers. `newest`: the greatest timestamp of the partition, ms. `expired_below`: smaller keys of a window
    store have expired. `pinned`: expired records may not be dropped yet. `applied`: the position of a changelog up to
    which its store has certainly applied it. `now`: the time, ms.
    """

    topic: str
    partition: int
    lane: int
    segments: tuple[Segment, ...]
    consumed: int | None = None
    newest: int = -1
    expired_below: bytes = b""
    pinned: bool = False
    readers: Mapping[str, int] = field(default_factory=dict)
    applied: int = 0
    now: int = 0

    def read(self, segment: Segment) -> bool:
        """Whether all readers have consumed a segment."""
        return self.consumed is None or segment.end_position <= self.consumed


@dataclass(frozen=True)
class Job:
    """Work on a lane. `groups`: each group of segments becomes one.

    `keyed`: segments of which only the last record of each key stays, and no earlier record of these keys; empty if all
    stay. `key`: the key columns. `expired_below`: records with smaller keys are dropped. `oldest`: records with smaller
    timestamps are dropped. `emptied`: all records are dropped. `clean`: the groups become a clean beginning of the
    lane. `forgets`: deletions before this position are dropped. `deletions`: the marks of the lane's first segment
    afterwards, for the clean beginning of a changelog.
    """

    lane: Lane
    groups: tuple[Group, ...]
    keyed: tuple[Segment, ...] = ()
    key: tuple[str, ...] = ()
    expired_below: bytes = b""
    oldest: int | None = None
    emptied: bool = False
    clean: bool = False
    forgets: int = 0
    deletions: Deletions | None = None

    @property
    def size(self) -> int:
        """The number of bytes to read."""
        return 0 if self.emptied else sum(segment.size for group in self.groups for segment in group)


def jobs(lane: Lane, policy: Policy, limits: Limits = LIMITS) -> Iterator[Job]:
    """The due jobs of a lane. No segment is in two jobs."""
    oldest = None if policy.retention_ms is None or lane.pinned else lane.newest - policy.retention_ms
    gone = _expired(lane, oldest)
    if len(gone) > 1 or any(segment.rows for segment in gone):
        yield Job(lane, (gone,), emptied=True)
    rest = lane.segments[len(gone) :]
    if policy.key or policy.windows:
        yield from _compactions(lane, rest, policy, oldest, limits)
    elif policy.consumed:
        # Consumed segments are removed as a whole soon: see `RepartitionPurge`.
        yield from _merges(lane, [segment for segment in rest if not _consumed(lane, segment)], policy, limits)
    else:
        yield from _merges(lane, rest, policy, limits)


def held(lane: Lane, policy: Policy, limits: Limits = LIMITS) -> Mapping[str, int]:
    """Reader -> the number of records that would have expired or be compacted, if it had consumed them."""
    waiting: Sequence[Segment] = ()
    if policy.retention_ms is not None and not lane.pinned:
        oldest = lane.newest - policy.retention_ms
        waiting = list(takewhile(lambda segment: _newest(segment) < oldest, lane.segments))
    if policy.key and not waiting:
        clean = [segment for segment in lane.segments if segment.clean]
        dirty = [segment for segment in lane.segments if not segment.clean]
        waiting = dirty if _worth_compacting(dirty, clean, limits) else ()
    counts = {
        reader: sum(segment.rows for segment in waiting if segment.end_position > position)
        for reader, position in lane.readers.items()
    }
    return {reader: records for reader, records in counts.items() if records}


def _worth_compacting(dirty: Sequence[Segment], clean: Sequence[Segment], limits: Limits) -> bool:
    return len(dirty) >= limits.fan_out and sum(part.size for part in dirty) >= sum(part.size for part in clean)


def _consumed(lane: Lane, segment: Segment) -> bool:
    return lane.consumed is not None and segment.end_position <= lane.consumed


def _expired(lane: Lane, oldest: int | None) -> Group:
    """The segments at the beginning of a lane with only expired and consumed records."""
    if oldest is None:
        return ()
    count = 0
    for segment in lane.segments:
        if not lane.read(segment) or _newest(segment) >= oldest:
            break
        count += 1
    return lane.segments[:count]


def _newest(segment: Segment) -> int:
    """The greatest timestamp of a segment's records; the least integer without records."""
    return max((batch.max_timestamp for batch in segment.batches), default=-(2**63))


def _compactions(
    lane: Lane, segments: Sequence[Segment], policy: Policy, oldest: int | None, limits: Limits
) -> Iterator[Job]:
    """Merges; with a key, the compaction of the lane once its new segments are as large as its clean ones.

    Before that, keys are compacted only within merged segments.
    """
    count = next((number for number, segment in enumerate(segments) if not segment.clean), len(segments))
    clean = segments[:count]
    dirty = [segment for segment in segments[count:] if lane.read(segment)]
    unread = segments[count + len(dirty) :]
    deletions = _deletions(lane, clean, policy)
    if policy.key and _worth_compacting(dirty, clean, limits):
        some = next(packed(dirty, replace(limits, size=KEYED * limits.size, rows=KEYED * limits.rows)))
        groups = tuple(packed([*clean, *some], limits))
        job = Job(lane, groups, some, policy.key, lane.expired_below, oldest, clean=True)
        if deletions is not None:
            forgets = deletions.due
            job = replace(job, forgets=forgets, deletions=deletions.after(some[-1].end_position, forgets))
        yield job
    else:
        for group in merges(dirty, limits):
            keyed = group if policy.key else ()
            yield Job(lane, (group,), keyed, policy.key, lane.expired_below, oldest)
        forgetting = None if deletions is None else _without_deletions(lane, clean, deletions)
        if forgetting is not None:
            yield forgetting
        else:
            said = None if deletions is None else deletions.said
            for group in merges(clean, limits):
                below = lane.expired_below
                yield Job(lane, (group,), (), (), below, oldest, clean=bool(policy.key), deletions=said)
    for group in merges(unread, limits):
        yield Job(lane, (group,))


def _deletions(lane: Lane, clean: Sequence[Segment], policy: Policy) -> LaneDeletions | None:
    """The deletions of a changelog; None if they stay, or if the beginning of the changelog is missing."""
    if policy.deletions is None or not lane.segments or lane.segments[0].base_position:
        return None
    return LaneDeletions(lane.segments[0].deletions, clean, policy.deletions.ms, lane.applied, lane.now)


def _without_deletions(lane: Lane, clean: Sequence[Segment], deletions: LaneDeletions) -> Job | None:
    """The job that drops due deletions, or notes new ones, if nothing else is due for them."""
    worth = deletions.worth_dropping
    if not worth and not deletions.unnoted:
        return None
    forgets = deletions.due if worth else 0
    after = deletions.after(clean[-1].end_position, forgets)
    groups = tuple((segment,) for segment in dict.fromkeys([clean[0], *worth]))  # the first one has the marks
    return Job(lane, groups, clean=True, forgets=forgets, deletions=after)


def _merges(lane: Lane, segments: Sequence[Segment], policy: Policy, limits: Limits) -> Iterator[Job]:
    for run in _expiring_together(segments, policy):
        yield from (Job(lane, (group,)) for group in merges(run, limits))


def _expiring_together(segments: Sequence[Segment], policy: Policy) -> Iterator[Group]:
    """Adjacent segments that expire at about the same time.

    Earlier ones expire first, so the greatest timestamp up to a segment counts. With a length of 10 and the newest
    timestamps [3, 12, 8, 25], these are [3, 12, 12, 25]: the groups are [3], [12, 8], [25].
    """
    if policy.retention_ms is None:
        yield tuple(segments)
        return
    length = max(1, policy.retention_ms // PARTS_OF_RETENTION)
    until = accumulate(map(_newest, segments), max)
    for _, group in groupby(zip(segments, until, strict=True), lambda entry: entry[1] // length):
        yield tuple(segment for segment, _ in group)


# Segments that cannot be cleaned. They are skipped for a while, and do not stop others.

RETRY_SECONDS = 600.0
"""Failed segments are tried again after this time, as a file may have been put back. Until then they are skipped."""

SegmentKey = tuple[str, str, int, int, int]


class LaneFailedError(LogError):
    """A lane of a topic cannot be cleaned, because of an unexpected error."""

    def __init__(self, lane: Lane, cause: Exception) -> None:
        super().__init__(
            f"{lane.topic}, partition {lane.partition}, lane {lane.lane}, cannot be cleaned: "
            f"{type(cause).__name__}: {cause}"
        )


class Failures:
    """Segments of failed jobs. `seconds`: a monotonic clock."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._failed: dict[SegmentKey, tuple[float, HeadwaterError]] = {}

    def begin(self) -> None:
        """Start a round: forget failures that are old enough to try again."""
        now = self._seconds()
        self._failed = {key: failure for key, failure in self._failed.items() if failure[0] > now}

    def error_of(self, job: Job) -> HeadwaterError | None:
        """The error for which to skip a job; None if it may be tried."""
        return next((self._failed[key][1] for key in _segment_keys(job) if key in self._failed), None)

    def add(self, job: Job, error: HeadwaterError) -> None:
        """Note a failed job. If the failing file is unknown, all of its segments are skipped."""
        retry = self._seconds() + RETRY_SECONDS
        path = error.path if isinstance(error, SegmentError) else None
        self._failed.update({key: (retry, error) for key in _segment_keys(job) if path in (None, key[0])})


def _segment_keys(job: Job) -> Iterator[SegmentKey]:
    groups: Iterable[Iterable[Segment]] = (job.keyed, *job.groups)
    for segment in (segment for group in groups for segment in group):
        yield segment.path, segment.topic, segment.partition, segment.lane, segment.base_position
