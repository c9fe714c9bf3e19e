"""Verification of a log."""

from __future__ import annotations

import errno
import mmap
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from zlib import crc32

from ...records.schema import changelog_topic
from ...task_id import StoreId
from ..commit.records import StoreSnapshot
from ..durable_files import pieces as pieces_of
from ..durable_files import size_and_checksum
from ..errors import (
    CommitDamagedError,
    CorruptSegmentError,
    LogError,
    OffsetRange,
    RangeMissingError,
    SavedFileError,
    SegmentError,
    UnreadableFileError,
    lost_commits_hint,
    lost_records_hint,
    refresh_of,
)
from ..log import CommitStore, Log, LogFile
from ..placed_log import PLACES, log_of_places
from ..ranges import Fetched, RangeReader
from ..segments.segment import FileRange, Segment, location_of
from ..state import LogState
from .contents import CHECKSUM_MISSING, BrokenCommit, WalkedCommits, walk


class Checksums:
    """The committed checksums of all files that these states list, to check copied files."""

    def __init__(self, states: Iterable[LogState]) -> None:
        self._segments: dict[str, list[Segment]] = {}
        self._copies: dict[str, StoreSnapshot] = {}
        for state in states:
            for segment in state.segments():
                self._segments.setdefault(segment.path, []).append(segment)
            self._copies.update((copy.path, copy) for copy in state.store_snapshots.listed)

    def fit(self, path: str, content: Path) -> bool:
        """Whether the listed bytes of the file at `content` have the committed checksums of `path`."""
        if (copy := self._copies.get(path)) is not None:
            return size_and_checksum(pieces_of(content)) == (copy.size, copy.checksum)
        with open(content, "rb") as file:
            if not file.seek(0, 2):
                return False
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
                return all(_fits(view, *part) for segment in self._segments[path] for part in _listed(segment))


def _fits(view: memoryview, start: int, length: int, checksum: int) -> bool:
    with view[start : start + length] as part:
        return len(part) == length and crc32(part) == checksum


def _listed(segment: Segment) -> Iterator[tuple[int, int, int]]:
    """Start, length and crc32 of the schema and of each batch."""
    if segment.head_checksum is not None:
        yield 0, segment.head, segment.head_checksum
    for batch in segment.batches:
        yield batch.start, batch.length, batch.checksum


# Reading the readable records of a segment.


@dataclass(frozen=True)
class Unreadable:
    """Unreadable records of a segment, at positions from `start` up to, not including, `end`.

    `records`: their committed number. `place`: their offsets. `what`: the problem with the file. `lost`: whether they
    are certainly lost. Otherwise the system reports an error for the file, which may be temporary.
    """

    segment: Segment
    start: int
    end: int
    records: int
    place: OffsetRange
    what: str
    lost: bool


def pieces(log: RangeReader, segment: Segment) -> Iterator[Fetched | Unreadable]:
    """The records of a segment in order, batch by batch, also those after unreadable ones."""
    within = segment.range()
    firsts = FileRange.from_token(within.token).firsts(within.start)
    ends = [*firsts[1:], within.end]
    position = within.start
    while position < within.end:
        try:
            for fetched in log.read(within, position):
                yield fetched
                position = fetched.end
            return
        except (SegmentError, UnreadableFileError) as error:
            failed = bisect_right(ends, position)
            last = len(ends) if _affects_file(error) else failed + 1
            yield Unreadable(
                segment=segment,
                start=position,
                end=ends[last - 1],
                records=sum(batch.rows for batch in segment.batches[failed:last]),
                place=location_of(within, position, ends[last - 1]),
                what=error.what,
                lost=not isinstance(error, UnreadableFileError) or error.errno == errno.EIO,
            )
            position = ends[last - 1]


def _affects_file(error: SegmentError | UnreadableFileError) -> bool:
    """Whether the error affects the whole file, and not only one of its batches."""
    match error:
        case RangeMissingError():
            return True
        case CorruptSegmentError():
            return error.batch is None
        case UnreadableFileError():
            return error.errno != errno.EIO
    return True


