"""Descriptions of topologies, topics and stores in commits."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from ...environment import duration_text, parse_duration
from ...ir.topology import (
    Agg,
    Assignment,
    PluginRef,
    StepText,
    Store,
    StoreFiller,
    Subtopology,
    Topic,
    Topology,
)
from ...ir.windows import AnyWindow, JoinWindow, SessionWindow, SlidingWindow, Window
from ...records.schema import ColumnChanges, readable
from ...records.types import columns_ddl, parse_columns
from ...records.window_keys import row_step

# Settings of a topology other than its wiring, stores and steps, as texts, so that a later run can name changed
# settings. They do not affect what is committed.

Settings = Mapping[str, Mapping[str, str]]

TOPOLOGY = "topology"
"""The owner of settings of the whole topology."""

OPTIONS = "options"
"""The kind of settings that are options of a store's backend. Their names are up to the backend."""

_STORE_SETTINGS = frozenset({"changelog cleanup"})
_GLOBAL_TABLE_SETTINGS = frozenset({"topic", "backend", *_STORE_SETTINGS})


def settings_of(topology: Topology) -> dict[str, dict[str, str]]:
    """Owner -> setting -> its value as in YAML.

    The owner is `topology`, `<kind> <name>` of a flow, topic or store, or `options <store>`.
    """
    settings: dict[str, dict[str, str]] = {TOPOLOGY: dict(_topology_settings(topology))}
    for part in topology.subtopologies:
        for flow, setting, value in (*part.settings, *_policies(part)):
            settings.setdefault(f"flow {flow}", {})[setting] = value
        for topic in (*part.sources, *part.sinks):
            if not topic.name.startswith(f"{topology.application}-"):
                settings.setdefault(f"topic {topic.name}", {}).update(_topic_settings(topology, part, topic))
        for table in part.global_tables:
            settings[f"store {table.store.name}"] = {"topic": table.topic.name, "backend": table.store.backend}
        for store in (*part.stores, *(table.store for table in part.global_tables)):
            settings.setdefault(f"store {store.name}", {})["changelog cleanup"] = store.changelog_cleanup
            settings[f"{OPTIONS} {store.name}"] = {option: _text(value) for option, value in store.options.items()}

    return {owner: values for owner, values in settings.items() if values}


def with_separate_options(settings: Settings, stores: Collection[str]) -> dict[str, Mapping[str, str]]:
    """The settings in their present form: earlier versions wrote the options of a store among its settings.

    `stores`: those that are no global tables.
    """
    separated: dict[str, Mapping[str, str]] = dict(settings)
    for owner, values in settings.items():
        kind, _, store = owner.partition(" ")
        known = _STORE_SETTINGS if store in stores else _GLOBAL_TABLE_SETTINGS
        if kind == "store" and values.keys() - known:
            separated[owner] = {setting: value for setting, value in values.items() if setting in known}
            separated[f"{OPTIONS} {store}"] = {option: value for option, value in values.items() if option not in known}
    return separated


def _topology_settings(topology: Topology) -> Iterator[tuple[str, str]]:
    yield "restore", _plugin(topology.restore)
    for field_ in fields(Assignment):
        value = getattr(topology.assignment, field_.name)
        yield field_.name, _plugin(value) if isinstance(value, PluginRef) else _text(value)


def _policies(part: Subtopology) -> Iterator[tuple[str, str, str]]:
    for step in part.steps:
        if step.at in part.on_error:
            yield step.flow, "on_error", part.on_error[step.at]


def _topic_settings(topology: Topology, part: Subtopology, topic: Topic) -> Iterator[tuple[str, str]]:
    if topic in part.sources:
        yield "on_error", topic.on_error
        letters = part.dead_letters.get(topic.name)
        yield "dead letters", letters.name if letters else "none"
    if topic.writer in (None, topology.application):  # else its writer has these settings
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


# Descriptions of topics, stores and subtopologies in the log, as plain data. `encoding` encodes them.
#
# A generation record describes the whole application (`TopologyDescription`), an append its topic (`ExternalTopic`).
# Older logs lack some fields, which have defaults then.


