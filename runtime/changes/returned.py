"""Flows and topics that come back, or settle."""

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

# Flows that are added where a removed one has left positions, or records in the topic that they write.
#
# A flow that was removed is not in what is committed last, so a comparison takes it for a new one. But positions are
# kept by the names of subtopologies, and records stay in their topics.


def with_returned(changes: Iterable[Change], committed: Committed, current: TopologyDescription) -> Iterator[Change]:
    """The changes, in which the flows that are added say where they go on, and what their topics hold already."""
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
        what = [f"{who} was there before, and goes on where it was, behind {behind}"]
    else:
        what = ["it begins with the first record that is there"]
    what += [f"{topic} keeps its {_records(count)} of before" for topic, count in kept.items()]
    return replace(added, what="; ".join(what), ways=ways_back(committed.application)[1:])


def _read_before(own: LogState, flow: str, current: TopologyDescription) -> dict[str, Mapping[str, int]]:
    """Subtopology with steps of the flow -> topic that it reads -> how many of its records lie before the positions.

    Only those where there are some.
    """
    found: dict[str, Mapping[str, int]] = {}
    for name, part in current.subtopologies.items():
        if any(step.flow == flow for step in part.steps):
            tasks = [task.positions for task in own.tasks.all() if task.subtopology == name]
            counts = {topic: sum(sum(each.get(topic, {}).values()) for each in tasks) for topic in part.sources}
            if read := {topic: count for topic, count in counts.items() if count}:
                found[name] = read
    return found


def _kept(committed: Committed, flow: str, current: TopologyDescription) -> dict[str, int]:
    """Topic that the flow writes -> how many records the application has in it already; not of those without any."""
    topics = {*filter(None, map(topic_written, current.flows[flow]))} - handed(committed.log, committed.application)
    found = dict.fromkeys(sorted(topics), 0)
    for segment in committed.own.segments() if topics else ():
        if segment.topic in found:
            found[segment.topic] += segment.rows
    return {topic: count for topic, count in found.items() if count}


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count:,} records"


# Takes the types that a topology had for those that it has now and that are not known without Spark.
#
# So the rest of it can be compared. What may still come of these types is told beside it.

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