# The consequences of unreadable records, for readers of a topic or copies of a store.

NO_READERS: Mapping[str, Collection[str]] = MappingProxyType({})
"""For a log without its project."""


class Losses:
    """The consequences of unreadable records, and remedies. `states`: of applications with readable commits, by name.

    `readers`: topic -> the applications that read it in the project. `unknown`: applications with unreadable commits.
    """

    def __init__(
        self,
        states: Mapping[str, LogState],
        readers: Mapping[str, Collection[str]],
        unknown: Collection[str] = (),
    ) -> None:
        self._states = states
        self._readers = readers
        self._unknown = unknown

    def text(self, application: str, missing: Unreadable) -> str:
        """The consequences of unreadable records of this application, as a text."""
        state, topic = self._states[application], missing.segment.topic
        for store in state.topology.stores:
            if topic == changelog_topic(application, store):
                return _store_text(state, StoreId(store, missing.segment.partition), missing)
        return "; ".join(self._reader_texts(application, missing)) or "no topology reads them"

    def remedy(self, application: str, missing: Unreadable) -> str:
        """The hint for unreadable records."""
        if not missing.lost:
            return "allow this user to read the file; nothing of it is certainly lost"
        topic = missing.segment.topic
        return lost_records_hint(application, topic, topic in self._states[application].seeds)

    def _reader_texts(self, application: str, missing: Unreadable) -> Iterator[str]:
        topic = missing.segment.topic
        read = set()
        for reader, state in self._states.items():
            used = state.topology.topics.get(topic)
            if used is None or (used.writer or application) != application:
                continue
            parts = state.topology.subtopologies.values()
            if used.global_:
                read.add(reader)
                yield f"clients of {reader} that load the topic as a global table cannot do so"
            elif any(topic in part.sources for part in parts):
                read.add(reader)
                yield f"{reader} has consumed them" if _consumed(state, missing) else f"{reader} has not consumed them"
        for reader in sorted({*self._readers.get(topic, ())} - read):
            if reader in self._unknown:
                yield f"whether {reader} has consumed them is not known: its commits cannot be read"
            else:
                yield f"{reader} has not consumed them"


def _consumed(state: LogState, missing: Unreadable) -> bool:
    """Whether all tasks that read the partition have consumed the records."""
    topic, lane = missing.segment.topic, missing.segment.lane
    positions = [
        task.positions.get(topic, {}).get(lane, 0)
        for task in state.tasks.all()
        if task.partition == missing.segment.partition and topic in task.positions
    ]
    readers = sum(topic in part.sources for part in state.topology.subtopologies.values())
    return len(positions) >= readers and all(position >= missing.end for position in positions)


def _store_text(state: LogState, store: StoreId, missing: Unreadable) -> str:
    lacks = f"changes of store {store.store}, partition {store.partition}"
    lacks += ": a copy that is restored from the changelog lacks them"
    usable = max(missing.end, state.store_horizon(store))
    latest = next(iter(state.store_snapshots.of(store)), None)
    if latest is not None and latest.position >= usable:
        lacks += f", one that is restored from the snapshot at position {latest.position} has them"
    return lacks


def damage_of(log: Log, copy: StoreSnapshot) -> str:
    """The damage of a store's snapshot; empty if there is none."""
    try:
        size, checksum = size_and_checksum(log.read_file(copy.path))
    except SavedFileError as error:
        return error.cause
    if size != copy.size:
        return f"{size:,} bytes long instead of {copy.size:,}"
    return "" if checksum == copy.checksum else "its checksum is wrong"


# Verification of a whole log: commits, snapshots, records, snapshots of stores.
#
# All listed bytes are read and compared with their checksums. It needs no lock. Files that a running application
# replaces meanwhile do not count as damage.

Progress = Callable[[int, int], None]
"""Called with the number of read segments, and the number of all."""


