"""What a topology's files say beside its wiring, its stores and its steps, in words: so that a later run can name each
setting that has changed. None of them changes what is committed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from typing import Any

from ...durations import duration_text
from ...topology import Assignment, PluginRef, Subtopology, Topic, Topology

Settings = Mapping[str, Mapping[str, str]]

TOPOLOGY = "topology"
"""Whose settings are those of the topology as a whole."""

OPTIONS = "options"
"""The kind of the options that a store's backend has: a backend may call one as it likes, also `topic`."""

_OF_STORE = frozenset({"changelog cleanup"})
_OF_TABLE = frozenset({"topic", "backend", *_OF_STORE})


def settings_of(topology: Topology) -> dict[str, dict[str, str]]:
    """`<kind> <name>` (of a flow, topic or store, or the `options` of a store) or `topology` -> setting -> its value,
    as people write it.
    """
    found: dict[str, dict[str, str]] = {TOPOLOGY: dict(_of_topology(topology))}
    for part in topology.subtopologies:
        for flow, setting, value in (*part.settings, *_policies(part)):
            found.setdefault(f"flow {flow}", {})[setting] = value
        for topic in (*part.sources, *part.sinks):
            if not topic.name.startswith(f"{topology.application}-"):
                found.setdefault(f"topic {topic.name}", {}).update(_of_topic(topology, part, topic))
        for table in part.global_tables:
            found[f"store {table.store.name}"] = {"topic": table.topic.name, "backend": table.store.backend}
        for store in (*part.stores, *(table.store for table in part.global_tables)):
            found.setdefault(f"store {store.name}", {})["changelog cleanup"] = store.changelog_cleanup
            found[f"{OPTIONS} {store.name}"] = {option: _text(value) for option, value in store.options.items()}
    return {name: settings for name, settings in found.items() if settings}


def with_options_apart(settings: Settings, stores: Collection[str]) -> dict[str, Mapping[str, str]]:
    """The same settings in the form of now: earlier versions have written the options of a store among its settings.

    `stores`: those that are no global tables.
    """
    found: dict[str, Mapping[str, str]] = dict(settings)
    for name, each in settings.items():
        kind, _, store = name.partition(" ")
        known = _OF_STORE if store in stores else _OF_TABLE
        if kind == "store" and each.keys() - known:
            found[name] = {setting: value for setting, value in each.items() if setting in known}
            found[f"{OPTIONS} {store}"] = {option: value for option, value in each.items() if option not in known}
    return found


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


def _plugin(ref: PluginRef) -> str:
    options = ", ".join(f"{name}: {_text(value)}" for name, value in ref.options.items())
    return f"{ref.name} ({options})" if options else ref.name


def _time(milliseconds: int | None) -> str:
    return "forever" if milliseconds is None else duration_text(milliseconds)


def _text(value: Any) -> str:
    if value is None or value == ():
        return "none"
    return value if isinstance(value, str) else json.dumps(value, default=str)
