"""Compares a topology and its topics with their committed state."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...readable_text import counted
from ..ingest.append import AppendedUnknownError, appended_records
from ..ir.topology import Topic, Topology, group_of_start
from ..log.commit.descriptions import ExternalTopic, TopologyDescription, UsedTopic
from ..log.declared_topics import WriterChangedError, changed_writers, check_declaration, recorded_declaration
from ..log.errors import TopicChangedError, read_to_append
from ..log.placed_log import handed
from ..progress.committed import Committed
from ..records.types import parse_columns
from .facets import (
    CATCH_UP,
    COLUMNS_CHANGED,
    TOPIC_KEY,
    UNREADABLE,
    columns_change,
    other_expressions,
    setting_changes,
    store_differences,
    topic_differences,
)
from .model import (
    FROM_THE_FIRST,
    Change,
    Subject,
    SubjectKind,
    Verdict,
    Way,
    called_before,
    start_again,
    ways_back,
    ways_onward,
    ways_to_declare,
)
from .repartition import REPARTITIONED
from .steps import REGROUPED, RENAMED, STAYS, fillers, flow_changes

FED = "topic.fed"
"""The kind of a change: a topic that an application writes now was external, and has records."""

OTHER_WRITER = "topic.writer"
"""The kind of a change: another application has written a topic."""


def topic_changes(topology: Topology, committed: Committed, owned: Collection[str] | None = None) -> Iterator[Change]:
    """Topics with another writer or another declaration in the log. `owned`: see `changes_of`."""
    read = {topic.name: topic for topic in topology.read}
    written = {topic.name: topic for topic in topology.written}
    topics = (read | written).values()
    for changed in changed_writers(committed.log, topology.project, topics, committed.states):
        yield written_by_another(topology.application, changed, owned)
    for topic in written.values():
        yield from _external_so_far(topology.application, topic.name, committed)
    for name in sorted(written.keys() & handed(committed.log, topology.application)):
        yield Change(
            "topic.returned",
            Subject("topic", name, topology.application),
            Verdict.ERROR,
            f"{topology.name} has written it before, and its records of that time were dropped, so its result would "
            "lack them",
            ways=ways_back(topology.application),
        )
    for topic in read.values():
        if topic.writer != topology.application:  # `comparison` compares topics that it writes itself
            yield from _declared_otherwise(topology.application, topic, committed)


def _external_so_far(application: str, topic: str, committed: Committed) -> Iterator[Change]:
    """The change for a topic that the application writes now and that was external, if it has records."""
    fed, used = committed.states[committed.seeds], committed.described().topics.get(topic)
    if topic not in fed.written() or (used is not None and used.writer == application):
        return
    subject, new = Subject("topic", topic, application), application.partition("-")[2]
    try:
        appended = appended_records(fed, topic)
    except AppendedUnknownError:
        appended = 1
    if not appended:
        what = f"it was seeded so far, and is written by {application} now: the seed has no readers any more"
        yield Change(FED, subject, Verdict.COMPATIBLE, what)
        return
    copied = f"{read_to_append(topic)} | headwater seed OTHER --append && headwater remove {topic}"
    yield Change(
        FED,
        subject,
        Verdict.ERROR,
        f"it was external so far, and is written by {application} now: its appended records would have no readers any "
        "more",
        ways=(
            Way(f"have {new} write a topic of another name, and merge the two"),
            Way("copy its records to a topic OTHER that you declare, and remove them here", copied),
        ),
    )


def written_by_another(application: str, changed: WriterChangedError, owned: Collection[str] | None) -> Change:
    """The change of an application whose topic another one has written. `owned`: see `changes_of`."""
    old = changed.was.partition("-")[2]
    if changed.is_ is None:
        return _external_now(application, changed)
    selected = f"{changed.is_.partition('-')[2]}+"
    what = f"start {selected.removesuffix('+')} and its readers {FROM_THE_FIRST}"
    again = start_again(what, selected)
    both = start_again(f"the same, if topology {old} is still in the project", f"{old}+ {selected}")
    ways: tuple[Way, ...] = (Way(f"let topology {old} write it again"), again, both)
    if owned is not None:
        # The command of both starts what the first one starts, and the former writer too.
        ways = (ways[0], Way(again.what, both.command)) if changed.was in owned else ways[:2]
    if changed.was not in (owned or ()):
        ways = (called_before(changed.is_.partition("-")[2], old), *ways)
    return Change(
        OTHER_WRITER,
        Subject("topic", changed.topic, application),
        Verdict.ERROR,
        f"it was written by {changed.was} so far, and is written by {changed.is_} now",
        ways=ways,
    )


def _external_now(application: str, changed: WriterChangedError) -> Change:
    topic, kept = changed.topic, f"{changed.topic}.jsonl"
    copied = (
        f"{read_to_append(topic)} > {kept} && headwater remove {topic} && headwater seed {topic} --append --file {kept}"
    )
    return Change(
        OTHER_WRITER,
        Subject("topic", topic, application),
        Verdict.ERROR,
        f"it was written by {changed.was} so far, and is external now",
        ways=(
            Way(f"let topology {changed.was.partition('-')[2]} write it again"),
            Way("keep its records, as those of an external topic; a run rebuilds its readers", copied),
            Way("remove its records; a run rebuilds its readers", f"headwater remove {topic}"),
        ),
    )


def _declared_otherwise(application: str, topic: Topic, committed: Committed) -> Iterator[Change]:
    subject = Subject("topic", topic.name, application)
    try:
        check_declaration(topic, committed.writer(topic))
    except TopicChangedError as error:
        now = ExternalTopic.from_topic(topic)
        was, is_ = dict[str, Any](error.was), dict[str, Any](error.is_)  # only the obstructing columns
        for difference in topic_differences(replace(now, **was), replace(now, **is_)):
            yield Change(
                f"topic.{difference.facet}",
                subject,
                Verdict.ERROR,
                UNREADABLE if difference.facet == "columns" else f"{difference.what} since its records were written",
                difference.lines,
                ways=ways_to_declare(error, committed.writer(topic), topic),
            )
        return
    recorded = recorded_declaration(topic, committed.writer(topic))
    # The columns of another application's topic are a change of that one.
    if recorded is not None and topic.writer is None and (change := columns_change(subject, recorded, topic)):
        yield change


_SETTINGS = {
    "grace": f"it applies from the next record on; {STAYS}",
    "retention": "it applies from now on, and expired rows do not come back",
}
"""Setting of a store (see `StoreDescription`) that decides its rows -> how a change applies without a rebuild."""


REFRESHED = "topic.refreshed"
"""The kind of a change of the log: a topic was fully refreshed after it was read."""

SOMETHING_ELSE = "topology.content"
"""The kind of a change of an unknown setting, which an earlier version has not recorded."""

KAFKA_REPLACED = "topic.kafka_replaced"
"""The kind of a change: a topic was deleted in Kafka and created again."""

KAFKA_ADDED = "topic.kafka_partitions"
"""The kind of a change: a topic has more partitions in Kafka."""

OTHER_READER = "topic.reader"
"""The kind of a change: a subtopology of another name reads a topic."""


@dataclass(frozen=True)
class Comparison:
    """Compares a committed topology with the present one.

    A difference changes the meaning of committed positions, stores or topics. A new store is one too once records have
    been consumed: it would miss them. `places`: store -> `file:line` of the step that uses it. `unread`: repartition
    topics with unread records. `moved`: topics that were repartitioned since. `of_tables`: stores of aggregates of
    tables.
    """

    application: str
    committed: TopologyDescription
    current: TopologyDescription
    places: Mapping[str, str] = field(default_factory=dict)
    unread: Collection[str] = ()
    moved: Collection[str] = ()
    of_tables: Collection[str] = ()

    @classmethod
    def of(
        cls,
        topology: Topology,
        committed: TopologyDescription,
        current: TopologyDescription,
        unread: Collection[str] = (),
        moved: Collection[str] = (),
    ) -> Comparison:
        """The comparison of a topology, with the locations of its stores."""
        places = {store: place for part in topology.subtopologies for store, place in part.places.items()}
        of_tables = {store for part in topology.subtopologies for store in part.of_tables}
        return cls(topology.application, committed, current, places, unread, moved, of_tables)

    def changes(self, consumed: bool) -> tuple[Change, ...]:
        """The changes. `consumed`: whether the application has consumed a record; before that there are none.

        External topics without a global table are compared by key and partition count only: another selection of their
        value columns does not affect the committed state.
        """
        if not self.committed.subtopologies or not consumed:
            return ()
        changes = (
            *self._stores(),
            *self._kept_otherwise(),
            *self._moved(),
            *self._read_by_others(),
            *self._topics(),
            *self._starts(),
            *flow_changes(self.application, self.committed, self.current),
        )
        if any(change.verdict is Verdict.ERROR for change in changes):
            changes = tuple(map(_with_former_name, changes))
        if not self.committed.settings:  # of a version that has not recorded them
            return changes or tuple(self._something_else())
        return (*changes, *setting_changes(self.application, self.committed, self.current, self.places))

    def _stores(self) -> Iterator[Change]:
        old, new = self.committed.stores, self.current.stores
        for name in sorted(old.keys() & new.keys()):
            for difference in store_differences(old[name], new[name]):
                yield self._refused(f"store.{difference.facet}", "store", name, difference.what, difference.lines)
        gone, come = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
        kept_in = _kept_in(self.committed)
        for name in gone:
            if name in kept_in and kept_in[name] not in self.current.subtopologies:
                yield self._compatible("store.removed", name, "it is gone with all that filled it")
                continue
            same = next(
                (candidate for candidate in come if not list(store_differences(old[name], new[candidate]))), None
            )
            what = "it is gone" + (f"; is {same} its new name?" if same else "")
            yield self._refused("store.removed", "store", name, what)
        for name in come:
            yield self._refused("store.added", "store", name, "it is new, and would miss the records consumed before")
        for name in sorted(old.keys() & new.keys()):
            if new[name].changelog and not old[name].changelog:
                what = "its changelog was not kept so far, so the store could not be restored from it"
                yield self._refused("store.changelog", "store", name, what)

    def _kept_otherwise(self) -> Iterator[Change]:
        """Stores with the same columns that are kept or computed in another way."""
        old, new = self.committed.stores, self.current.stores
        for name in sorted(old.keys() & new.keys()):
            yield from self._backend(name)
            for setting, onward in _SETTINGS.items():
                was, is_ = (stores[name].settings.get(setting) for stores in (old, new))
                if setting == "retention" and old[name].given_retention and new[name].given_retention:
                    continue  # `_stores` reports it
                if None not in (was, is_) and was != is_:
                    yield self._onward(f"store.{setting}", name, f"its {setting} was {was}, is {is_}", onward)
            if lines := other_expressions(old[name], new[name]):
                what = "its aggregates read other expressions"
                if name in self.of_tables:
                    yield self._refused("store.expressions", "store", name, f"{what}: {REGROUPED}", lines)
                    continue
                onward = "they apply from the next record on, and rows resume from their present values"
                yield self._onward("store.expressions", name, what, onward, lines)
            if old[name].changelog and not new[name].changelog:
                yield self._compatible("store.changelog", name, "its changelog is not kept any more")

    def _backend(self, name: str) -> Iterator[Change]:
        old, new = self.committed.stores[name], self.current.stores[name]
        was, is_ = (store.settings.get("backend") for store in (old, new))
        if None in (was, is_) or was == is_:
            return
        if not old.changelog:
            what = f"its backend was {was}, is {is_}, and without a changelog its rows are only in {was}"
            yield self._refused("store.backend", "store", name, what)
            return
        what = f"its backend was {was}, is {is_}; clients restore the store from its changelog"
        yield self._compatible("store.backend", name, what)

    def _something_else(self) -> Iterator[Change]:
        """A difference that an earlier version has not recorded. Columns of source topics are changes of
        their writers.
        """
        old, new = self.committed.topics, self.current.topics
        if any(new[name].value != old[name].value for name in old.keys() & new.keys()):
            return
        if self.committed.content_hash != self.current.content_hash:
            yield Change(
                SOMETHING_ELSE,
                Subject.of_topology(self.application),
                Verdict.COMPATIBLE,
                "a setting of it changed (as `on_error`, `emit`, an assignor or a topic's retention); the version of "
                "Headwater that it ran with has not recorded which: it resumes from the committed state",
            )

    def _moved(self) -> Iterator[Change]:
        """Stores that have moved to another subtopology, with other records, maybe of other keys.

        Subtopologies are compared by name: positions are kept by name, and numbers may change. If only the name is new,
        `_read_by_others` reports it. An old log without the subtopologies of stores gives no changes.
        """
        was, is_ = _kept_in(self.committed), _kept_in(self.current)
        for name in sorted(was.keys() & is_.keys()):
            there, here = self.committed.subtopologies[was[name]], self.current.subtopologies[is_[name]]
            if was[name] != is_[name] and set(there.sources) != set(here.sources):
                yield self._refused(
                    "store.moved",
                    "store",
                    name,
                    f"it was in subtopology {was[name]} (reads {', '.join(there.sources)}), and is in {is_[name]} "
                    f"(reads {', '.join(here.sources)}) now: its rows were computed from the records and keys "
                    "there, and would stay",
                )
        for name, then, now in fillers(self.committed, self.current):
            what = f"{then} wrote its rows, and {now} does now: its rows were made of other records"
            yield self._refused("store.moved", "store", name, what)

    def _read_by_others(self) -> Iterator[Change]:
        """Topics that a subtopology of another name has read.

        Positions are kept by name: it would read all records again.
        """
        old, new = _readers(self.committed), _readers(self.current)
        for topic in sorted(old.keys() & new.keys()):
            if old[topic] != new[topic]:
                what = f"it was read by {old[topic]}, and {new[topic]} would read it again from its beginning"
                yield self._refused(OTHER_READER, "topic", topic, what)

    def _topics(self) -> Iterator[Change]:
        old, new = self.committed.topics, self.current.topics
        both = sorted(old.keys() & new.keys())
        for name in both:
            since, now = old[name].since, new[name].since
            if name in self.moved:
                what = "it was repartitioned after its records were consumed"
                yield self._refused(REPARTITIONED, "topic", name, what)
            elif None not in (since, now) and now != since:  # `positions` reports a topic that has lost its records
                what = "it was fully refreshed after its records were consumed"
                yield self._refused(REFRESHED, "topic", name, what)
        for name in both:
            # Positions count the records of one writer.
            was, is_ = (topics[name].writer for topics in (old, new))
            if was != is_:
                what = f"it was {_written_by(was)} so far, and is {_written_by(is_)} now"
                yield self._refused(OTHER_WRITER, "topic", name, what)
        for name in both:
            if new[name].kafka_id is not None:
                yield from self._in_kafka(name, old[name], new[name])
                continue
            facets = TOPIC_KEY if _fed(old[name]) else (*TOPIC_KEY, "windowed")
            for difference in topic_differences(old[name], new[name], facets):
                yield self._refused(f"topic.{difference.facet}", "topic", name, difference.what, difference.lines)
            if new[name].writer == self.application or new[name].global_:
                yield from self._columns(name, old[name], new[name])

    def _in_kafka(self, name: str, old: UsedTopic, new: UsedTopic) -> Iterator[Change]:
        """A topic of Kafka that was created again, or has other partitions. Both are changes of Kafka: a rebuild would
        copy it again, without what Kafka does not have any more.
        """
        subject, topology = Subject("topic", name, self.application), self.application.partition("-")[2]
        again = start_again(f"restart {topology} and its readers with what is in Kafka now", f"{topology}+")
        if 0 < new.partitions < old.partitions:
            what = f"it has {counted(new.partitions, 'partition')} in Kafka, and had {old.partitions}"
            more = Way(f"create it again with at least {old.partitions} partitions")
            yield Change(KAFKA_REPLACED, subject, Verdict.ERROR, what, ways=(more, again))
        elif old.kafka_id and new.kafka_id and old.kafka_id != new.kafka_id:
            what = (
                "it was deleted in Kafka and created again, so positions count other records "
                f"(its id was {old.kafka_id}, is {new.kafka_id})"
            )
            move = f"headwater rewind {topology} --topic {self._copy_of(name)} --to earliest"
            way = Way("keep what was copied, and go on with the first record of the new topic", move)
            yield Change(KAFKA_REPLACED, subject, Verdict.ERROR, what, ways=(way, again))
        elif new.partitions > old.partitions:
            what = f"it has {new.partitions} partitions in Kafka, and had {old.partitions}: the new ones are read from "
            yield Change(KAFKA_ADDED, subject, Verdict.COMPATIBLE, f"{what}their first records on")

    def _copy_of(self, topic: str) -> str:
        """The topic to which a raw topic is copied; the same for others."""
        if self.current.topics[topic].kafka_id is None:
            return topic
        readers = (part for part in self.current.subtopologies.values() if topic in part.sources)
        return next((sink for part in readers for sink in part.sinks), topic)

    def _columns(self, name: str, old: UsedTopic, new: UsedTopic) -> Iterator[Change]:
        """The value columns of a topic that this application writes, or of a global table. The columns of others are
        changes of their writers, see `declared_topics`.
        """
        change = columns_change(Subject("topic", name, self.application), old, new)
        if change is None:
            return
        again = ways_back(self.application)
        lacking = ", ".join(old.missing_columns(new))
        if change.verdict is Verdict.ERROR:
            change = replace(change, ways=again)
        elif lacking and name in self.unread:
            # Null would be wrong for them: they are records in the middle of the changed flow, not old results.
            what = f"it repartitions, and has records without {lacking} that were not consumed yet"
            change = replace(change, verdict=Verdict.ERROR, what=what, ways=(CATCH_UP, again[-1]))
        elif new.writer == self.application and not all(map(self._is_new_in_sources, old.missing_columns(new))):
            # A project that had been like this from the start would have written them.
            what, onward = COLUMNS_CHANGED, change.what.removeprefix(f"{COLUMNS_CHANGED}; ")
            ways = ways_onward(self.application)
            change = replace(change, verdict=Verdict.ERROR, what=what, ways=ways, onward=onward)
        yield change

    def _is_new_in_sources(self, column: str) -> bool:
        """Whether no consumed record had a column: then its values would be null anyway."""
        old, new = self.committed.topics, self.current.topics
        sources = {topic for part in self.current.subtopologies.values() for topic in part.sources}
        read = [name for name in sources if column in parse_columns(new[name].value) and not self._is_own(name)]
        return bool(read) and all(name in old and column in old[name].missing_columns(new[name]) for name in read)

    def _is_own(self, topic: str) -> bool:
        return self.current.topics[topic].writer == self.application

    def _starts(self) -> Iterator[Change]:
        """Changed `start` of topics that have been read already."""
        old, new = _starts(self.committed), _starts(self.current)
        for topic in sorted(old.keys() & new.keys()):
            if old[topic] != new[topic]:
                what = (
                    f"its start was {old[topic]}, is {new[topic]}: that applies to new readers only, and the position "
                    f"of {self.current.name} stays"
                )
                move = f"headwater rewind {self.current.name} --topic {self._copy_of(topic)} --to {new[topic]}"
                subject = Subject("topic", topic, self.application)
                ways = () if group_of_start(new[topic]) is not None else (Way("to move it nevertheless", move),)
                yield Change("topic.start", subject, Verdict.COMPATIBLE, what, ways=ways)

    def _compatible(self, kind: str, store: str, sentence: str) -> Change:
        subject = Subject("store", store, self.application)
        return Change(kind, subject, Verdict.COMPATIBLE, sentence, place=self.places.get(store))

    def _onward(self, kind: str, store: str, sentence: str, onward: str, lines: tuple[str, ...] = ()) -> Change:
        """A change of a store with which a run may continue."""
        change = self._refused(kind, "store", store, sentence, lines)
        return replace(change, ways=ways_onward(self.application), onward=onward)

    def _refused(self, kind: str, what: SubjectKind, name: str, sentence: str, lines: tuple[str, ...] = ()) -> Change:
        place = self.places.get(name) if what == "store" else None
        ways = ways_back(self.application)
        return Change(kind, Subject(what, name, self.application), Verdict.ERROR, sentence, lines, place, ways)


def _with_former_name(change: Change) -> Change:
    """The change of a renamed flow, next to changes that need a rebuild, perhaps only because of that name."""
    if change.kind != RENAMED:
        return change
    return replace(change, what=f"{change.what}; say so with `was`, and everything named after it resumes")


def _kept_in(description: TopologyDescription) -> dict[str, str]:
    """Store -> its subtopology."""
    return {store: name for name, part in description.subtopologies.items() for store in part.stores}


def _readers(description: TopologyDescription) -> dict[str, str]:
    """Topic -> the subtopology that reads it: one has all readers of a topic."""
    return {topic: name for name, part in description.subtopologies.items() for topic in part.sources}


def _starts(description: TopologyDescription) -> dict[str, str]:
    """Source topic -> the start of a new reader."""
    parts = description.subtopologies.values()
    begun = {reader.topic: reader.start for part in parts for reader in part.starts}
    return {topic: begun.get(topic, "earliest") for part in parts for topic in part.sources}


def _written_by(writer: str | None) -> str:
    return "external" if writer is None else f"written by {writer}"


def _fed(topic: UsedTopic) -> bool:
    """Whether it is external, without a global table."""
    return topic.writer is None and not topic.global_
