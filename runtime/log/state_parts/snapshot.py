"""All commits of an application up to one of them, folded. A reader loads it instead of reading them one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...dataclass_json import from_plain, to_plain
from ..commit_json import dump, load
from ..commit_records import SeedSource, StoreSnapshot, TaskCommit
from ..descriptions import FedTopic, TopologyDescription
from ..errors import CommitFormatError
from ..segments.segment import Segment
from .task_progress import Pace


@dataclass(frozen=True)
class Snapshot:
    """The state after commit `number`, of which `commit` is the crc32: see `LogState`.

    `commit` is None, and `assignment`, `paces`, `unlisted` and `stores` are empty, in snapshots of versions without
    them. `stores`: copies of stores that commits list.
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

    def encode(self) -> bytes:
        """For `CommitStore.save_snapshot`."""
        return dump(to_plain(self), 2 if self.stores else 1)

    @classmethod
    def decode(cls, data: bytes) -> Snapshot | None:
        """The inverse of `encode`; None for one that is damaged. Raises CommitFormatError for another format."""
        try:
            return from_plain(cls, load(data))
        except CommitFormatError as error:
            if error.found is not None:
                raise
            return None