@dataclass(frozen=True, kw_only=True)
class TopicDeclaration:
    """The part of a topic's declaration that its records depend on. While the topic has records, only its value columns
    may change, and only if the records remain readable (see `records.schema.readable`).

    `since`: for an external topic, the commit with which it starts; None if unknown. `earlier`: other lists of value
    columns with which records were written before.
    """

    partitions: int
    key: str
    value: str
    windowed: bool = False
    since: int | None = None
    earlier: tuple[str, ...] = ()

    seldom: ClassVar[tuple[str, ...]] = ("earlier",)

    def changes(self, topic: Topic | TopicDeclaration) -> tuple[dict[str, Any], dict[str, Any]]:
        """The fields that differ: their recorded values, and their present values."""
        now = declaration_fields(topic)
        differ = [name for name, value in now.items() if getattr(self, name) != value]
        return {name: getattr(self, name) for name in differ}, {name: now[name] for name in differ}

    def obstacles(self, topic: Topic | TopicDeclaration) -> tuple[dict[str, Any], dict[str, Any]]:
        """The `changes` that make records unreadable.

        Of `value`, only columns with incompatible types are included. A type may be from `earlier`: of a column that
        was dropped and added again.
        """
        was, is_ = self.changes(topic)
        was.pop("value", None)
        is_.pop("value", None)
        now = parse_columns(topic.value)
        for value in (self.value, *self.earlier):
            then = parse_columns(value)
            wrong = [name for name in now if name in then and not readable(then[name], now[name])]
            if wrong:
                was["value"] = columns_ddl({name: then[name] for name in wrong})
                is_["value"] = columns_ddl({name: now[name] for name in wrong})
                break
        return was, is_

    def with_earlier(self, previous: TopicDeclaration | None) -> Self:
        """This declaration, if the topic also has records of the declaration `previous`."""
        if previous is None:
            return self
        own = parse_columns(self.value)
        columns = dict.fromkeys((*previous.earlier, previous.value))
        return replace(self, earlier=tuple(value for value in columns if parse_columns(value) != own))

    def missing_columns(self, topic: Topic | TopicDeclaration) -> tuple[str, ...]:
        """The value columns of `topic` that some records do not have: they are null there."""
        then = [parse_columns(value) for value in (self.value, *self.earlier)]
        return tuple(name for name in parse_columns(topic.value) if not all(name in columns for columns in then))


@dataclass(frozen=True)
class FormerLayout:
    """The partitioning of a topic before a repartition. `since`: see `TopicDeclaration`, 0 if unknown."""

    since: int
    partitions: int
    key: str

    as_list: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class ExternalTopic(TopicDeclaration):
    """An external topic, as declared at an append.

    `moved`: earlier partitionings. Positions from that time are not valid any more.
    """

    name: str
    moved: tuple[FormerLayout, ...] = ()

    seldom: ClassVar = ("earlier", "moved")

    def was_moved(self, since: int | None) -> bool:
        """Whether the topic was repartitioned after it was read. `since`: the topic's start as its reader knew it."""
        return (
            bool(self.moved)
            and since != self.since
            and (since is None or any(since == layout.since for layout in self.moved))
        )

    def can_move_to(self, topic: Topic | TopicDeclaration) -> bool:
        """Whether a repartition makes the records readable as `topic`.

        Then only the number of partitions differs, or the key, and the existing columns contain the key.
        """
        was, _ = self.obstacles(topic)
        if not was or was.keys() - {"partitions", "key"}:
            return False
        return "key" not in was or (not self.windowed and self._has_key_of(topic))

    def moved_to(self, topic: Topic) -> ExternalTopic:
        """The declaration after a repartition as `topic`. Columns of the previous key are kept."""
        columns = parse_columns(self.key) | parse_columns(self.value)
        previous = self if self.key == topic.key else replace(self, value=columns_ddl(columns))
        return ExternalTopic.from_topic(topic).with_earlier(previous)

    def _has_key_of(self, topic: Topic | TopicDeclaration) -> bool:
        key, value = parse_columns(self.key), parse_columns(self.value)
        earlier = [value, *map(parse_columns, self.earlier)]
        for name, wanted in parse_columns(topic.key).items():
            types = [key[name]] if name in key else [columns[name] for columns in earlier if name in columns]
            if not types or not all(readable(stored, wanted) for stored in types):
                return False
        now = parse_columns(topic.value)
        return all(readable(key[name], now[name]) for name in key if name in now and name not in value)

    @classmethod
    def from_topic(cls, topic: Topic) -> ExternalTopic:
        """From the present declaration."""
        return cls(name=topic.name, **declaration_fields(topic))


@dataclass(frozen=True, kw_only=True)
class UsedTopic(TopicDeclaration):
    """A topic that an application reads or writes.

    `writer`: the application that writes it, None for an external topic. `global_`: whether it is the source of a
    global table. `kafka_id`: the id of a topic in Kafka, to which positions belong; empty in a manifest, None for a
    topic of the log. `first`: the offset of each of its partitions from which on the application has read it.
    """

    writer: str | None = None
    global_: bool = False
    kafka_id: str | None = None
    first: tuple[int, ...] = ()

    seldom: ClassVar[tuple[str, ...]] = ("earlier", "kafka_id", "first")


