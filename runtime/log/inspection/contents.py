"""What is in a log: the topics of each application with their partitions, records, offsets, files and sizes.

It is read from the commits alone: no directory is listed and no segment is opened. So it takes as long for a large log
as for a small one with as many segments, needs no lock, and works while applications run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ...records.schema import changelog_topic
from ..cleaning.held import HeldBack, held_back
from ..cleaning.policies import Policy
from ..cleaning.readers import DeclaredReaders
from ..commit.encoding import decode_commit
from ..errors import CommitFormatError, LogError
from ..log import Log
from ..segments.segment import Segment
from ..state import LogState

NO_POLICIES: Mapping[str, Policy] = MappingProxyType({})
NO_READERS: DeclaredReaders = MappingProxyType({})
"""Of a log that is looked at without its project."""


@dataclass(frozen=True)
class PartitionContents:
    """One partition of a topic. `start`, `end`: the offsets that its records lie between, the second excluded.

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
    """A topic, maybe a changelog. `files`: how many hold its records. `size`: their bytes, as far as commits list them.

    Several partitions may share a file, so its schema counts for the topic and for none of the partitions.
    """

    topic: str
    partitions: tuple[PartitionContents, ...]
    files: int
    size: int

    @property
    def records(self) -> int:
        """How many there are."""
        return sum(each.records for each in self.partitions)

    @property
    def segments(self) -> int:
        """How many there are."""
        return sum(each.segments for each in self.partitions)

    @property
    def oldest(self) -> int | None:
        """The earliest timestamp, ms; None without records."""
        return min((each.oldest for each in self.partitions if each.oldest is not None), default=None)

    @property
    def newest(self) -> int | None:
        """The latest timestamp, ms; None without records."""
        return max((each.newest for each in self.partitions if each.newest is not None), default=None)


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
        """In all of its topics."""
        return sum(each.records for each in self.topics)

    @property
    def segments(self) -> int:
        """In all of its topics."""
        return sum(each.segments for each in self.topics)

    @property
    def files(self) -> int:
        """Of records and of snapshots of stores."""
        return sum(each.files for each in self.topics) + self.store_copies

    @property
    def size(self) -> int:
        """Bytes of these files."""
        return sum(each.size for each in self.topics) + self.copies_size


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
    """What one application has committed, see `contents`."""
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
        copies_size=sum(each.size for each in copies),
        held=held,
    )


def _topics(state: LogState) -> tuple[TopicContents, ...]:
    found: dict[str, dict[int, list[Segment]]] = {}
    for segment in state.segments():
        found.setdefault(segment.topic, {}).setdefault(segment.partition, []).append(segment)
    counts = _partition_counts(state)
    return tuple(_topic(name, found[name], counts.get(name, 0)) for name in sorted(found))


def _topic(name: str, segments: Mapping[int, Iterable[Segment]], count: int) -> TopicContents:
    numbers = sorted({*range(count), *segments})
    heads = {each.path: each.head for some in segments.values() for each in some if each.batches}
    partitions = tuple(_partition(number, list(segments.get(number, ()))) for number in numbers)
    return TopicContents(name, partitions, len(heads), sum(heads.values()) + sum(each.size for each in partitions))


def _partition(number: int, segments: list[Segment]) -> PartitionContents:
    if not segments:
        return PartitionContents(number)
    batches = [batch for segment in segments for batch in segment.batches]
    return PartitionContents(
        partition=number,
        records=sum(each.rows for each in batches),
        start=min(each.base_offset for each in segments),
        end=max(each.end_offset for each in segments),
        segments=len(segments),
        size=sum(each.length for each in batches),
        oldest=min((each.min_timestamp for each in batches), default=None),
        newest=max((each.max_timestamp for each in batches), default=None),
    )


def _partition_counts(state: LogState) -> Mapping[str, int]:
    """How many partitions each topic was declared with: some may have no records yet."""
    described = state.topology
    return {
        **{name: topic.partitions for name, topic in described.topics.items()},
        **{changelog_topic(state.application, name): store.partitions for name, store in described.stores.items()},
        **{name: topic.partitions for name, topic in state.topics.items()},
    }
