"""Descriptions of topologies in commits."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from ...environment import duration_text, parse_duration
from ...ir.topology import Agg, Assignment, PluginRef, StepText, Store, StoreFiller, Subtopology, Topic, Topology
from ...ir.windows import AnyWindow, JoinWindow, SessionWindow, SlidingWindow, Window
from ...records.join_keys import row_step
from ...records.schema import ColumnChanges, readable
from ...records.types import columns_ddl, parse_columns

# What a topology's files say beside its wiring, its stores and its steps, in words: so that a later run can name each
# setting that has changed. None of them changes what is committed.

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


# Descriptions of topics, stores and subtopologies in the log, as plain data. `encoding` makes bytes of them.
#
# A generation record describes the whole application (`TopologyDescription`), an append the topic that it feeds
# (`FedTopic`). Older logs lack some fields, which then have defaults.


@dataclass(frozen=True, kw_only=True)
class TopicDeclaration:
    """What a topic's declaration says of its records. While it holds some, only its value columns may change, and only
    so that these records can still be read (see `records.widening`).

    `since`: of a topic that is fed from outside, the commit with which it began; None until that is known. `earlier`:
    the lists of value columns, other than `value`, under which records were written before.
    """

    partitions: int
    key: str
    value: str
    windowed: bool = False
    since: int | None = None
    earlier: tuple[str, ...] = ()

    seldom: ClassVar[tuple[str, ...]] = ("earlier",)

    def changes(self, topic: Topic | TopicDeclaration) -> tuple[dict[str, Any], dict[str, Any]]:
        """The fields that differ, each with its value when this was recorded and its value now."""
        now = declared(topic)
        differ = [name for name, value in now.items() if getattr(self, name) != value]
        return {name: getattr(self, name) for name in differ}, {name: now[name] for name in differ}

    def obstacles(self, topic: Topic | TopicDeclaration) -> tuple[dict[str, Any], dict[str, Any]]:
        """Those of the `changes` with which the records cannot be read any more.

        Of the value these are only the columns of another type. It may be one of a time before `value`: a column that
        was dropped and comes back.
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

    def after(self, known: TopicDeclaration | None) -> Self:
        """The same declaration of a topic that was declared as is `known` before, and has records of that time."""
        if known is None:
            return self
        own = parse_columns(self.value)
        before = dict.fromkeys((*known.earlier, known.value))
        return replace(self, earlier=tuple(value for value in before if parse_columns(value) != own))

    def lacking(self, topic: Topic | TopicDeclaration) -> tuple[str, ...]:
        """The value columns that some records do not have: null for these."""
        then = [parse_columns(value) for value in (self.value, *self.earlier)]
        return tuple(name for name in parse_columns(topic.value) if not all(name in columns for columns in then))


@dataclass(frozen=True)
class FormerLayout:
    """How the records of a topic lay before they were put into other partitions. `since`: see `TopicDeclaration`, 0
    where that was not known.
    """

    since: int
    partitions: int
    key: str

    as_list: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class FedTopic(TopicDeclaration):
    """A topic as it was declared when it was fed from outside.

    `moved`: where its records lay before. Positions of that time are none in the topic as it is now.
    """

    name: str
    moved: tuple[FormerLayout, ...] = ()

    seldom: ClassVar = ("earlier", "moved")

    def was_moved(self, since: int | None) -> bool:
        """Whether the records were put into other partitions after they were read as of a topic that began with commit
        `since`.
        """
        return (
            bool(self.moved)
            and since != self.since
            and (since is None or any(since == each.since for each in self.moved))
        )

    def can_move_to(self, topic: Topic | TopicDeclaration) -> bool:
        """Whether all that keeps the records from being read as `topic` is where they lie: its partition count, or a
        key that can be made of the columns that they have.
        """
        was, _ = self.obstacles(topic)
        if not was or was.keys() - {"partitions", "key"}:
            return False
        return "key" not in was or (not self.windowed and self._has_key_of(topic))

    def moved_to(self, topic: Topic) -> FedTopic:
        """The declaration once the records are where `topic` has them. Columns of the key of before are kept."""
        kept = parse_columns(self.key) | parse_columns(self.value)
        known = self if self.key == topic.key else replace(self, value=columns_ddl(kept))
        return FedTopic.of(topic).after(known)

    def _has_key_of(self, topic: Topic | TopicDeclaration) -> bool:
        key, value = parse_columns(self.key), parse_columns(self.value)
        earlier = [value, *map(parse_columns, self.earlier)]
        for name, wanted in parse_columns(topic.key).items():
            have = [key[name]] if name in key else [columns[name] for columns in earlier if name in columns]
            if not have or not all(readable(each, wanted) for each in have):
                return False
        now = parse_columns(topic.value)
        return all(readable(key[name], now[name]) for name in key if name in now and name not in value)

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


def declared(topic: Topic | TopicDeclaration) -> dict[str, Any]:
    """The declaration, by field."""
    return {"partitions": topic.partitions, "key": topic.key, "value": topic.value, "windowed": topic.windowed}


def declaration_text(was: Mapping[str, Any], is_: Mapping[str, Any]) -> str:
    """How two declarations differ, for people; see `TopicDeclaration.changes`."""
    return "; ".join(_facet_text(facet, was[facet], is_[facet]) for facet in was)


