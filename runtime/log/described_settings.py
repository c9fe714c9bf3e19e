"""What a topology's files say beside its wiring, its stores and its steps, in words: so that a later run can name each
setting that has changed. None of them changes what is committed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from ..durations import duration_text
from ..topology import Assignment, GlobalTable, PluginRef, Store, Subtopology, Topic, Topology

Settings = Mapping[str, Mapping[str, str]]

TOPOLOGY = "topology"
"""Whose settings are those of the topology as a whole."""


def settings_of(topology: Topology) -> dict[str, dict[str, str]]:
    """`<kind> <name>` (of a flow, topic or store) or `topology` -> setting -> its value, as people write it."""
    found: dict[str, dict[str, str]] = {TOPOLOGY: dict(_of_topology(topology))}
    for part in topology.subtopologies:
        for flow, setting, value in (*part.settings, *_policies(part)):
            found.setdefault(f"flow {flow}", {})[setting] = value
        for topic in (*part.sources, *part.sinks):
            if not topic.name.startswith(f"{topology.application}-"):
                found.setdefault(f"topic {topic.name}", {}).update(_of_topic(topology, part, topic))
        for store in part.stores:
            found.setdefault(f"store {store.name}", {}).update(_of_store(store))
        for table in part.global_tables:
            found.setdefault(f"store {table.store.name}", {}).update(_of_table(table))
    return {name: settings for name, settings in found.items() if settings}


def _of_topology(topology: Topology) -> Iterator[tuple[str, str]]:
    yield "restore", _plugin(topology.restore)
    for each in fields(Assignment):
        value = getattr(topology.assignment, each.name)
        yield each.name, _plugin(value) if isinstance(value, PluginRef) else _text(value)


def _policies(part: Subtopology) -> Iterator[tuple[str, str, str]]:
    for step in part.steps:
        if step.at in part.on_error:
            yield step.flow, "on_error", part.on_error[step.at]


def _of_topic(topology: Topology, part: Subtopology, topic: Topic) -> Iterator[tuple[str, str]]:
    if topic in part.sources:
        yield "on_error", topic.on_error
        letters = part.dead_letters.get(topic.name)
        yield "dead letters", letters.name if letters else "none"
    if topic.writer in (None, topology.application):  # else its writer tells
        yield "cleanup", topic.cleanup
        yield "retention", _time(topic.retention_ms)
    if topic.writer is None:
        yield "timestamp", topic.timestamp or "none"


def _of_store(store: Store) -> Iterator[tuple[str, str]]:
    yield "changelog cleanup", store.changelog_cleanup
    for option, value in store.options.items():
        yield option, _text(value)


def _of_table(table: GlobalTable) -> Iterator[tuple[str, str]]:
    yield "topic", table.topic.name
    yield "backend", table.store.backend
    yield from _of_store(table.store)


def _plugin(ref: PluginRef) -> str:
    options = ", ".join(f"{name}: {_text(value)}" for name, value in ref.options.items())
    return f"{ref.name} ({options})" if options else ref.name


def _time(milliseconds: int | None) -> str:
    return "forever" if milliseconds is None else duration_text(milliseconds)


def _text(value: Any) -> str:
    if value is None or value == ():
        return "none"
    return value if isinstance(value, str) else json.dumps(value, default=str)
