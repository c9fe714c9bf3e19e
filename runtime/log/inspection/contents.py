"""The contents of a log, and the check of its commits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from zlib import crc32

from ...records.schema import changelog_topic
from ..cleaning.deletions import Policy
from ..cleaning.readers import DeclaredReaders, HeldBack, held_back
from ..commit.encoding import decode_commit
from ..commit.records import CommitRecord
from ..errors import CommitFormatError, LogError
from ..log import CommitStore, Log
from ..places import origin_of
from ..segments.segment import Segment
from ..state import MISSING, LogState
from ..state_parts.folded import FoldedCommits
from ..state_parts.parts import Snapshot

# The topics of each application, with partitions, records, offsets, files and sizes.
#
# Only commits are read: no directory is listed and no segment is opened. So the time depends on the number of segments
# alone. It needs no lock, and works while applications run.

NO_POLICIES: Mapping[str, Policy] = MappingProxyType({})
NO_READERS: DeclaredReaders = MappingProxyType({})
"""For a log without its project."""


@dataclass(frozen=True)
class PartitionContents:
    """One partition of a topic. `start`, `end`: bounds of its offsets; the end is exclusive.

    `size`: bytes. `oldest`, `newest`: bounds of the timestamps, ms; None without records.
    """

    partition: int
    records: int = 0
    start: int = 0
    end: int = 0
    segments: int = 0
    size: int = 0
    oldest: int | None = None
    newest: int | None = None


@dataclass(frozen=True)
class TopicContents:
    """A topic or changelog. `files`: the number of its files. `size`: their bytes, as far as commits list them.

    Several partitions may share a file, so the schema counts for the topic and for none of its partitions.
    """

    topic: str
    partitions: tuple[PartitionContents, ...]
    files: int
    size: int

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(partition.records for partition in self.partitions)

    @property
    def segments(self) -> int:
        """The number of segments."""
        return sum(partition.segments for partition in self.partitions)

    @property
    def oldest(self) -> int | None:
        """The earliest timestamp, ms; None without records."""
        return min((part.oldest for part in self.partitions if part.oldest is not None), default=None)

    @property
    def newest(self) -> int | None:
        """The latest timestamp, ms; None without records."""
        return max((part.newest for part in self.partitions if part.newest is not None), default=None)


@dataclass(frozen=True)
class ApplicationContents:
    """An application, after its last commit. `place`: where the log keeps it, if that is not its name. `commits`: the
    number of that commit. `committed_at`: when it was made.

    `store_copies`: snapshots of stores that commits list, `copies_size`: their bytes. `held`: what of its topics stays
    only because a reader has not consumed it. `error`: why its commits cannot be read; then nothing else is known.
    """

    application: str
    place: str = ""
    commits: int = 0
    committed_at: int | None = None
    generation: int = 0
    topics: tuple[TopicContents, ...] = ()
    store_copies: int = 0
    copies_size: int = 0
    held: tuple[HeldBack, ...] = ()
    error: LogError | None = None

    @property
    def records(self) -> int:
        """The number of records in all topics."""
        return sum(topic.records for topic in self.topics)

    @property
    def segments(self) -> int:
        """The number of segments in all topics."""
        return sum(topic.segments for topic in self.topics)

    @property
    def files(self) -> int:
        """The number of files with records or snapshots of stores."""
        return sum(topic.files for topic in self.topics) + self.store_copies

    @property
    def size(self) -> int:
        """The size of these files, in bytes."""
        return sum(topic.size for topic in self.topics) + self.copies_size


def contents(
    log: Log,
    applications: Collection[str] = (),
    policies: Mapping[str, Policy] = NO_POLICIES,
    readers: DeclaredReaders = NO_READERS,
) -> tuple[ApplicationContents, ...]:
    """What each application has committed, by name. One whose commits cannot be read has its error.

    `applications`: those that may have an entry although their commits are gone. `policies`, `readers`: of the
    project's topics, by which is told what is held back.
    """
    found = (contents_of(log, name, policies, readers) for name in sorted({*log.applications(), *applications}))
    return tuple(each for each in found if each.commits or each.error)


def contents_of(
    log: Log,
    application: str,
    policies: Mapping[str, Policy] = NO_POLICIES,
    readers: DeclaredReaders = NO_READERS,
) -> ApplicationContents:
    """The contents of one application, see `contents`."""
    commits = log.commits(application)
    try:
        state = LogState.load(commits)
        last = commits.read(state.number)
        committed_at = None if last is None else decode_commit(last).at
        held = held_back(log, state, policies, readers) if policies else ()
    except (LogError, CommitFormatError) as error:
        return ApplicationContents(commits.application, error=error)
    copies = state.store_snapshots.listed
    return ApplicationContents(
        application=commits.application,
        place="" if state.place == commits.application else state.place,
        commits=state.number,
        committed_at=committed_at,
        generation=state.generation,
        topics=_topics(state),
        store_copies=len(copies),
        copies_size=sum(copy.size for copy in copies),
        held=held,
    )


def _topics(state: LogState) -> tuple[TopicContents, ...]:
    by_topic: dict[str, dict[int, list[Segment]]] = {}
    for segment in state.segments():
        by_topic.setdefault(segment.topic, {}).setdefault(segment.partition, []).append(segment)
    counts = _partition_counts(state)
    return tuple(_topic(name, by_topic[name], counts.get(name, 0)) for name in sorted(by_topic))


def _topic(name: str, segments: Mapping[int, Iterable[Segment]], count: int) -> TopicContents:
    numbers = sorted({*range(count), *segments})
    heads = {segment.path: segment.head for some in segments.values() for segment in some if segment.batches}
    partitions = tuple(_partition(number, list(segments.get(number, ()))) for number in numbers)
    return TopicContents(name, partitions, len(heads), sum(heads.values()) + sum(part.size for part in partitions))


def _partition(number: int, segments: list[Segment]) -> PartitionContents:
    if not segments:
        return PartitionContents(number)
    batches = [batch for segment in segments for batch in segment.batches]
    return PartitionContents(
        partition=number,
        records=sum(batch.rows for batch in batches),
        start=min(segment.base_offset for segment in segments),
        end=max(segment.end_offset for segment in segments),
        segments=len(segments),
        size=sum(batch.length for batch in batches),
        oldest=min((batch.min_timestamp for batch in batches), default=None),
        newest=max((batch.max_timestamp for batch in batches), default=None),
    )


def _partition_counts(state: LogState) -> Mapping[str, int]:
    """The declared number of partitions of each topic: some may have no records yet."""
    described = state.topology
    return {
        **{name: topic.partitions for name, topic in described.topics.items()},
        **{changelog_topic(state.application, name): store.partitions for name, store in described.stores.items()},
        **{name: topic.partitions for name, topic in state.topics.items()},
    }


# The check of an application's commits: the checksum of each, and whether each continues the previous one. A snapshot
# has the whole state, so the commits since the oldest snapshot must give the same state as each later snapshot.

CHECKSUM_MISSING = "folded, and its checksum is missing"
"""`BrokenCommit.what` of a folded commit that cannot be distinguished from one of another log any more."""


@dataclass(frozen=True)
class BrokenCommit:
    """A damaged commit, or snapshot of all commits up to it. `what`: the damage."""

    number: int
    snapshot: bool
    what: str


@dataclass(frozen=True)
class WalkedCommits:
    """The result of the check.

    `commits`, `snapshots`: their numbers. `state`: after the last commit; None for an `error`.
    """

    commits: int
    snapshots: int
    broken: tuple[BrokenCommit, ...]
    state: LogState | None
    error: LogError | None = None


def walk(commits: CommitStore) -> WalkedCommits:
    """Read all commits and snapshots. Raises CommitsMissingError, and CommitFormatError for those of newer versions."""
    snapshots = _snapshots(commits)
    first, last = commits.first(), commits.latest()
    found = _Walk(commits, {number: each for number, each in snapshots.items() if each is not None}, first)
    broken = [BrokenCommit(number, True, "damaged") for number, each in snapshots.items() if each is None]
    if first > 1 and commits.checksum(first - 1) is None:
        # Folding leaves the commit of the oldest snapshot as the first one. If the first one is another, commits were
        # removed.
        folded = first in snapshots
        number = first - 1 if snapshots else 1
        broken.append(BrokenCommit(number, False, CHECKSUM_MISSING if folded else MISSING))
    for number in range(first, last + 1) if last else ():
        found.step(number)
    try:
        state, error = LogState.load(commits), None
    except LogError as caught:
        state, error = None, caught
    return WalkedCommits(last - first + 1 if last else 0, len(snapshots), (*found.broken, *broken), state, error)


def _snapshots(commits: CommitStore) -> dict[int, Snapshot | None]:
    """All snapshots by number; None for a damaged one."""
    contents = ((number, commits.read_snapshot(number)) for number in commits.snapshots())
    return {number: Snapshot.decode(data) for number, data in contents if data is not None}  # else folded meanwhile


class _Walk:
    """Folds commits as long as each continues the previous one. `first`: the number of the first commit."""

    def __init__(self, commits: CommitStore, snapshots: Mapping[int, Snapshot], first: int) -> None:
        self._commits = commits
        self._snapshots = snapshots
        self._state = FoldedCommits(origin_of(commits))
        self._sound = first <= 1
        self.broken: list[BrokenCommit] = []

    def step(self, number: int) -> None:
        """Check the next commit."""
        data = self._commits.read(number)
        if data is None:
            if number >= self._commits.first():
                self._breaks(number, MISSING)
            self._sound = False  # if it was folded meanwhile, a snapshot has its content
            return
        try:
            record = decode_commit(data)
        except CommitFormatError as error:
            if error.found is not None:
                raise
            self._breaks(number, "damaged")
            return
        if self._sound:
            self._apply(number, record)
        self._compare(number, crc32(data))

    def _apply(self, number: int, record: CommitRecord) -> None:
        try:
            self._state.follow(record)
        except LogError as error:
            self._breaks(number, f"not what comes next: {error.message}")

    def _compare(self, number: int, checksum: int) -> None:
        """Compare with a snapshot of this commit. Without a sound state, the check resumes from the snapshot."""
        snapshot = self._snapshots.get(number)
        if snapshot is None:
            return
        if snapshot.commit not in (None, checksum):
            self.broken.append(BrokenCommit(number, True, "of another commit than the one that is there"))
        elif self._sound and _content(snapshot) != _content(self._state.to_snapshot(checksum)):
            self.broken.append(BrokenCommit(number, True, "not what the commits up to it come to"))
        elif not self._sound:
            self._state = FoldedCommits(origin_of(self._commits))
            self._state.restore(snapshot)
            self._sound = True

    def _breaks(self, number: int, what: str) -> None:
        self.broken.append(BrokenCommit(number, False, what))
        self._sound = False


def _content(snapshot: Snapshot) -> tuple[object, ...]:
    """The content that readers depend on. Snapshots of some versions lack the rest."""
    tasks = {(task.subtopology, task.partition): task for task in snapshot.tasks}
    return snapshot.number, snapshot.generation, tasks, set(snapshot.segments), set(snapshot.stores), snapshot.seeds
