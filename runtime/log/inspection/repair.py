"""Goes on without records that cannot be read: their segments give way to others with what can be read of them.

That is one commit for each application, a `rewrite`, after which no reader asks for the lost records any more. Offsets
and positions stay taken, so nothing moves: a task that has consumed the records notices nothing, any other passes over
them. Copies of stores that are damaged are listed no more. The damaged files stay until a run finds that no commit
lists them.

Changelogs are treated alike. A store that had applied the lost changes keeps them: it has what was committed. A copy
that is restored from the changelog afterwards lacks them, and nobody can tell by looking at it. That is why each is
said, and why only a full refresh, or a snapshot of a store that has them, gives the results as they would have been.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ....errors import HeadwaterError
from ..commit.records import RewriteRecord, SnapshotRecord, StoreSnapshot
from ..errors import SegmentsChangedError
from ..log import Listed, Log, rewritten_file_name
from ..ranges import Fetched, Rewritten
from ..segments.segment import Segment
from ..state import LogState
from .verification import NO_READERS, Losses, Progress, Unreadable, damage_of, pieces


class NotLostError(HeadwaterError):
    """Records that the system refuses to read now, but that are not known to be lost: `unreadable`."""

    def __init__(self, unreadable: Unreadable) -> None:
        super().__init__(
            f"{unreadable.place}, cannot be read: {unreadable.what}",
            "let this user read the file: only missing or damaged records are dropped",
        )
        self.unreadable = unreadable


@dataclass(frozen=True)
class BrokenSegment:
    """A segment of which some records cannot be read, `missing`. `lost`: who misses them, in words."""

    segment: Segment
    missing: tuple[Unreadable, ...]
    lost: tuple[str, ...]

    @property
    def dropped(self) -> int:
        """How many records cannot be read."""
        return sum(each.records for each in self.missing)

    @property
    def kept(self) -> int:
        """How many can."""
        return self.segment.rows - self.dropped


@dataclass(frozen=True)
class Repair:
    """What is to be given up of an application."""

    application: str
    segments: tuple[BrokenSegment, ...] = ()
    copies: tuple[StoreSnapshot, ...] = ()

    @property
    def dropped(self) -> int:
        """How many records."""
        return sum(each.dropped for each in self.segments)


def plan_repair(
    log: Log,
    progress: Progress = lambda _, __: None,
    readers: Mapping[str, Collection[str]] = NO_READERS,
    applications: Collection[str] = (),
) -> tuple[Repair, ...]:
    """What has to be given up so that all that commits list can be read. Nothing is changed.

    `applications`: those to look at, besides those that the log names itself: all commits of one may have been lost.
    `readers`: topic -> the applications that read it in the project, besides those that the log knows.
    Raises LogError if commits cannot be read, and NotLostError.
    """
    states = {name: LogState.load(log.commits(name)) for name in sorted({*log.applications(), *applications})}
    losses, done, of = Losses(states, readers), 0, sum(len(state.segments()) for state in states.values())
    found = []
    for name, state in states.items():
        broken = []
        for segment in state.segments():
            missing = tuple(each for each in pieces(log, segment) if isinstance(each, Unreadable))
            if missing:
                broken.append(BrokenSegment(segment, missing, tuple(losses.told(name, each) for each in missing)))
            done += 1
            progress(done, of)
        copies = tuple(each for each in state.store_snapshots.listed if damage_of(log, each))
        found.append(Repair(name, tuple(broken), copies))
    for each in (missing for repair in found for broken in repair.segments for missing in broken.missing):
        if not each.lost:
            raise NotLostError(each)
    return tuple(each for each in found if each.segments or each.copies)


def repair(log: Log, planned: Repair) -> None:
    """Give up what was planned. No run may work on the application.

    Raises SegmentsChangedError if its records are others by now, however much they look like those that were planned
    for, CommitExistsError if somebody commits meanwhile; then nothing was changed.
    """
    state = LogState.load(log.commits(planned.application))
    _check_listed(state, planned)
    at = time.time_ns() // 1_000_000
    if planned.segments:
        written = tuple(listed for each in planned.segments for listed in _rewritten(log, state, each.segment))
        state.commit(RewriteRecord(state.generation, at, written, state.incarnation))
    removed = tuple(each.path for each in planned.copies if each in state.store_snapshots.listed)
    if removed:
        state.commit(SnapshotRecord(state.generation, at, (), removed, state.incarnation))


def _check_listed(state: LogState, planned: Repair) -> None:
    """Check that nothing has taken the place of what was planned for: a topic that was seeded again has other records
    at the same offsets. Raises SegmentsChangedError.
    """
    listed = set(state.segments())
    for each in (broken.segment for broken in planned.segments):
        if each not in listed:
            raise SegmentsChangedError(each.topic, each.partition, each.base_offset, each.end_offset)


def _rewritten(log: Log, state: LogState, segment: Segment) -> Iterable[Listed]:
    readable = [found for found in pieces(log, segment) if isinstance(found, Fetched)]
    part = Rewritten(
        partition=segment.partition,
        lane=segment.lane,
        start=segment.base_position,
        end=segment.end_position,
        start_offset=segment.base_offset,
        end_offset=segment.end_offset,
        records=pa.Table.from_batches([each.records for each in readable]) if readable else pa.table({}),
        positions=np.concatenate([each.positions for each in readable]) if readable else np.empty(0, np.int64),
        offsets=np.concatenate([each.offsets for each in readable]) if readable else np.empty(0, np.int64),
    )
    name = rewritten_file_name(state.incarnation, state.generation, f"r{uuid.uuid4().hex[:12]}")
    written = log.write_rewritten(state.application, segment.topic, name, [part])
    return [replace(each, deletions=segment.deletions) for each in written]
