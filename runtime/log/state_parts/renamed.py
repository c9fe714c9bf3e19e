"""States and commits under new names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from ...ir.topology import StepText
from ..commit.descriptions import OPTIONS, SubtopologyDescription, TopologyDescription
from ..commit.external_records import AppendRecord
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
    TaskCommit,
    TopicRemovalRecord,
)
from .parts import Snapshot

# New names of flows, tables and stores in the text of steps (see `engine/steps.py`).

_NAMING = (
    re.compile(r"(?P<before>merge )(?P<names>.*)(?P<after>)", re.DOTALL),
    re.compile(r"(?P<before>(?:\w+ )?join (?:stream (?:\w+\.)?)?)(?P<names>\w+)(?P<after>(?:,| by ).*)", re.DOTALL),
    re.compile(r"(?P<before>from flow )(?P<names>.*)(?P<after>)", re.DOTALL),
)
"""Steps with names of flows or tables, and the text around the names."""


_PROCESSOR = re.compile(
    r"(?P<before>process by \S+?(?:, options \{.*\})?)(?:, stores (?P<stores>[\w-]+(?:, [\w-]+)*))?"
    r"(?P<forwards>(?:, forwards key \(.*)?)",
    re.DOTALL,
)
"""The step of a processor: its stores, and the flows to which it forwards, each after ` to `."""


def renamed_step(
    step: StepText, names: Mapping[str, str], stores: Mapping[str, str] | None = None, *, of_flow: bool = True
) -> StepText:
    """The step with new names of flows and tables, and of `stores` (old -> new).

    `of_flow`: whether to rename the step's own flow too.
    """
    flow = _edge(step.flow, names) if of_flow else step.flow
    return replace(step, flow=flow, text=_text(step.text, names, stores or {})) if names or stores else step


def _edge(edge: str, names: Mapping[str, str]) -> str:
    """The new name of an edge: `<flow>`, or `<flow>.<its input>`."""
    flow, *rest = edge.split(".")
    return names.get(edge) or ".".join([names.get(flow, flow), *rest])


def _text(text: str, names: Mapping[str, str], stores: Mapping[str, str]) -> str:
    if text.startswith("branch "):
        return _branches(text, names)
    if match := _PROCESSOR.fullmatch(text):
        return _process(match, names, stores)
    for naming in _NAMING:
        if match := naming.fullmatch(text):
            renamed = (names.get(name, name) for name in match["names"].split(", "))
            return f"{match['before']}{', '.join(renamed)}{match['after']}"
    return text


def _branches(text: str, names: Mapping[str, str]) -> str:
    """`branch dear: price > 5, rest: the rest`: a colon follows each name."""
    return re.sub(
        r"(?P<before>^branch |, )(?P<name>\w+)(?=: )",
        lambda match: f"{match['before']}{names.get(match['name'], match['name'])}",
        text,
    )


def _process(match: re.Match[str], names: Mapping[str, str], stores: Mapping[str, str]) -> str:
    own_stores = ", ".join(stores.get(store, store) for store in (match["stores"] or "").split(", "))
    into = re.sub(
        r"(?P<before>\) to )(?P<name>\w+)(?=$|, forwards key \()",
        lambda target: f"{target['before']}{names.get(target['name'], target['name'])}",
        match["forwards"],
    )
    return f"{match['before']}{f', stores {own_stores}' if own_stores else ''}{into}"


# Commits and snapshots under new names. All names of a kind are renamed at once, so two may be swapped.

Value = TypeVar("Value")


def _with(value: Value, **names: Mapping[str, str]) -> Value:
    """A dataclass instance with new names in some fields. `names`: field -> old name -> new name."""
    new = {field: of_field[old] for field, of_field in names.items() if (old := getattr(value, field)) in of_field}
    return replace(value, **new) if new else value  # type: ignore[type-var]


def renamed_snapshot(snapshot: Snapshot, renames: Renames) -> Snapshot:
    """The snapshot with new names. State of something removed that had one of the new names is dropped.

    The application's new name is added to `names`.
    """
    (name,) = renames.application.values() or (None,)
    return replace(
        snapshot,
        topology=renamed_description(snapshot.topology, renames),
        seeds={name: replace(seed, topic=name) for name, seed in _rename_keys(snapshot.seeds, renames.topics).items()},
        topics={
            name: replace(topic, name=name) for name, topic in _rename_keys(snapshot.topics, renames.topics).items()
        },
        tasks=tuple(
            _task(task, renames)
            for task in snapshot.tasks
            if not _is_overwritten(task.subtopology, renames.subtopologies)
        ),
        marks=_rename_keys(snapshot.marks, renames.topics),
        segments=tuple(
            _with(segment, topic=renames.topics)
            for segment in snapshot.segments
            if not _is_overwritten(segment.topic, renames.topics)
        ),
        paces=tuple(
            _with(pace, subtopology=renames.subtopologies)
            for pace in snapshot.paces
            if not _is_overwritten(pace.subtopology, renames.subtopologies)
        ),
        stores=tuple(
            _with(copy, store=renames.stores)
            for copy in snapshot.stores
            if not _is_overwritten(copy.store, renames.stores)
        ),
        resets=_rename_all(_without_overwritten(dict.fromkeys(snapshot.resets), renames.stores), renames.stores),
        names=snapshot.names if name is None else (*snapshot.names, name),
        assignment=_assignment(snapshot.assignment, renames),
    )


def renamed_record(record: CommitRecord, renames: Renames) -> CommitRecord:
    """The commit with new names."""
    match record:
        case GenerationRecord():
            begins = (_with(start, subtopology=renames.subtopologies, topic=renames.topics) for start in record.begins)
            return replace(record, topology=renamed_description(record.topology, renames), begins=tuple(begins))
        case EpochRecord():
            return replace(record, tasks=tuple(_task(task, renames) for task in record.tasks))
        case SnapshotRecord():
            return replace(record, added=tuple(_with(snapshot, store=renames.stores) for snapshot in record.added))
        case PurgeRecord():
            return replace(record, purged=tuple(_with(records, topic=renames.topics) for records in record.purged))
        case RewriteRecord():
            return replace(record, segments=tuple(_with(segment, topic=renames.topics) for segment in record.segments))
        case RewindRecord():
            return _with(record, subtopology=renames.subtopologies, topic=renames.topics)
        case TopicRemovalRecord():
            return _with(record, topic=renames.topics)
        case StoreResetRecord():
            return replace(record, stores=_rename_all(record.stores, renames.stores))
        case AppendRecord():
            return replace(
                record,
                segments=tuple(_with(segment, topic=renames.topics) for segment in record.segments),
                source=record.source and _with(record.source, topic=renames.topics),
                topic=record.topic and _with(record.topic, name=renames.topics),
            )
    return record


def renamed_description(description: TopologyDescription, renames: Renames) -> TopologyDescription:
    """The description of an application with new names, also of the applications that write its sources."""
    subtopologies = {name: _subtopology(part, renames) for name, part in description.subtopologies.items()}
    topics = {name: _with(topic, writer=renames.application) for name, topic in description.topics.items()}
    return replace(
        description,
        subtopologies=_rename_keys(subtopologies, renames.subtopologies),
        topics=_rename_keys(topics, renames.topics),
        stores=_rename_keys(description.stores, renames.stores),
        settings={_owner_of_settings(owner, renames): settings for owner, settings in description.settings.items()},
    )


def _owner_of_settings(owner: str, renames: Renames) -> str:
    """The new name of the owner of settings: `<kind> <name>`."""
    kind, space, name = owner.partition(" ")
    names = {"store": renames.stores, OPTIONS: renames.stores, "flow": renames.steps}.get(kind, {})
    return f"{kind}{space}{names.get(name, name)}"


def _subtopology(description: SubtopologyDescription, renames: Renames) -> SubtopologyDescription:
    names = {**renames.tables, **renames.steps}
    return replace(
        description,
        sources=_rename_all(description.sources, renames.topics),
        sinks=_rename_all(description.sinks, renames.topics),
        stores=_rename_all(description.stores, renames.stores),
        answers=_rename_all(description.answers, renames.topics),
        steps=tuple(renamed_step(step, names, renames.stores) for step in description.steps),
        starts=tuple(_with(start, topic=renames.topics) for start in description.starts),
        fillers=tuple(_with(filler, store=renames.stores, flow=renames.steps) for filler in description.fillers),
    )


def _task(task: TaskCommit, renames: Renames) -> TaskCommit:
    return replace(
        _with(task, subtopology=renames.subtopologies),
        positions=_rename_keys(task.positions, renames.topics),
        clocks=_clocks(task.clocks, renames.stores),
        scheduled=tuple(_with(punctuation, processor=renames.steps) for punctuation in task.scheduled),
        segments=tuple(_with(segment, topic=renames.topics) for segment in task.segments),
        dropped={_dropped_counter(name, renames): count for name, count in task.dropped.items()},
        applied=_rename_keys(task.applied, renames.stores),
        globals_=dict(_global_positions(task.globals_, renames.tables)),
    )


def _clocks(clocks: Mapping[str, int], stores: Mapping[str, str]) -> dict[str, int]:
    """Clocks by `<store>`, or by `<store>.<clock>`."""
    parts = {name: name.partition(".") for name in clocks}
    remaining = {name: part for name, part in parts.items() if not _is_overwritten(part[0], stores)}
    return {"".join((stores.get(store, store), *rest)): clocks[name] for name, (store, *rest) in remaining.items()}


def _assignment(note: Mapping[str, Any], renames: Renames) -> Mapping[str, Any]:
    """The recorded assignment, see `placing.assigned`: the tasks of each client, by subtopology."""
    clients = {
        process_id: {
            **client,
            **{
                kind: _rename_keys(client[kind], renames.subtopologies)
                for kind in ("active", "standby")
                if kind in client
            },
        }
        for process_id, client in note.get("clients", {}).items()
    }
    return {**note, "clients": clients} if clients else note


def _dropped_counter(name: str, renames: Renames) -> str:
    """The new name of a counter of dropped records: `<step>:<reason>`, or `<global table>:<reason>`."""
    step, colon, reason = name.rpartition(":")
    return f"{renames.tables.get(step, renames.steps.get(step, step))}{colon}{reason}"


def _global_positions(values: Mapping[str, Value], names: Mapping[str, str]) -> Iterator[tuple[str, Value]]:
    """Values by `<global table>`, or by `<global table>:<topic>`."""
    for name, value in values.items():
        table, colon, topic = name.partition(":")
        if not _is_overwritten(table, names):
            yield f"{names.get(table, table)}{colon}{topic}", value


def _is_overwritten(name: str, names: Mapping[str, str]) -> bool:
    """Whether something else gets this name, and its owner gets no other: the owner was removed before."""
    return name not in names and name in names.values()


def _without_overwritten(values: Mapping[str, Value], names: Mapping[str, str]) -> dict[str, Value]:
    return {name: value for name, value in values.items() if not _is_overwritten(name, names)}


def _rename_keys(values: Mapping[str, Value], names: Mapping[str, str]) -> dict[str, Value]:
    return {names.get(name, name): value for name, value in _without_overwritten(values, names).items()}


def _rename_all(values: Iterable[str], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names.get(name, name) for name in values)
