"""A state under new names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from ...ir.topology import StepText
from ..commit.descriptions import OPTIONS, SubtopologyDescription, TopologyDescription, UsedTopic
from ..commit.fed_records import AppendRecord
from ..commit.records import (
    CommitRecord,
    EpochRecord,
    GenerationRecord,
    PurgeRecord,
    Renames,
    RewindRecord,
    RewriteRecord,
    SnapshotRecord,
    StoreResetRecord,
    StoreSnapshot,
    TaskCommit,
    TopicRemovalRecord,
)
from ..log import Listed
from .parts import Snapshot

# The names of flows, tables and stores in the text of steps (see `engine/step_texts.py`), under other names.

_NAMING = (
    re.compile(r"(?P<before>merge )(?P<names>.*)(?P<after>)", re.DOTALL),
    re.compile(r"(?P<before>(?:\w+ )?join (?:stream (?:\w+\.)?)?)(?P<names>\w+)(?P<after>(?:,| by ).*)", re.DOTALL),
    re.compile(r"(?P<before>from flow )(?P<names>.*)(?P<after>)", re.DOTALL),
)
"""The steps that name flows or tables, one or several, and what stands around the names."""


_PROCESSOR = re.compile(
    r"(?P<before>process by \S+?(?:, options \{.*\})?)(?:, stores (?P<stores>[\w-]+(?:, [\w-]+)*))?"
    r"(?P<forwards>(?:, forwards key \(.*)?)",
    re.DOTALL,
)
"""The step of a processor: its stores, and the flows to which it forwards, each behind ` to `."""


def renamed_step(
    step: StepText, names: Mapping[str, str], stores: Mapping[str, str] | None = None, *, of_flow: bool = True
) -> StepText:
    """The step with these new names of flows and tables, and of `stores` (old -> new).

    `of_flow`: also of the flow that it is of.
    """
    flow = _edge(step.flow, names) if of_flow else step.flow
    return replace(step, flow=flow, text=_text(step.text, names, stores or {})) if names or stores else step


def _edge(edge: str, names: Mapping[str, str]) -> str:
    """An edge has the name of its flow, or of its flow and of what the flow reads."""
    flow, *rest = edge.split(".")
    return names.get(edge) or ".".join([names.get(flow, flow), *rest])


def _text(text: str, names: Mapping[str, str], stores: Mapping[str, str]) -> str:
    if text.startswith("branch "):
        return _branches(text, names)
    if found := _PROCESSOR.fullmatch(text):
        return _process(found, names, stores)
    for naming in _NAMING:
        if found := naming.fullmatch(text):
            named = (names.get(each, each) for each in found["names"].split(", "))
            return f"{found['before']}{', '.join(named)}{found['after']}"
    return text


def _branches(text: str, names: Mapping[str, str]) -> str:
    """`branch dear: price > 5, rest: the rest`: each name is before a colon."""
    return re.sub(
        r"(?P<before>^branch |, )(?P<name>\w+)(?=: )",
        lambda found: f"{found['before']}{names.get(found['name'], found['name'])}",
        text,
    )


def _process(found: re.Match[str], names: Mapping[str, str], stores: Mapping[str, str]) -> str:
    kept = ", ".join(stores.get(each, each) for each in (found["stores"] or "").split(", "))
    into = re.sub(
        r"(?P<before>\) to )(?P<name>\w+)(?=$|, forwards key \()",
        lambda each: f"{each['before']}{names.get(each['name'], each['name'])}",
        found["forwards"],
    )
    return f"{found['before']}{f', stores {kept}' if kept else ''}{into}"


# What commits say, under other names. Names of a kind are renamed all at once, so two may change places.

Value = TypeVar("Value")


def renamed_snapshot(found: Snapshot, renames: Renames) -> Snapshot:
    """The state with the new names. What was left of something else of a new name, which is not there any more, goes.

    `names` grows by the application's new name.
    """
    (name,) = renames.application.values() or (None,)
    return replace(
        found,
        topology=renamed_description(found.topology, renames),
        seeds={
            renames.topics.get(topic, topic): replace(seed, topic=renames.topics.get(topic, topic))
            for topic, seed in _left(found.seeds, renames.topics).items()
        },
        topics={
            renames.topics.get(topic, topic): replace(fed, name=renames.topics.get(topic, topic))
            for topic, fed in _left(found.topics, renames.topics).items()
        },
        tasks=tuple(_task(each, renames) for each in _not_taken(found.tasks, renames)),
        marks=_keys(found.marks, renames.topics),
        segments=tuple(_segment(each, renames) for each in found.segments if not _is_taken(each.topic, renames.topics)),
        paces=tuple(
            replace(each, subtopology=renames.subtopologies.get(each.subtopology, each.subtopology))
            for each in found.paces
            if not _is_taken(each.subtopology, renames.subtopologies)
        ),
        stores=tuple(_store(each, renames) for each in found.stores if not _is_taken(each.store, renames.stores)),
        resets=_each(_left(dict.fromkeys(found.resets), renames.stores), renames.stores),
        names=found.names if name is None else (*found.names, name),
        assignment=_assignment(found.assignment, renames),
    )


def renamed_record(record: CommitRecord, renames: Renames) -> CommitRecord:
    """A commit as if it had been made under the new names."""
    match record:
        case GenerationRecord():
            begins = (
                replace(
                    each,
                    subtopology=renames.subtopologies.get(each.subtopology, each.subtopology),
                    topic=renames.topics.get(each.topic, each.topic),
                )
                for each in record.begins
            )
            return replace(record, topology=renamed_description(record.topology, renames), begins=tuple(begins))
        case EpochRecord():
            return replace(record, tasks=tuple(_task(each, renames) for each in record.tasks))
        case SnapshotRecord():
            return replace(record, added=tuple(_store(each, renames) for each in record.added))
        case PurgeRecord():
            purged = (replace(each, topic=renames.topics.get(each.topic, each.topic)) for each in record.purged)
            return replace(record, purged=tuple(purged))
        case RewriteRecord():
            return replace(record, segments=tuple(_segment(each, renames) for each in record.segments))
        case RewindRecord():
            part = renames.subtopologies.get(record.subtopology, record.subtopology)
            return replace(record, subtopology=part, topic=renames.topics.get(record.topic, record.topic))
        case TopicRemovalRecord():
            return replace(record, topic=renames.topics.get(record.topic, record.topic))
        case StoreResetRecord():
            return replace(record, stores=_each(record.stores, renames.stores))
        case AppendRecord():
            source, topic = record.source, record.topic
            return replace(
                record,
                segments=tuple(_segment(each, renames) for each in record.segments),
                source=source and replace(source, topic=renames.topics.get(source.topic, source.topic)),
                topic=topic and replace(topic, name=renames.topics.get(topic.name, topic.name)),
            )
    return record


def renamed_description(found: TopologyDescription, renames: Renames) -> TopologyDescription:
    """The description of an application with the new names, also of applications that write what it reads."""
    return replace(
        found,
        subtopologies=_keys(
            {name: _part(each, renames) for name, each in found.subtopologies.items()}, renames.subtopologies
        ),
        topics=_keys({name: _used(each, renames) for name, each in found.topics.items()}, renames.topics),
        stores=_keys(found.stores, renames.stores),
        settings={_told(name, renames): settings for name, settings in found.settings.items()},
    )


def _told(name: str, renames: Renames) -> str:
    """`<kind> <name>` of what has a setting."""
    kind, space, called = name.partition(" ")
    names = {"store": renames.stores, OPTIONS: renames.stores, "flow": renames.steps}.get(kind, {})
    return f"{kind}{space}{names.get(called, called)}"


def _part(found: SubtopologyDescription, renames: Renames) -> SubtopologyDescription:
    return replace(
        found,
        sources=_each(found.sources, renames.topics),
        sinks=_each(found.sinks, renames.topics),
        stores=_each(found.stores, renames.stores),
        answers=_each(found.answers, renames.topics),
        steps=tuple(renamed_step(each, {**renames.tables, **renames.steps}, renames.stores) for each in found.steps),
        starts=tuple(replace(each, topic=renames.topics.get(each.topic, each.topic)) for each in found.starts),
        fillers=tuple(
            replace(
                each,
                store=renames.stores.get(each.store, each.store),
                flow=renames.steps.get(each.flow, each.flow),
            )
            for each in found.fillers
        ),
    )


def _used(found: UsedTopic, renames: Renames) -> UsedTopic:
    return replace(found, writer=renames.application.get(found.writer or "", found.writer or "") or None)


def _task(task: TaskCommit, renames: Renames) -> TaskCommit:
    return replace(
        task,
        subtopology=renames.subtopologies.get(task.subtopology, task.subtopology),
        positions=_keys(task.positions, renames.topics),
        clocks=_clocks(task.clocks, renames.stores),
        scheduled=tuple(
            replace(each, processor=renames.steps.get(each.processor, each.processor)) for each in task.scheduled
        ),
        segments=tuple(_segment(each, renames) for each in task.segments),
        dropped={_counted(name, renames): count for name, count in task.dropped.items()},
        applied=_keys(task.applied, renames.stores),
        globals_=dict(_seen(task.globals_, renames.tables)),
    )


def _clocks(found: Mapping[str, int], stores: Mapping[str, str]) -> dict[str, int]:
    """Those of `<store>`, and of `<store>.<what else of it has a clock>`."""
    parts = {name: name.partition(".") for name in found}
    left = {name: part for name, part in parts.items() if not _is_taken(part[0], stores)}
    return {"".join((stores.get(store, store), *rest)): found[name] for name, (store, *rest) in left.items()}


def _assignment(note: Mapping[str, Any], renames: Renames) -> Mapping[str, Any]:
    """The record of an assignment, see `placing.assigned`: which client has which tasks of which subtopologies."""
    clients = {
        process_id: {
            **client,
            **{kind: _keys(client[kind], renames.subtopologies) for kind in ("active", "standby") if kind in client},
        }
        for process_id, client in note.get("clients", {}).items()
    }
    return {**note, "clients": clients} if clients else note


def _counted(name: str, renames: Renames) -> str:
    """`<step>:<reason>`, or `<global table>:<reason>`."""
    step, colon, reason = name.rpartition(":")
    return f"{renames.tables.get(step, renames.steps.get(step, step))}{colon}{reason}"


def _seen(found: Mapping[str, Value], names: Mapping[str, str]) -> Iterator[tuple[str, Value]]:
    """By `<global table>`, or by `<global table>:<topic>`."""
    for name, value in found.items():
        table, colon, topic = name.partition(":")
        if not _is_taken(table, names):
            yield f"{names.get(table, table)}{colon}{topic}", value


def _segment(segment: Listed, renames: Renames) -> Listed:
    topic = renames.topics.get(segment.topic)
    return segment if topic is None else replace(segment, topic=topic)


def _store(snapshot: StoreSnapshot, renames: Renames) -> StoreSnapshot:
    return replace(snapshot, store=renames.stores.get(snapshot.store, snapshot.store))


def _not_taken(tasks: Iterable[TaskCommit], renames: Renames) -> Iterable[TaskCommit]:
    return (each for each in tasks if not _is_taken(each.subtopology, renames.subtopologies))


def _is_taken(name: str, names: Mapping[str, str]) -> bool:
    """Whether something else gets this name, while what has it keeps it: it is of the past."""
    return name not in names and name in names.values()


def _left(found: Mapping[str, Value], names: Mapping[str, str]) -> dict[str, Value]:
    return {name: value for name, value in found.items() if not _is_taken(name, names)}


def _keys(found: Mapping[str, Value], names: Mapping[str, str]) -> dict[str, Value]:
    return {names.get(name, name): value for name, value in _left(found, names).items()}


def _each(found: Iterable[str], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names.get(each, each) for each in found)
