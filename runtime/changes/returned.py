"""Flows that come back, and types that are unknown without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain

from ..ir.topology import GlobalTable, Store, Topic, Topology
from ..log.commit.descriptions import StoreDescription, TopicDeclaration, TopologyDescription
from ..log.placed_log import handed
from ..log.state import LogState
from ..progress.committed import Committed
from ..records.names import UNKNOWN_TYPES, quote
from ..records.schema import unknown_columns
from ..records.types import split_columns
from .model import Change, Verdict, ways_back
from .steps import topic_written


def with_returned(changes: Iterable[Change], committed: Committed, current: TopologyDescription) -> Iterator[Change]:
    """The changes, in which added flows report their old positions, and old records of the topics that they write.

    A removed flow is not in the last committed description, so a comparison takes it for a new one. But positions are
    kept by the names of subtopologies, and records stay in their topics.
    """
    for change in changes:
        added = change.kind == "flow.added" and change.verdict is Verdict.COMPATIBLE
        yield _told(change, committed, current) if added else change


def _told(added: Change, committed: Committed, current: TopologyDescription) -> Change:
    own, flow = committed.own, added.subject.name
    there = _read_before(own, flow, current)
    kept = _kept(committed, flow, current)
    if not there and not kept:
        return added
    if there:
        who = "it" if flow in there else f"its subtopology {', '.join(there)}"
        read = {topic: count for topics in there.values() for topic, count in topics.items()}
        behind = " and ".join(f"{_records(count)} of {topic}" for topic, count in read.items())
        what = [f"{who} was there before, and resumes at its old position, behind {behind}"]
    else:
        what = ["it starts at the first available record"]
    what += [f"{topic} keeps its {_records(count)} of before" for topic, count in kept.items()]
    return replace(added, what="; ".join(what), ways=ways_back(committed.application)[1:])


def _read_before(own: LogState, flow: str, current: TopologyDescription) -> dict[str, Mapping[str, int]]:
    """Subtopology with steps of the flow -> source topic -> number of its records before the positions, if not 0."""
    read_before: dict[str, Mapping[str, int]] = {}
    for name, part in current.subtopologies.items():
        if any(step.flow == flow for step in part.steps):
            tasks = [task.positions for task in own.tasks.all() if task.subtopology == name]
            counts = {
                topic: sum(sum(positions.get(topic, {}).values()) for positions in tasks) for topic in part.sources
            }
            if read := {topic: count for topic, count in counts.items() if count}:
                read_before[name] = read
    return read_before


def _kept(committed: Committed, flow: str, current: TopologyDescription) -> dict[str, int]:
    """Topic that the flow writes -> number of records that the application has in it, if not 0."""
    topics = {*filter(None, map(topic_written, current.flows[flow]))} - handed(committed.log, committed.application)
    kept = dict.fromkeys(sorted(topics), 0)
    for segment in committed.own.segments() if topics else ():
        if segment.topic in kept:
            kept[segment.topic] += segment.rows
    return {topic: count for topic, count in kept.items() if count}


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count:,} records"


Recorded = Callable[[Topic], TopicDeclaration | None]
"""The declaration with which a topic's records were committed."""


def settled(topology: Topology, committed: TopologyDescription, recorded: Recorded) -> Topology:
    """The topology with its committed types in place of unknown ones, so that the rest of it can be compared."""
    if not list(unknown_of(TopologyDescription.from_topology(topology))):
        return topology

    def topic(declared: Topic) -> Topic:
        was = recorded(declared)
        return (
            declared
            if was is None
            else replace(declared, key=_types(declared.key, was.key), value=_types(declared.value, was.value))
        )

    def store(declared: Store) -> Store:
        was = committed.stores.get(declared.name)
        return declared if was is None else _store(declared, was)

    def table(declared: GlobalTable) -> GlobalTable:
        return replace(declared, topic=topic(declared.topic), store=store(declared.store))

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
    # The hash includes all types, so it cannot be compared.
    return replace(topology, subtopologies=parts, content_hash=committed.content_hash)


def unknown_of(description: TopologyDescription) -> Iterator[str]:
    """The columns of stores and topics, `<store or topic>.<column>`, of unknown types."""
    described: Iterator[tuple[str, TopicDeclaration | StoreDescription]] = chain(
        description.topics.items(), description.stores.items()
    )
    for name, described_part in described:
        for column in (*unknown_columns(described_part.key), *unknown_columns(described_part.value)):
            yield f"{name}.{column}"


def _store(store: Store, was: StoreDescription) -> Store:
    types = {aggregate.name: aggregate.of for aggregate in was.aggregates}
    aggregates = tuple(
        replace(aggregate, of=types.get(aggregate.name)) if aggregate.of in UNKNOWN_TYPES else aggregate
        for aggregate in store.aggregates
    )
    key, value = _types(store.key, was.key), _types(store.value, was.value)
    return replace(store, key=key, value=value, aggregates=aggregates)


def _types(columns: str, was: str) -> str:
    types = dict(split_columns(was))
    return ", ".join(
        f"{quote(name)} {types.get(name, type_) if type_ in UNKNOWN_TYPES else type_}"
        for name, type_ in split_columns(columns)
    )