@dataclass(frozen=True)
class Damage:
    """A damage. `what`: with the file; `lost`: the consequences; `way_out`: the remedy.

    For records: `place`: their offsets, `records`: the number of unreadable ones.
    """

    application: str
    what: str
    lost: str
    way_out: str
    path: str | None = None
    place: OffsetRange | None = None
    records: int = 0


@dataclass(frozen=True)
class VerifiedApplication:
    """The result for an application. `unlisted`: files that no commit lists, which is no damage.

    `records`: the number of readable ones, `size`: bytes of their batches.
    """

    application: str
    commits: int = 0
    snapshots: int = 0
    segments: int = 0
    records: int = 0
    size: int = 0
    store_copies: int = 0
    unlisted: tuple[LogFile, ...] = ()
    damages: tuple[Damage, ...] = ()


@dataclass
class _Read:
    """The segments that were read so far."""

    seen: set[tuple[str, str, int, int]] = field(default_factory=set)
    records: int = 0
    size: int = 0
    missing: list[Unreadable] = field(default_factory=list)


class Verification:
    """The verification of a log. `applications`: those that must exist, in addition to those in the log.

    `readers`: topic -> the applications that read it in the project, in addition to those in the log.
    """

    def __init__(
        self,
        log: Log,
        applications: Collection[str] = (),
        progress: Progress = lambda _, __: None,
        readers: Mapping[str, Collection[str]] = NO_READERS,
    ) -> None:
        self._readers = readers
        places = [PLACES] if PLACES in log_of_places(log).applications() else []
        self._log, names = _readable(log)
        self._names = sorted({*names, *applications, *places})
        self._progress = progress
        self._done = self._all = 0

    def run(self) -> tuple[VerifiedApplication, ...]:
        """Verify everything. Raises FullyRefreshedError if an application restarts meanwhile."""
        walked = {name: self._walked(name) for name in self._names}
        states = {name: found.state for name, found in walked.items() if found.state is not None}
        self._all = sum(len(state.segments()) for state in states.values())
        losses = Losses(states, self._readers, walked.keys() - states.keys())
        verified = [self._application(name, found, losses) for name, found in walked.items()]
        unknown = {name: tuple(_of_sources(state, states)) for name, state in states.items()}
        told = (replace(each, damages=(*each.damages, *unknown.get(each.application, ()))) for each in verified)
        return tuple(each for each in told if each.commits or each.damages or each.unlisted)

    def _walked(self, name: str) -> WalkedCommits:
        try:
            return walk(self._log.commits(name))
        except LogError as error:
            return WalkedCommits(0, 0, (), None, error)

    def _application(self, name: str, walked: WalkedCommits, losses: Losses) -> VerifiedApplication:
        damages = [_of_commit(self._log.commits(name), walked, broken) for broken in walked.broken]
        found = VerifiedApplication(name, walked.commits, walked.snapshots)
        if walked.state is None:
            return replace(found, damages=(*damages, *_of_all(name, walked)))
        read, copies = self._segments(walked.state), walked.state.store_snapshots.listed
        damages += [_of_records(name, missing, losses) for missing in read.missing]
        damages += [bad for copy in copies if (bad := self._copy(name, walked.state, copy)) is not None]
        return replace(
            found,
            segments=len(read.seen),
            records=read.records,
            size=read.size,
            store_copies=len(copies),
            unlisted=self._unlisted(name, walked.state),
            damages=tuple(damages),
        )

    def _segments(self, state: LogState) -> _Read:
        """Read all segments. Those that are replaced meanwhile are skipped, and their replacements are read."""
        read = _Read()
        while True:
            new = [segment for segment in state.segments() if _name(segment) not in read.seen]
            missing = [unreadable for segment in new for unreadable in self._segment(segment, read)]
            if not missing:
                return read
            state.refresh()
            listed = {_name(segment) for segment in state.segments()}
            lost = [unreadable for unreadable in missing if _name(unreadable.segment) in listed]
            read.missing += lost
            if len(lost) == len(missing):
                return read

    def _segment(self, segment: Segment, read: _Read) -> Iterator[Unreadable]:
        read.seen.add(_name(segment))
        read.size += segment.size
        for piece in pieces(self._log, segment):
            if isinstance(piece, Unreadable):
                yield piece
            else:
                read.records += len(piece)
        self._done += 1
        self._progress(self._done, max(self._done, self._all))

    def _copy(self, name: str, state: LogState, copy: StoreSnapshot) -> Damage | None:
        """The damage of a store's snapshot; None if there is none, or if it was replaced meanwhile."""
        what = damage_of(self._log, copy)
        if not what:
            return None
        state.refresh()
        if copy.path not in state.paths():
            return None
        return Damage(
            name,
            f"snapshot {copy.path} of store {copy.store}, partition {copy.partition}, cannot be used: {what}",
            "nothing: the changelog has everything, and a restore takes longer",
            "put the file back from a copy of the log, or leave it: the next snapshot of the store takes its place",
            path=copy.path,
        )

    def _unlisted(self, name: str, state: LogState) -> tuple[LogFile, ...]:
        files = list(self._log.files(name))
        state.refresh()  # after the listing: files committed meanwhile are listed
        listed = state.paths()
        return tuple(file for file in files if file.path not in listed)


