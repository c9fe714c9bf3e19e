"""All commits of an application up to one of them, folded. A reader loads it instead of reading them one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ...dataclass_json import from_plain, to_plain
from ..commit.descriptions import FedTopic, TopologyDescription
from ..commit.encoding import DROPPED_DELETIONS, REPARTITIONED, RETRIED, STORES_RESET, dump_in_pieces, format_with, load
from ..commit.fed_records import Ranges, Retried, SeedSource
from ..commit.records import StoreSnapshot, TaskCommit
from ..errors import CommitFormatError
from ..segments.segment import Segment
from .replaced_files import ReplacedFile
from .task_progress import Pace

_FORMAT = 3
"""Versions before take a snapshot for nothing but quicker. Since this format, what is before it may be in it alone."""

_WITH_PLACES = 4
"""That of a snapshot which only versions that know places may read."""


@dataclass(frozen=True)
class Snapshot:
    """The state after commit `number`, of which `commit` is the crc32: see `LogState`.

    `commit` is None, and `assignment`, `paces`, `unlisted` and `stores` are empty, in snapshots of versions without
    them, as is `replaced`. `stores`: copies of stores that commits list. `replaced`: files that must stay for a while.
    `placed`, `names`, `retried`, `put_back`, `marks`, `resets`, `sources`: see `FoldedCommits`.
    """

    number: int
    generation: int
    topology: TopologyDescription
    seeds: Mapping[str, SeedSource]
    topics: Mapping[str, FedTopic]
    tasks: tuple[TaskCommit, ...]
    segments: tuple[Segment, ...]
    commit: int | None = None
    assignment: Mapping[str, Any] = field(default_factory=dict)
    paces: tuple[Pace, ...] = ()
    unlisted: tuple[str, ...] = ()
    stores: tuple[StoreSnapshot, ...] = ()
    replaced: tuple[ReplacedFile, ...] = ()
    placed: bool = False
    names: tuple[str, ...] = ()
    retried: Mapping[str, Retried] = field(default_factory=dict)
    put_back: Mapping[str, Mapping[int, Ranges]] = field(default_factory=dict)
    marks: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    resets: tuple[str, ...] = ()
    sources: Mapping[str, tuple[int, int]] | None = None

    seldom: ClassVar = ("placed", "names", "retried", "put_back", "marks", "resets", "sources")

    def encode(self) -> bytes:
        """For `CommitStore.save_snapshot`."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """The same in pieces. Other threads may run between any two, however much there is."""
        long = {"tasks": self.tasks, "segments": self.segments, "paces": self.paces, "replaced": self.replaced}
        body = to_plain(replace(self, tasks=(), segments=(), paces=(), replaced=()))
        rest = {name: value for name, value in body.items() if name not in long}
        lists = {name: map(to_plain, each) for name, each in long.items()}
        return dump_in_pieces(rest, lists, self._format)

    @property
    def _format(self) -> int:
        if self.resets:
            return STORES_RESET
        if any(topic.moved for topic in self.topics.values()):
            return REPARTITIONED
        if self.retried:
            return RETRIED
        if any(segment.deletions.horizon for segment in self.segments):
            return DROPPED_DELETIONS
        told = format_with((*self.topics.values(), *self.topology.topics.values()))
        return max(_WITH_PLACES if self.placed or self.names else _FORMAT, told)

    @classmethod
    def decode(cls, data: bytes) -> Snapshot | None:
        """The inverse of `encode`; None for one that is damaged. Raises CommitFormatError for another format."""
        try:
            return from_plain(cls, load(data))
        except CommitFormatError as error:
            if error.found is not None:
                raise
            return None