def _facet_text(facet: str, was: Any, is_: Any) -> str:
    if facet in ("key", "value"):
        word = "columns" if facet == "value" else facet
        return f"{word}: {', '.join(ColumnChanges.between(was, is_).lines)}"
    if facet == "windowed":
        return "its key has a window now" if is_ else "its key has no window any more"
    return f"{facet} was {was} and is {is_}"


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
    in older logs. `window`: size and advance, the gap of sessions, or the difference of sliding windows and 0, ms.
    `settings`: how it is kept, in the words of the YAML, empty in older logs too. `within`: of the records of a join of
    streams, how far before and after a record of this side those of the other may be, ms. `segment`: of windows or
    sessions that processors give, how long a segment is, ms; None in older logs: half a retention, however short.
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
        """How long the windows or sessions are kept that processors give: it decides where their rows lie. None for
        other stores.
        """
        windowed = self.type in ("window", "session") and self.window is None and self.within is None
        return self.settings.get("retention") if windowed else None

    @property
    def given_segment(self) -> int | None:
        """How long the segments of such windows or sessions are, ms, in which their rows lie. None for other stores."""
        if self.segment is not None or self.given_retention is None:
            return self.segment
        return max(parse_duration(self.given_retention) // 2, 1)

    @classmethod
    def of(cls, store: Store) -> StoreDescription:
        """The store as it is declared now."""
        window = store.window
        return cls(
            store.partitions,
            store.type,
            store.key,
            store.value,
            tuple(map(_aggregate, store.aggregates)),
            tuple(f"{each.name}: {each.text}" for each in store.aggregates),
            None if isinstance(window, JoinWindow) else _lengths(window),
            store.changelog,
            dict(_settings(store)),
            (window.before_ms, window.after_ms) if isinstance(window, JoinWindow) else None,
            row_step(store) if store.keeps_given_windows else None,
        )


@dataclass(frozen=True)
class TopicStart:
    """Where a new reader of a topic begins, if not at the first record: `start`, in the words of the YAML."""

    topic: str
    start: str

    as_list: ClassVar[bool] = True


@dataclass(frozen=True)
class SubtopologyDescription:
    """What a subtopology reads, writes and keeps, by name. `steps`: what it does, empty in older logs. `starts`: of the
    sources that do not begin at the first record. `fillers`: of each store what writes its rows, empty in older logs.
    `answers`: those of the sources for which nobody waits. `regrouping`: see `Subtopology`, empty in older logs.
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
    def of(cls, part: Subtopology) -> SubtopologyDescription:
        """The subtopology as it is now."""
        sources, sinks = ([topic.name for topic in topics] for topics in (part.sources, part.sinks))
        stores = tuple(store.name for store in part.stores)
        starts = tuple(TopicStart(topic, start) for topic, start in sorted(part.starts.items()))
        names = tuple(sources), tuple(sinks), stores
        return cls(part.partitions, *names, part.steps, starts, part.fillers, part.answers, part.regrouping)


@dataclass(frozen=True)
class TopologyDescription:
    """An application: who reads and writes what, and the stores it keeps, by name.

    Readers in other applications learn their writers from it, and the next start compares it with its own topology.
    `incarnation`: a new one begins when the application is fully refreshed. Stores and commits of an
    earlier one do not count. Empty in logs of versions without it. `settings`: see `settings_of`, empty in older logs.
    """

    name: str = ""
    version: str = ""
    content_hash: str = ""
    subtopologies: Mapping[str, SubtopologyDescription] = field(default_factory=dict)
    topics: Mapping[str, UsedTopic] = field(default_factory=dict)
    stores: Mapping[str, StoreDescription] = field(default_factory=dict)
    incarnation: str = ""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    seldom: ClassVar[tuple[str, ...]] = ("settings",)

    @property
    def flows(self) -> dict[str, list[StepText]]:
        """Flow or table -> its steps. Empty in older logs."""
        found: dict[str, list[StepText]] = {}
        for part in self.subtopologies.values():
            for step in part.steps:
                found.setdefault(step.flow, []).append(step)
        return found

    @property
    def regrouping(self) -> dict[str, list[StepText]]:
        """Flow or table -> those of its steps that say to which groups the rows of a table are added."""
        found: dict[str, list[StepText]] = {}
        for part in self.subtopologies.values():
            for number in part.regrouping:
                found.setdefault(part.steps[number].flow, []).append(part.steps[number])
        return found

    @property
    def written(self) -> frozenset[str]:
        """The topics that it writes."""
        return frozenset(topic for part in self.subtopologies.values() for topic in part.sinks)

    @classmethod
    def of(
        cls,
        topology: Topology,
        begun: Mapping[str, int] | None = None,
        incarnation: str = "",
        before: TopologyDescription | None = None,
    ) -> TopologyDescription:
        """The topology as it is now. `begun`: topic fed from outside -> the commit with which it began.

        `before`: the topology that has written records so far.
        """
        parts = topology.subtopologies
        tables = {table.topic.name: table.topic for part in parts for table in part.global_tables}
        written = before.topics if before is not None else {}
        topics = {
            topic.name: UsedTopic(
                writer=topic.writer,
                global_=topic.name in tables,
                since=(begun or {}).get(topic.name),
                **declared(topic),
            ).after(written.get(topic.name) if topic.writer == topology.application else None)
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
            settings_of(topology),
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
