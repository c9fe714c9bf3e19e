"""Descriptions of topics, stores and subtopologies in the log, as plain data. `commit_json` makes bytes of them.

A generation record describes the whole application (`TopologyDescription`), an append the topic that it feeds
(`FedTopic`). Older logs lack some fields, which then have defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..topology import Agg, Store, Subtopology, Topic, Topology


@dataclass(frozen=True, kw_only=True)
class TopicDeclaration:
    """The part of a topic's declaration that must not change while the topic holds records.

    `since`: of a topic that is fed from outside, the commit with which it began; None until that is known.
    """

    partitions: int
    key: str
    value: str
    windowed: bool = False
    since: int | None = None

    def changes(self, topic: Topic) -> tuple[dict[str, Any], dict[str, Any]]:
        """The fields that differ, each with its value when this was recorded and its value now."""
        now = declared(topic)
        differ = [name for name, value in now.items() if getattr(self, name) != value]
        return {name: getattr(self, name) for name in differ}, {name: now[name] for name in differ}


@dataclass(frozen=True, kw_only=True)
class FedTopic(TopicDeclaration):
    """A topic as it was declared when it was fed from outside."""

    name: str

    @classmethod
    def of(cls, topic: Topic) -> FedTopic:
        """As it is declared now."""
        return cls(name=topic.name, **declared(topic))


@dataclass(frozen=True, kw_only=True)
class UsedTopic(TopicDeclaration):
    """A topic that an application reads or writes. `writer`: the application that writes it, None for one that is fed
    from outside. `global_`: whether a global table holds it.
    """

    writer: str | None = None
    global_: bool = False


def declared(topic: Topic) -> dict[str, Any]:
    """The declaration, by field."""
    return {"partitions": topic.partitions, "key": topic.key, "value": topic.value, "windowed": topic.windowed}


@dataclass(frozen=True)
class AggregateDescription:
    """An aggregate of a store. `of`: type of the column, None for `count(*)`."""

    name: str
    function: str
    of: str | None = None
    options: tuple[Any, ...] = ()

    as_list: ClassVar[bool] = True


@dataclass(frozen=True)
class StoreDescription:
    """A store of an application. `aggregates`: hidden state that it holds; `shown`: the same in the user's words, empty
    in older logs. `window`: size and advance, ms.
    """

    partitions: int
    type: str
    key: str
    value: str
    aggregates: tuple[AggregateDescription, ...] = ()
    shown: tuple[str, ...] = ()
    window: tuple[int, int] | None = None
    changelog: bool = True

    @classmethod
    def of(cls, store: Store) -> StoreDescription:
        """The store as it is declared now."""
        return cls(
            store.partitions,
            store.type,
            store.key,
            store.value,
            tuple(map(_aggregate, store.aggregates)),
            tuple(f"{each.name}: {each.text}" for each in store.aggregates),
            None if store.window is None else (store.window.size_ms, store.window.advance_ms),
            store.changelog,
        )


@dataclass(frozen=True)
class SubtopologyDescription:
    """What a subtopology reads, writes and keeps, by name."""

    partitions: int
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    stores: tuple[str, ...] = ()

    @classmethod
    def of(cls, part: Subtopology) -> SubtopologyDescription:
        """The subtopology as it is now."""
        sources, sinks = ([topic.name for topic in topics] for topics in (part.sources, part.sinks))
        return cls(part.partitions, tuple(sources), tuple(sinks), tuple(store.name for store in part.stores))


@dataclass(frozen=True)
class TopologyDescription:
    """An application: who reads and writes what, and the stores it keeps, by name.

    Readers in other applications learn their writers from it, and the next start compares it with its own topology.
    `incarnation`: a new one begins when the application is fully refreshed. Stores and commits of an
    earlier one do not count. Empty in logs of versions without it.
    """

    name: str = ""
    version: str = ""
    content_hash: str = ""
    subtopologies: Mapping[str, SubtopologyDescription] = field(default_factory=dict)
    topics: Mapping[str, UsedTopic] = field(default_factory=dict)
    stores: Mapping[str, StoreDescription] = field(default_factory=dict)
    incarnation: str = ""

    @classmethod
    def of(
        cls, topology: Topology, begun: Mapping[str, int] | None = None, incarnation: str = ""
    ) -> TopologyDescription:
        """The topology as it is now. `begun`: topic fed from outside -> the commit with which it began."""
        parts = topology.subtopologies
        tables = {table.topic.name: table.topic for part in parts for table in part.global_tables}
        topics = {
            topic.name: UsedTopic(
                writer=topic.writer,
                global_=topic.name in tables,
                since=(begun or {}).get(topic.name),
                **declared(topic),
            )
            for part in parts
            for topic in (*part.sources, *part.sinks, *tables.values())
        }
        return cls(
            topology.name,
            topology.version,
            topology.content_hash,
            {part.name: SubtopologyDescription.of(part) for part in parts},
            topics,
            {store.name: StoreDescription.of(store) for part in parts for store in part.stores},
            incarnation,
        )


def _aggregate(aggregate: Agg) -> AggregateDescription:
    return AggregateDescription(aggregate.name, aggregate.function, aggregate.of, tuple(aggregate.options))
