"""What may be deleted, and when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...ir.topology import Store, Topic, Topology
from ...records.join_keys import row_step
from ...records.schema import changelog_topic, key_columns
from ..segments.segment import Deletions, Segment

# Which deletions of a changelog go, and when: a store whose keys come and go would otherwise grow its log for ever.
#
# Source: `delete.retention.ms` of Kafka, with the delete horizon of KIP-534. In the clean beginning of a lane no key is
# twice, so what a deletion there has deleted is gone. Whoever begins at the first position does not need it any more.
# Only a store that stands between may have the row, and would keep it. The lane's first segment says up to where that
# may be so (`Deletions.horizon`), and such a store begins again from nothing.
#
# So time only makes that rare: a deletion goes once it has been there for a day, and its own store has applied it. The
# time is the cleaner's clock, as records have event times. A clock that is wrong costs work and nothing else.

DAY_MS = 86_400_000

PART_OF_RECORDS = 8
"""If this part of a segment's records delete, it is written again without them. If fewer do, they wait until it is
written again anyway: a large store of which little is deleted is not rewritten every day."""


@dataclass(frozen=True)
class Kept:
    """Of a changelog: deletions stay for `ms`, and until `store` has applied them in the tasks of `subtopology`."""

    subtopology: str
    store: str
    ms: int = DAY_MS


@dataclass(frozen=True)
class LaneDeletions:
    """The deletions of a lane that begins with the segments `clean`. `said`: what the first segment says of them.

    `kept_ms`: how long they stay. `applied`: the position up to which their store has them. `now`: the time, ms.
    """

    said: Deletions
    clean: Sequence[Segment]
    kept_ms: int
    applied: int
    now: int

    @property
    def due(self) -> int:
        """The position before which deletions may go; 0 if none may, or there is none.

        To drop none would still move the horizon, and stores would begin again for nothing.
        """
        due = self._noted if self.now - self.said.at >= self.kept_ms else 0
        return due if any(each.tombstones != 0 for each in self.clean if each.base_position < due) else 0

    @property
    def worth_dropping(self) -> list[Segment]:
        """The segments to be written again for nothing but the deletions that may go."""
        due = self.due
        return [each for each in self.clean if each.base_position < due and _many(each)]

    @property
    def unnoted(self) -> bool:
        """Whether there are deletions of which is not noted yet that they are there."""
        end = self.clean[-1].end_position if self.clean else 0
        since = max(self.said.horizon, self._noted)
        later = any(_many(each) for each in self.clean if each.end_position > since)
        return later and not self._waits and min(end, self.applied) > since

    def after(self, end: int, dropped: int = 0) -> Deletions:
        """What the first segment says once deletions before `dropped` are gone, and the lane is clean up to `end`."""
        if self._waits:
            return self.said
        horizon, known = max(self.said.horizon, dropped), min(end, self.applied)
        return Deletions(horizon, known, self.now) if known > horizon else Deletions(horizon)

    @property
    def _noted(self) -> int:
        """The position up to which deletions are noted; 0 where a wrong clock has noted them, in the future."""
        return self.said.known if self.said.at <= self.now else 0

    @property
    def _waits(self) -> bool:
        """Whether there are some whose time has not come."""
        return bool(self._noted) and self.now - self.said.at < self.kept_ms


def _many(segment: Segment) -> bool:
    return bool(segment.tombstones) and (segment.tombstones or 0) * PART_OF_RECORDS >= segment.rows


# What may be done to the records of a topic: follows from the declarations of topics and stores.
#
# Source: `cleanup.policy` of Kafka. The defaults of changelogs are those of Kafka Streams: `compact`, and of window
# stores `compact,delete`.


@dataclass(frozen=True)
class Windows:
    """Of the changelog of a window store: the committed clock of `store` in the tasks of `subtopology` says which
    windows have expired. `kept_ms`: for how long rows are kept. `step_ms`: what their starts are multiples of.
    """

    subtopology: str
    store: str
    kept_ms: int
    step_ms: int = 1


@dataclass(frozen=True)
class Policy:
    """How a topic is cleaned. Without anything, small segments are merged and every record stays.

    `key`: the columns of the key, of a topic that is compacted; empty for others. `retention_ms`: how much older than
    the newest record of its partition a record is when it may go; None: never. `windows`: of a changelog whose expired
    rows may go. `deletions`: of a changelog that is compacted: how long deletions stay; None: for ever. `changelog`:
    whether it is one: nobody but its store reads it. `consumed`: the records go as soon as
    they are consumed, without cleaning (repartition topics).
    """

    key: tuple[str, ...] = ()
    retention_ms: int | None = None
    windows: Windows | None = None
    deletions: Kept | None = None
    changelog: bool = False
    consumed: bool = False

    @property
    def drops(self) -> bool:
        """Whether records of the topic go by and by, once all readers have consumed them."""
        return bool(self.key) or self.retention_ms is not None


MERGE_ONLY = Policy()
"""Of a topic of which no declaration is known."""


def policies_of(topology: Topology, deletions_ms: int = DAY_MS) -> dict[str, Policy]:
    """The policies of all topics that an application writes, its changelogs among them.

    `deletions_ms`: how long deletions stay in changelogs.
    """
    found: dict[str, Policy] = {}
    for part in topology.subtopologies:
        for topic in part.sinks:
            found[topic.name] = Policy(consumed=True) if topic.name in part.repartition_topics else policy_of(topic)
        for store in part.stores:
            if store.changelog:
                found[changelog_topic(topology.application, store.name)] = _of_changelog(store, part.name, deletions_ms)
    return found


def policies_of_fed(topologies: Iterable[Topology]) -> dict[str, Policy]:
    """The policies of the topics that topologies read and that are fed from outside."""
    topics = (topic for topology in topologies for topic in topology.read)
    return {topic.name: policy_of(topic) for topic in topics if topic.writer is None}


def policy_of(topic: Topic) -> Policy:
    """The policy of a topic that is no repartition topic, as it is declared."""
    cleanup = topic.cleanup.split(",")
    return Policy(
        key=tuple(f"key.{name}" for name in key_columns(topic)) if "compact" in cleanup else (),
        retention_ms=topic.retention_ms if "delete" in cleanup else None,
    )


def _of_changelog(store: Store, subtopology: str, deletions_ms: int) -> Policy:
    cleanup = store.changelog_cleanup.split(",")
    compact = "compact" in cleanup
    kept = store.held_ms if store.is_windowed and "delete" in cleanup else None
    return Policy(
        key=("key",) if compact else (),
        deletions=Kept(subtopology, store.name, deletions_ms) if compact else None,
        windows=None if kept is None else Windows(subtopology, store.name, kept, row_step(store)),
        changelog=True,
    )
