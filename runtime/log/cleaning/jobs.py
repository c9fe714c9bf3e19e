"""Jobs of a cleaning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, takewhile

from ....errors import HeadwaterError
from ..errors import LogError, SegmentError
from ..segments.segment import Deletions, Segment
from .compaction import LIMITS, Group, Limits, merges, packed
from .deletions import LaneDeletions, Policy

# What is to be done to a lane: follows from its segments, its topic's policy and how far its readers are.

KEYED = 4
"""So many times what a merged segment holds is looked through for keys at once: their last positions are in memory."""

PARTS_OF_RETENTION = 8
"""Segments are merged only if they expire within this part of the retention: what is merged expires with its newest."""


@dataclass(frozen=True)
class Lane:
    """One lane as it is: its segments, in order. `consumed`: the position up to which all its readers have consumed
    it, `readers`: up to which each has, by application; None: nobody reads it. `newest`: the greatest timestamp of its
    partition, ms. `expired_below`: keys of a window store that are less have expired. `pinned`: what has expired may
    not go yet. `applied`: of a changelog, the position up to which its store is known to have applied it. `now`: the
    time, ms.
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
        """Whether no reader still has to read it."""
        return self.consumed is None or segment.end_position <= self.consumed


@dataclass(frozen=True)
class Job:
    """Work on a lane. `groups`: segments of which each group becomes one. `keyed`: of each key that occurs in these,
    only the last of their records stays, and none before them; empty: all stay. `key`: the columns of the key.
    `expired_below`: records with a key that is less go. `oldest`: those with a timestamp that is less go. `emptied`:
    all records go. `clean`: the groups become a clean beginning of the lane. `forgets`: deletions before this position
    go. `deletions`: of the clean beginning of a changelog, what the lane's first segment says of them afterwards.
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
        """How many bytes are read."""
        return 0 if self.emptied else sum(each.size for group in self.groups for each in group)


def jobs(lane: Lane, policy: Policy, limits: Limits = LIMITS) -> Iterator[Job]:
    """What is to be done to a lane now. No segment is in two jobs."""
    oldest = None if policy.retention_ms is None or lane.pinned else lane.newest - policy.retention_ms
    gone = _expired(lane, oldest)
    if len(gone) > 1 or any(segment.rows for segment in gone):
        yield Job(lane, (gone,), emptied=True)
    rest = lane.segments[len(gone) :]
    if policy.key or policy.windows:
        yield from _compactions(lane, rest, policy, oldest, limits)
    elif policy.consumed:
        # Those that are read go as a whole, and soon: see `RepartitionPurge`.
        yield from _merges(lane, [segment for segment in rest if not _consumed(lane, segment)], policy, limits)
    else:
        yield from _merges(lane, rest, policy, limits)


def held(lane: Lane, policy: Policy, limits: Limits = LIMITS) -> Mapping[str, int]:
    """How many records would have expired or be compacted now, had not each of these readers still to consume them."""
    waiting: Sequence[Segment] = ()
    if policy.retention_ms is not None and not lane.pinned:
        oldest = lane.newest - policy.retention_ms
        waiting = list(takewhile(lambda segment: _newest(segment) < oldest, lane.segments))
    if policy.key and not waiting:
        clean = [segment for segment in lane.segments if segment.clean]
        dirty = [segment for segment in lane.segments if not segment.clean]
        waiting = dirty if _worth_compacting(dirty, clean, limits) else ()
    found = {
        reader: sum(segment.rows for segment in waiting if segment.end_position > position)
        for reader, position in lane.readers.items()
    }
    return {reader: records for reader, records in found.items() if records}


def _worth_compacting(dirty: Sequence[Segment], clean: Sequence[Segment], limits: Limits) -> bool:
    return len(dirty) >= limits.fan_out and sum(each.size for each in dirty) >= sum(each.size for each in clean)


def _consumed(lane: Lane, segment: Segment) -> bool:
    return lane.consumed is not None and segment.end_position <= lane.consumed


def _expired(lane: Lane, oldest: int | None) -> Group:
    """The segments at the beginning of a lane of which all records have expired, and are read."""
    if oldest is None:
        return ()
    count = 0
    for segment in lane.segments:
        if not lane.read(segment) or _newest(segment) >= oldest:
            break
        count += 1
    return lane.segments[:count]


def _newest(segment: Segment) -> int:
    """The greatest timestamp of a segment's records, less than any if it has none."""
    return max((batch.max_timestamp for batch in segment.batches), default=-(2**63))


