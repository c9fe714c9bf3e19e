"""Policies of cleaning, and the deletions of changelogs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...ir.topology import Store, Topic, Topology
from ...records.schema import changelog_topic, key_columns
from ...records.window_keys import row_step
from ..segments.segment import Deletions, Segment

# Which deletions of a changelog are dropped, and when. Otherwise, the log of a store with ever new keys grows forever.
#
# Source: `delete.retention.ms` of Kafka, with the delete horizon of KIP-534. In the clean beginning of a lane no key
# occurs twice, so the rows that a deletion has deleted are gone. A reader that starts at position 0 does not need the
# deletion. Only a store at a position in between may have the row, and would keep it. The lane's first segment has the
# delete horizon (`Deletions.horizon`), and a store before it restarts from nothing.
#
# A delay makes that rare: a deletion is dropped after a day, if its own store has applied it. The delay counts by the
# cleaner's clock, as records have event times. A wrong clock costs work, and nothing else.

DAY_MS = 86_400_000

PART_OF_RECORDS = 8
"""A segment is written again without its deletions if they are at least this fraction (1/8) of its records.

Fewer deletions wait for another rewrite: a large store with few deletions is not rewritten every day.
"""


@dataclass(frozen=True)
class Kept:
    """How long deletions of a changelog stay: for `ms`, and until `store` in `subtopology` has applied them."""

    subtopology: str
    store: str
    ms: int = DAY_MS


@dataclass(frozen=True)
class LaneDeletions:
    """The deletions of a lane with the clean beginning `clean`. `said`: the marks of its first segment.

    `kept_ms`: how long they stay. `applied`: the position up to which their store has applied them. `now`: the time,
    ms.
    """

    said: Deletions
    clean: Sequence[Segment]
    kept_ms: int
    applied: int
    now: int

    @property
    def due(self) -> int:
        """The position before which deletions may be dropped; 0 if there are none.

        Without deletions to drop, a new horizon would restart stores for nothing.
        """
        due = self._noted if self.now - self.said.at >= self.kept_ms else 0
        return due if any(segment.tombstones != 0 for segment in self.clean if segment.base_position < due) else 0

    @property
    def worth_dropping(self) -> list[Segment]:
        """The segments with enough deletions to write them again."""
        due = self.due
        return [segment for segment in self.clean if segment.base_position < due and _many(segment)]

    @property
    def unnoted(self) -> bool:
        """Whether there are deletions that are not noted yet."""
        end = self.clean[-1].end_position if self.clean else 0
        since = max(self.said.horizon, self._noted)
        later = any(_many(segment) for segment in self.clean if segment.end_position > since)
        return later and not self._waits and min(end, self.applied) > since

    def after(self, end: int, dropped: int = 0) -> Deletions:
        """The marks of the first segment after a rewrite.

        `end`: the lane is clean up to this position. `dropped`: deletions before this position are dropped.
        """
        if self._waits:
            return self.said
        horizon, known = max(self.said.horizon, dropped), min(end, self.applied)
        return Deletions(horizon, known, self.now) if known > horizon else Deletions(horizon)

    @property
    def _noted(self) -> int:
        """The position up to which deletions are noted; 0 if a wrong clock has noted them in the future."""
        return self.said.known if self.said.at <= self.now else 0

    @property
    def _waits(self) -> bool:
        """Whether the delay of noted deletions is not over."""
        return bool(self._noted) and self.now - self.said.at < self.kept_ms


def _many(segment: Segment) -> bool:
    return bool(segment.tombstones) and (segment.tombstones or 0) * PART_OF_RECORDS >= segment.rows


# Policies of topics, from the declarations of topics and stores.
#
# Source: `cleanup.policy` of Kafka. The defaults of changelogs are those of Kafka Streams: `compact`, and of window
# stores `compact,delete`.


@dataclass(frozen=True)
class Windows:
    """Expiry in the changelog of a window store, by the committed clock of `store` in the tasks of `subtopology`.

    `kept_ms`: how long rows are kept. `step_ms`: starts of rows are multiples of it.
    """

    subtopology: str
    store: str
    kept_ms: int
    step_ms: int = 1


@dataclass(frozen=True)
class Policy:
    """How a topic is cleaned. By default, small segments are merged and all records stay.

    `key`: the key columns of a compacted topic, else empty. `retention_ms`: the age of a record that may be dropped,
    relative to the newest record of its partition; None for no limit. `windows`: for a changelog with expiring rows.
    `deletions`: for a compacted changelog; None to keep deletions forever. `changelog`: whether only its store reads
    it. `consumed`: records are dropped once consumed, without cleaning (repartition topics).
    """

    key: tuple[str, ...] = ()
    retention_ms: int | None = None
    windows: Windows | None = None
    deletions: Kept | None = None
    changelog: bool = False
    consumed: bool = False

    @property
    def drops(self) -> bool:
        """Whether records of the topic are dropped after all readers have consumed them."""
        return bool(self.key) or self.retention_ms is not None


MERGE_ONLY = Policy()
"""The policy of a topic without a known declaration."""


def policies_of(topology: Topology, deletions_ms: int = DAY_MS) -> dict[str, Policy]:
    """The policies of all topics that an application writes, changelogs included.

    `deletions_ms`: how long deletions stay in changelogs.
    """
    policies: dict[str, Policy] = {}
    for part in topology.subtopologies:
        for topic in part.sinks:
            policies[topic.name] = Policy(consumed=True) if topic.name in part.repartition_topics else policy_of(topic)
        for store in part.stores:
            if store.changelog:
                name = changelog_topic(topology.application, store.name)
                policies[name] = _changelog_policy(store, part.name, deletions_ms)
    return policies


def policies_of_fed(topologies: Iterable[Topology]) -> dict[str, Policy]:
    """The policies of the external topics that topologies read."""
    topics = (topic for topology in topologies for topic in topology.read)
    return {topic.name: policy_of(topic) for topic in topics if topic.writer is None}


def policy_of(topic: Topic) -> Policy:
    """The policy of a declared topic, other than repartition topics."""
    cleanup = topic.cleanup.split(",")
    return Policy(
        key=tuple(f"key.{name}" for name in key_columns(topic)) if "compact" in cleanup else (),
        retention_ms=topic.retention_ms if "delete" in cleanup else None,
    )


def _changelog_policy(store: Store, subtopology: str, deletions_ms: int) -> Policy:
    cleanup = store.changelog_cleanup.split(",")
    compact = "compact" in cleanup
    kept = store.held_ms if store.is_windowed and "delete" in cleanup else None
    return Policy(
        key=("key",) if compact else (),
        deletions=Kept(subtopology, store.name, deletions_ms) if compact else None,
        windows=None if kept is None else Windows(subtopology, store.name, kept, row_step(store)),
        changelog=True,
    )
