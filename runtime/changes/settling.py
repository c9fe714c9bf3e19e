"""Takes the types that a topology had for those that it has now and that are not known without Spark.

So the rest of it can be compared. What may still come of these types is told beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

from ..log.commit.descriptions import StoreDescription, TopicDeclaration, TopologyDescription
from ..records.column_changes import unknown_columns
from ..records.names import quote
from ..records.types import split_columns
from ..records.unknown_types import UNKNOWN_TYPES
from ..topology import GlobalTable, Store, Topic, Topology

Recorded = Callable[[Topic], TopicDeclaration | None]
"""The declaration with which a topic's records were committed."""


def settled(topology: Topology, committed: TopologyDescription, recorded: Recorded) -> Topology:
    """The topology with earlier types in place of those that are not known, as far as there are any."""
    if not list(unknown_of(TopologyDescription.of(topology))):
        return topology

    def topic(each: Topic) -> Topic:
        was = recorded(each)
        return (
            each if was is None else replace(each, key=_types(each.key, was.key), value=_types(each.value, was.value))
        )

    def store(each: Store) -> Store:
        was = committed.stores.get(each.name)
        return each if was is None else _store(each, was)

    def table(each: GlobalTable) -> GlobalTable:
        return replace(each, topic=topic(each.topic), store=store(each.store))

    parts = tuple(
        replace(
            part,
            sources=tuple(map(topic, part.sources)),
            sinks=tuple(map(topic, part.sinks)),
            stores=tuple(map(store, part.stores)),
            global_tables=tuple(map(table, part.global_tables)),
        )
        for part in topology.subtopologies
    )
    # The hash is one of all types, so it says nothing.
    return replace(topology, subtopologies=parts, content_hash=committed.content_hash)


def unknown_of(description: TopologyDescription) -> Iterator[str]:
    """The columns of stores and topics, `<store or topic>.<column>`, whose types are not known yet."""
    described: Iterator[tuple[str, TopicDeclaration | StoreDescription]] = chain(
        description.topics.items(), description.stores.items()
    )
    for name, each in described:
        for column in (*unknown_columns(each.key), *unknown_columns(each.value)):
            yield f"{name}.{column}"


def _store(store: Store, was: StoreDescription) -> Store:
    types = {each.name: each.of for each in was.aggregates}
    aggregates = tuple(
        replace(each, of=types.get(each.name)) if each.of in UNKNOWN_TYPES else each for each in store.aggregates
    )
    key, value = _types(store.key, was.key), _types(store.value, was.value)
    return replace(store, key=key, value=value, aggregates=aggregates)


def _types(columns: str, was: str) -> str:
    known = dict(split_columns(was))
    return ", ".join(
        f"{quote(name)} {known.get(name, type_) if type_ in UNKNOWN_TYPES else type_}"
        for name, type_ in split_columns(columns)
    )