def _compactions(
    lane: Lane, segments: Sequence[Segment], policy: Policy, oldest: int | None, limits: Limits
) -> Iterator[Job]:
    """Without a key only merge; with one, compact the lane once what came since the last time is as much as what was
    left then. Before that, only the segments that are merged.
    """
    count = next((at for at, segment in enumerate(segments) if not segment.clean), len(segments))
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
    """What is known of the deletions of a changelog; None where they stay, or where it has lost its beginning."""
    if policy.deletions is None or not lane.segments or lane.segments[0].base_position:
        return None
    return LaneDeletions(lane.segments[0].deletions, clean, policy.deletions.ms, lane.applied, lane.now)


def _without_deletions(lane: Lane, clean: Sequence[Segment], deletions: LaneDeletions) -> Job | None:
    """Drop the deletions whose time has come, or note those that are there, where nothing else is to be done."""
    worth = deletions.worth_dropping
    if not worth and not deletions.unnoted:
        return None
    forgets = deletions.due if worth else 0
    after = deletions.after(clean[-1].end_position, forgets)
    groups = tuple((each,) for each in dict.fromkeys([clean[0], *worth]))  # the first one says what is gone
    return Job(lane, groups, clean=True, forgets=forgets, deletions=after)


def _merges(lane: Lane, segments: Sequence[Segment], policy: Policy, limits: Limits) -> Iterator[Job]:
    for run in _alike(segments, policy):
        yield from (Job(lane, (group,)) for group in merges(run, limits))


def _alike(segments: Sequence[Segment], policy: Policy) -> Iterator[Group]:
    """Neighbours that expire at about the same time: those before them go first, so the greatest timestamp counts."""
    if policy.retention_ms is None:
        yield tuple(segments)
        return
    length = max(1, policy.retention_ms // PARTS_OF_RETENTION)
    until = accumulate(map(_newest, segments), max)
    for _, found in groupby(zip(segments, until, strict=True), lambda each: each[1] // length):
        yield tuple(segment for segment, _ in found)


# Segments that cannot be cleaned. They are left alone for a while, and hold nothing else up.

RETRY_SECONDS = 600.0
"""What has failed is tried again after that: a file may have been put back. Before, only without its segments."""

Place = tuple[str, str, int, int, int]


class LaneFailedError(LogError):
    """A lane of a topic cannot be cleaned, for a reason that nobody has thought of: `topic`, `partition`, `lane`."""

    def __init__(self, lane: Lane, cause: Exception) -> None:
        super().__init__(
            f"{lane.topic}, partition {lane.partition}, lane {lane.lane}, cannot be cleaned: "
            f"{type(cause).__name__}: {cause}"
        )
        self.topic = lane.topic
        self.partition = lane.partition
        self.lane = lane.lane


class Failures:
    """Which segments have made jobs fail. `seconds`: a clock that never goes back."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._failed: dict[Place, tuple[float, HeadwaterError]] = {}

    def begin(self) -> None:
        """A round begins: forget what is to be tried again."""
        now = self._seconds()
        self._failed = {place: each for place, each in self._failed.items() if each[0] > now}

    def of(self, job: Job) -> HeadwaterError | None:
        """Why a job is to be left alone; None if it may be tried."""
        return next((self._failed[place][1] for place in _places(job) if place in self._failed), None)

    def add(self, job: Job, error: HeadwaterError) -> None:
        """A job has failed. If nobody knows because of which file, all of its segments are left alone."""
        retry = self._seconds() + RETRY_SECONDS
        path = error.path if isinstance(error, SegmentError) else None
        self._failed.update({place: (retry, error) for place in _places(job) if path in (None, place[0])})


def _places(job: Job) -> Iterator[Place]:
    groups: Iterable[Iterable[Segment]] = (job.keyed, *job.groups)
    for segment in (each for group in groups for each in group):
        yield segment.path, segment.topic, segment.partition, segment.lane, segment.base_position