def _readable(log: Log) -> tuple[Log, list[str]]:
    """The log with its applications; with its places if it cannot be known which application is in which."""
    try:
        return log, log.applications()
    except CommitDamagedError as error:
        if error.application != PLACES:
            raise
        return log_of_places(log), log_of_places(log).applications()


def _name(segment: Segment) -> tuple[str, str, int, int]:
    return segment.path, segment.topic, segment.partition, segment.base_position


def _of_commit(commits: CommitStore, walked: WalkedCommits, broken: BrokenCommit) -> Damage:
    name, place = commits.application, commits.path(broken.number, snapshot=broken.snapshot)
    what = f"{'snapshot of commit' if broken.snapshot else 'commit'} {broken.number} of {name} is {broken.what}"
    if broken.what != CHECKSUM_MISSING:  # which is in no file of its own
        what += f": {place}"
    if walked.state is not None:
        lost = "nothing: the newest snapshot says all that is needed"
        if broken.snapshot:
            lost = "nothing: the commits or another snapshot say what it said"
        elif broken.what == CHECKSUM_MISSING:
            lost = (
                "no record; but a store that was last brought forward with a commit of that time can no longer show "
                "that it belongs to this log: a run wipes it, and restores it if it has a changelog"
            )
        way_out = "put the file back from a copy of the log, or leave it: the next snapshots take its place"
        return Damage(name, what, lost, way_out, place)
    return Damage(
        name,
        what,
        "what was committed from there on",
        lost_commits_hint(name),
        place,
    )


def _of_all(name: str, walked: WalkedCommits) -> Iterator[Damage]:
    """The damage of an application with unreadable commits, unless broken commits are reported already."""
    error = walked.error
    if error is not None and not (walked.broken and isinstance(error, CommitDamagedError)):
        yield Damage(name, error.message, "all that the application has committed", error.hint or "")


def _of_sources(state: LogState, states: Mapping[str, LogState]) -> Iterator[Damage]:
    """The damage of an application that has read from commits that do not exist any more."""
    for source in states.values():
        if source is not state and not source.has_source(state.sources):
            source.refresh()  # the reader may be newer
            if source.has_source(state.sources):
                continue
            number = state.sources[source.place][0]
            there = "another commit has its place" if number <= source.number else f"it ends at {source.number}"
            yield Damage(
                state.application,
                f"{state.application} has read from commits of {source.application} up to {number}, and {there} now",
                f"records of {source.application} that {state.application} has read; a run of it raises an error",
                "put all of the log back as it was at one moment, or restart it: " + refresh_of(state.application),
            )


def _of_records(name: str, missing: Unreadable, losses: Losses) -> Damage:
    return Damage(
        application=name,
        what=missing.what,
        lost=losses.text(name, missing),
        way_out=losses.remedy(name, missing),
        path=missing.segment.path,
        place=missing.place,
        records=missing.records,
    )
