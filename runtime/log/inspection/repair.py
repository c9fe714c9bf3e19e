"""Repair: drops unreadable records, by rewriting their segments with the readable ones.

That is one `rewrite` commit for each application, after which no reader requests the lost records any more. Offsets and
positions stay: a task that has consumed the records notices nothing, any other skips them. Damaged snapshots of stores
are not listed any more. The damaged files stay until a run finds that no commit lists them.

Changelogs are treated the same. A store that had applied the lost changes keeps them: it has the committed content. A
copy that is restored from the changelog later lacks them, without any sign. So each loss is reported, and only a full
refresh, or a snapshot of a store with the changes, gives the correct results.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from ....errors import HeadwaterError
from ...timed_parts import wall_ms
from ..cleaning.compaction import NO_COLUMNS, part_of
from ..commit.records import RewriteRecord, SnapshotRecord, StoreSnapshot
from ..errors import SegmentsChangedError
from ..log import Listed, Log, rewritten_file_name
from ..ranges import Fetched
from ..segments.segment import Segment
from ..state import LogState
from .verification import NO_READERS, Losses, Progress, Unreadable, damage_of, pieces


class NotLostError(HeadwaterError):
    """Records that the system cannot read now, but that are not certainly lost."""

    def __init__(self, unreadable: Unreadable) -> None:
        super().__init__(
            f"{unreadable.place}, cannot be read: {unreadable.what}",
            "allow this user to read the file: only missing or damaged records are dropped",
        )


@dataclass(frozen=True)
class BrokenSegment:
    """A segment with unreadable records, `missing`. `lost`: the consequences, as texts."""

    segment: Segment
    missing: tuple[Unreadable, ...]
    lost: tuple[str, ...]

    @property
    def dropped(self) -> int:
        """The number of unreadable records."""
        return sum(part.records for part in self.missing)

    @property
    def kept(self) -> int:
        """The number of readable records."""
        return self.segment.rows - self.dropped


@dataclass(frozen=True)
class Repair:
    """A planned repair of an application: segments with unreadable records, damaged snapshots of stores."""

    application: str
    segments: tuple[BrokenSegment, ...] = ()
    copies: tuple[StoreSnapshot, ...] = ()

    @property
    def dropped(self) -> int:
        """The number of dropped records."""
        return sum(segment.dropped for segment in self.segments)


def plan_repair(
    log: Log,
    progress: Progress = lambda _, __: None,
    readers: Mapping[str, Collection[str]] = NO_READERS,
    applications: Collection[str] = (),
) -> tuple[Repair, ...]:
    """The repairs after which all listed records can be read. Nothing is changed.

    `applications`: further applications: all commits of one may have been lost. `readers`: topic -> the applications
    that read it in the project, in addition to those of the log. Raises LogError if commits cannot be read, and
    NotLostError.
    """
    states = {name: LogState.load(log.commits(name)) for name in sorted({*log.applications(), *applications})}
    losses, done, of = Losses(states, readers), 0, sum(len(state.segments()) for state in states.values())
    repairs = []
    for name, state in states.items():
        broken = []
        for segment in state.segments():
            missing = tuple(piece for piece in pieces(log, segment) if isinstance(piece, Unreadable))
            if missing:
                broken.append(BrokenSegment(segment, missing, tuple(losses.text(name, part) for part in missing)))
            done += 1
            progress(done, of)
        copies = tuple(copy for copy in state.store_snapshots.listed if damage_of(log, copy))
        repairs.append(Repair(name, tuple(broken), copies))
    for unreadable in (part for planned in repairs for segment in planned.segments for part in segment.missing):
        if not unreadable.lost:
            raise NotLostError(unreadable)
    return tuple(planned for planned in repairs if planned.segments or planned.copies)


def repair(log: Log, planned: Repair) -> None:
    """Commit a planned repair. The application must not be running.

    Raises SegmentsChangedError if its records have changed since, CommitExistsError for a concurrent commit; nothing
    was changed then.
    """
    state = LogState.load(log.commits(planned.application))
    _check_listed(state, planned)
    at = wall_ms()
    if planned.segments:
        written = tuple(listed for broken in planned.segments for listed in _rewritten(log, state, broken.segment))
        state.commit(RewriteRecord(state.generation, at, written, state.incarnation))
    removed = tuple(copy.path for copy in planned.copies if copy in state.store_snapshots.listed)
    if removed:
        state.commit(SnapshotRecord(state.generation, at, (), removed, state.incarnation))


def _check_listed(state: LogState, planned: Repair) -> None:
    """Check that the segments are still listed: a topic that was seeded again has other records at the same offsets.

    Raises SegmentsChangedError.
    """
    listed = set(state.segments())
    for segment in (broken.segment for broken in planned.segments):
        if segment not in listed:
            raise SegmentsChangedError(segment.topic, segment.partition, segment.base_offset, segment.end_offset)


def _rewritten(log: Log, state: LogState, segment: Segment) -> Iterable[Listed]:
    readable = [piece for piece in pieces(log, segment) if isinstance(piece, Fetched)]
    part = part_of([(segment, readable)], readable[0].records.schema if readable else NO_COLUMNS)
    name = rewritten_file_name(state.incarnation, state.generation, f"r{uuid.uuid4().hex[:12]}")
    written = log.write_rewritten(state.application, segment.topic, name, [part.rewritten])
    return [replace(listed, deletions=segment.deletions) for listed in written]
