"""What may be done to the records of a topic: follows from the declarations of topics and stores.

Source: `cleanup.policy` of Kafka. The defaults of changelogs are those of Kafka Streams: `compact`, and of window
stores `compact,delete`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...records.keys.row_steps import row_step
from ...records.schema import changelog_topic, key_columns
from ...topology import Store, Topic, Topology
from .deletions import DAY_MS, Kept


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