def declaration_fields(topic: Topic | TopicDeclaration) -> dict[str, Any]:
    """The fields of a `TopicDeclaration`, by name."""
    return {"partitions": topic.partitions, "key": topic.key, "value": topic.value, "windowed": topic.windowed}


def declaration_text(was: Mapping[str, Any], is_: Mapping[str, Any]) -> str:
    """The differences between two declarations, for users; see `TopicDeclaration.changes`."""
    return "; ".join(_field_text(name, was[name], is_[name]) for name in was)


def _field_text(name: str, was: Any, is_: Any) -> str:
    if name in ("key", "value"):
        title = "columns" if name == "value" else name
        return f"{title}: {', '.join(ColumnChanges.between(was, is_).lines)}"
    if name == "windowed":
        return "its key has a window now" if is_ else "its key has no window any more"
    return f"{name} was {was} and is {is_}"


@dataclass(frozen=True)
class AggregateDescription:
    """An aggregate of a store. `of`: the type of its column, None for `count(*)`."""

    name: str
    function: str
    of: str | None = None
    options: tuple[Any, ...] = ()

    as_list: ClassVar[bool] = True


@dataclass(frozen=True)
class StoreDescription:
    """A store of an application.

    `aggregates`: its hidden state; `shown`: the same as in YAML, empty in older logs. `window`: size and advance, the
    gap of sessions, or the time difference of sliding windows and 0, ms. `settings`: how the store is kept, as in YAML,
    empty in older logs. `within`: for a stream-stream join, how far before and after a record of this side matching
    records may be, ms. `segment`: the length of segments in window and session stores of processors, ms; None in older
    logs: half the retention, without a minimum.
    """

    partitions: int
    type: str
    key: str
    value: str
    aggregates: tuple[AggregateDescription, ...] = ()
    shown: tuple[str, ...] = ()
    window: tuple[int, ...] | None = None
    changelog: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)
    within: tuple[int, int] | None = None
    segment: int | None = None

    seldom: ClassVar[tuple[str, ...]] = ("within", "segment")

    @property
    def given_retention(self) -> str | None:
        """The retention of window and session stores of processors, on which the keys of rows depend; None for other
        stores.
        """
        windowed = self.type in ("window", "session") and self.window is None and self.within is None
        return self.settings.get("retention") if windowed else None

    @property
    def given_segment(self) -> int | None:
        """The length of segments in window and session stores of processors, ms; None for other stores."""
        if self.segment is not None or self.given_retention is None:
            return self.segment
        return max(parse_duration(self.given_retention) // 2, 1)

    @classmethod
    def from_store(cls, store: Store) -> StoreDescription:
        """From the present declaration."""
        window = store.window
        return cls(
            store.partitions,
            store.type,
            store.key,
            store.value,
            tuple(map(_aggregate, store.aggregates)),
            tuple(f"{aggregate.name}: {aggregate.text}" for aggregate in store.aggregates),
            None if isinstance(window, JoinWindow) else _lengths(window),
            store.changelog,
            dict(_settings(store)),
            (window.before_ms, window.after_ms) if isinstance(window, JoinWindow) else None,
            row_step(store) if store.keeps_given_windows else None,
        )


@dataclass(frozen=True)
class TopicStart:
    """Where a new reader of a topic starts, if not at the first record. `start`: as in YAML."""

    topic: str
    start: str

    as_list: ClassVar[bool] = True


@dataclass(frozen=True)
class SubtopologyDescription:
    """Names of the topics and stores of a subtopology, and its steps.

    `starts`: for sources that do not start at the first record. `fillers`: what writes the rows of each store.
    `answers`: response topics of foreign-key joins among the sources, for which no task waits. `regrouping`: see
    `Subtopology`. `steps`, `fillers` and `regrouping` are empty in older logs.
    """

    partitions: int
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    stores: tuple[str, ...] = ()
    steps: tuple[StepText, ...] = ()
    starts: tuple[TopicStart, ...] = ()
    fillers: tuple[StoreFiller, ...] = ()
    answers: tuple[str, ...] = ()
    regrouping: tuple[int, ...] = ()

    seldom: ClassVar[tuple[str, ...]] = ("steps", "starts", "fillers", "answers", "regrouping")

    @classmethod
    def from_subtopology(cls, part: Subtopology) -> SubtopologyDescription:
        """From the present subtopology."""
        sources, sinks = ([topic.name for topic in topics] for topics in (part.sources, part.sinks))
        stores = tuple(store.name for store in part.stores)
        starts = tuple(TopicStart(topic, start) for topic, start in sorted(part.starts.items()))
        names = tuple(sources), tuple(sinks), stores
        return cls(part.partitions, *names, part.steps, starts, part.fillers, part.answers, part.regrouping)


@dataclass(frozen=True)
class TopologyDescription:
    """An application: its subtopologies, topics and stores, by name.

    Other applications find the writers of their sources here, and the next start compares it with its own topology.
    `incarnation`: changes with a full refresh. Stores and commits of earlier ones are not valid. Empty in older logs.
    `settings`: see `settings_of`, empty in older logs. `targets`: see `Topology`.
    """

    name: str = ""
    version: str = ""
    content_hash: str = ""
    subtopologies: Mapping[str, SubtopologyDescription] = field(default_factory=dict)
    topics: Mapping[str, UsedTopic] = field(default_factory=dict)
    stores: Mapping[str, StoreDescription] = field(default_factory=dict)
    incarnation: str = ""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)

    seldom: ClassVar[tuple[str, ...]] = ("settings", "targets")

    @property
    def flows(self) -> dict[str, list[StepText]]:
        """Flow or table -> its steps. Empty in older logs."""
        flows: dict[str, list[StepText]] = {}
        for part in self.subtopologies.values():
            for step in part.steps:
                flows.setdefault(step.flow, []).append(step)
        return flows

    @property
    def regrouping(self) -> dict[str, list[StepText]]:
        """Flow or table -> its steps that decide the groups of a table's rows."""
        flows: dict[str, list[StepText]] = {}
        for part in self.subtopologies.values():
            for number in part.regrouping:
                flows.setdefault(part.steps[number].flow, []).append(part.steps[number])
        return flows

    @property
    def written(self) -> frozenset[str]:
        """The topics that the application writes."""
        return frozenset(topic for part in self.subtopologies.values() for topic in part.sinks)

    def raw_source(self, topic: str) -> str | None:
        """The raw topic that is copied to a topic; None if it is no copy."""
        return next(
            (
                source
                for part in self.subtopologies.values()
                if topic in part.sinks
                for source in part.sources
                if self.topics[source].kafka_id is not None
            ),
            None,
        )

    def with_kafka_id(self, topic: str, kafka_id: str) -> Self:
        """This description, with the present id of a raw topic. Nothing was read of one with another id.

        For a topic that is written to Kafka: with the token of the present topic there.
        """
        if topic in self.targets:
            return replace(self, targets={**self.targets, topic: kafka_id})
        used = self.topics[topic]
        now = used if used.kafka_id == kafka_id else replace(used, kafka_id=kafka_id, first=())
        return replace(self, topics={**self.topics, topic: now})

    @classmethod
    def from_topology(
        cls,
        topology: Topology,
        begun: Mapping[str, int] | None = None,
        incarnation: str = "",
        before: TopologyDescription | None = None,
    ) -> TopologyDescription:
        """From the present topology. `begun`: external topic -> the commit with which it starts.

        `before`: the description of the topology that has written records so far.
        """
        parts = topology.subtopologies
        tables = {table.topic.name: table.topic for part in parts for table in part.global_tables}
        written = before.topics if before is not None else {}
        topics = {
            topic.name: UsedTopic(
                writer=topic.writer,
                global_=topic.name in tables,
                since=(begun or {}).get(topic.name),
                kafka_id=topic.kafka.id if topic.kafka is not None else None,
                **declaration_fields(topic),
            ).with_earlier(written.get(topic.name) if topic.writer == topology.application else None)
            for part in parts
            for topic in (*part.sources, *part.sinks, *tables.values())
        }
        return cls(
            topology.name,
            topology.version,
            topology.content_hash,
            {part.name: SubtopologyDescription.from_subtopology(part) for part in parts},
            topics,
            {store.name: StoreDescription.from_store(store) for part in parts for store in part.stores},
            incarnation,
            settings_of(topology),
            topology.targets,
        )


def _aggregate(aggregate: Agg) -> AggregateDescription:
    return AggregateDescription(aggregate.name, aggregate.function, aggregate.of, tuple(aggregate.options))


def _lengths(window: AnyWindow | None) -> tuple[int, ...] | None:
    match window:
        case None:
            return None
        case SessionWindow():
            return (window.gap_ms,)
        case SlidingWindow():
            return (window.difference_ms, 0)
        case Window():
            return (window.size_ms, window.advance_ms)


def _settings(store: Store) -> Iterator[tuple[str, str]]:
    yield "backend", store.backend
    if store.window is not None:
        yield "grace", duration_text(store.window.grace_ms)
    yield "retention", "forever" if store.kept_ms is None else duration_text(store.kept_ms)
