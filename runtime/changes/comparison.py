"""What has changed, part by part."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..ingest.append import AppendedUnknownError, appended_records
from ..ir.topology import Topic, Topology
from ..log.commit.descriptions import FedTopic, TopologyDescription, UsedTopic
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

# Compares the topics that an application reads or writes with what the log says of their writers and declarations.

FED = "topic.fed"
"""The kind of a change: a topic that an application writes now has records that came from outside."""

OTHER_WRITER = "topic.writer"
"""The kind of a change: another application has written a topic."""


def topic_changes(topology: Topology, committed: Committed, owned: Collection[str] | None = None) -> Iterator[Change]:
    """What the log says otherwise of these topics: another writer, another declaration. `owned`: see `changes_of`."""
    read = {topic.name: topic for topic in topology.read}
    written = {topic.name: topic for topic in topology.written}
    topics = (read | written).values()
    for changed in changed_writers(committed.log, topology.project, topics, committed.states):
        yield written_by_another(topology.application, changed, owned)
    for topic in written.values():
        yield from _fed_so_far(topology.application, topic.name, committed)
    for name in sorted(written.keys() & handed(committed.log, topology.application)):
        yield Change(
            "topic.returned",
            Subject("topic", name, topology.application),
            Verdict.ERROR,
            f"{topology.name} has written it before, and its records of that time were given up or removed, so its "
            "result would lack them",
            ways=ways_back(topology.application),
        )
    for topic in read.values():
        if topic.writer != topology.application:  # `comparison` compares topics that it writes itself
            yield from _declared_otherwise(topology.application, topic, committed)


def _fed_so_far(application: str, topic: str, committed: Committed) -> Iterator[Change]:
    """That a topic which the application writes from now on holds records that came from outside."""
    fed, known = committed.states[committed.seeds], committed.described().topics.get(topic)
    if topic not in fed.written() or (known is not None and known.writer == application):
        return
    subject, new = Subject("topic", topic, application), application.partition("-")[2]
    try:
        appended = appended_records(fed, topic)
    except AppendedUnknownError:
        appended = 1
    if not appended:
        what = f"it was seeded so far, and is written by {application} now: nobody reads the seed any more"
        yield Change(FED, subject, Verdict.COMPATIBLE, what)
        return
    copied = f"{read_to_append(topic)} | headwater seed OTHER --append && headwater remove {topic}"
    yield Change(
        FED,
        subject,
        Verdict.ERROR,
        f"it was fed from outside so far, and is written by {application} now: nobody would read the records any more "
        "that were appended to it",
        ways=(
            Way(f"have {new} write a topic of another name, and merge the two"),
            Way("copy its records to a topic OTHER that you declare, and give them up here", copied),
        ),
    )


def written_by_another(application: str, changed: WriterChangedError, owned: Collection[str] | None) -> Change:
    """The change of an application whose topic another one has written. `owned`: see `changes_of`."""
    old = changed.was.partition("-")[2]
    if changed.is_ is None:
        return _fed_by_now(application, changed)
    selected = f"{changed.is_.partition('-')[2]}+"
    what = f"start {selected.removesuffix('+')} and what reads it again {FROM_THE_FIRST}"
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


def _fed_by_now(application: str, changed: WriterChangedError) -> Change:
    topic, kept = changed.topic, f"{changed.topic}.jsonl"
    copied = (
        f"{read_to_append(topic)} > {kept} && headwater remove {topic} && headwater seed {topic} --append --file {kept}"
    )
    return Change(
        OTHER_WRITER,
        Subject("topic", topic, application),
        Verdict.ERROR,
        f"it was written by {changed.was} so far, and is fed from outside now",
        ways=(
            Way(f"let topology {changed.was.partition('-')[2]} write it again"),
            Way("keep its records, as if they had come from outside; a run computes again what has read them", copied),
            Way("give its records up; a run computes again what has read them", f"headwater remove {topic}"),
        ),
    )


def _declared_otherwise(application: str, topic: Topic, committed: Committed) -> Iterator[Change]:
    subject = Subject("topic", topic.name, application)
    try:
        check_declaration(topic, committed.of(topic))
    except TopicChangedError as error:
        now = FedTopic.of(topic)
        was, is_ = dict[str, Any](error.was), dict[str, Any](error.is_)  # of the columns only those in the way
        for found in topic_differences(replace(now, **was), replace(now, **is_)):
            yield Change(
                f"topic.{found.facet}",
                subject,
                Verdict.ERROR,
                UNREADABLE if found.facet == "columns" else f"{found.what} since its records were written",
                found.lines,
                ways=ways_to_declare(error, committed.of(topic), topic),
            )
        return
    recorded = recorded_declaration(topic, committed.of(topic))
    # Of a topic that another application writes, that one's changes say it.
    if recorded is not None and topic.writer is None and (change := columns_change(subject, recorded, topic)):
        yield change


# Compares a topology with what it was when it last ran, as its application has committed it.
#
# A difference changes the meaning of committed positions, stores or topics. A new store is a difference too once
# records have been consumed: it would miss the records read before.

_SETTINGS = {
    "grace": f"it counts from the next record on; {STAYS}",
    "retention": "it counts from now on, and rows that are gone do not come back",
}
"""Settings of a store (see `StoreDescription`) that decide what its rows are, and from when on they count."""


REFRESHED = "topic.refreshed"
"""The kind of a change of the log: a topic was fully refreshed after it was read."""

SOMETHING_ELSE = "topology.content"
"""The kind of a change that has no name of its own, as an earlier version has not recorded what was there."""

OTHER_READER = "topic.reader"
"""The kind of a change: a subtopology of another name reads a topic."""


@dataclass(frozen=True)
class Comparison:
    """The application as it is committed, and as the project has it now.

    `places`: store -> `file:line` of the step that works on it now. `unread`: repartition topics with records that
    their readers have not consumed. `moved`: topics whose records were put into other partitions since. `of_tables`:
    the stores of groups from which rows are taken again.
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
        """Of a topology, with the places of its stores."""
        places = {store: place for part in topology.subtopologies for store, place in part.places.items()}
        of_tables = {store for part in topology.subtopologies for store in part.of_tables}
        return cls(topology.application, committed, current, places, unread, moved, of_tables)

    def changes(self, consumed: bool) -> tuple[Change, ...]:
        """What has changed. `consumed`: whether the application has consumed any record yet; nothing counts before.

        Topics fed from outside are compared by key and partition count only, if no global table holds them: a changed
        selection of their value columns does not touch what is committed.
        """
        if not self.committed.subtopologies or not consumed:
            return ()
        found = (
            *self._stores(),
            *self._kept_otherwise(),
            *self._moved(),
            *self._read_by_others(),
            *self._topics(),
            *self._starts(),
            *flow_changes(self.application, self.committed, self.current),
        )
        if any(each.verdict is Verdict.ERROR for each in found):
            found = tuple(map(_with_former_name, found))
        if not self.committed.settings:  # of a version that has not recorded them
            return found or tuple(self._something_else())
        return (*found, *setting_changes(self.application, self.committed, self.current, self.places))

    def _stores(self) -> Iterator[Change]:
        old, new = self.committed.stores, self.current.stores
        for name in sorted(old.keys() & new.keys()):
            for found in store_differences(old[name], new[name]):
                yield self._refused(f"store.{found.facet}", "store", name, found.what, found.lines)
        gone, come = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
        kept_in = _kept_in(self.committed)
        for name in gone:
            if name in kept_in and kept_in[name] not in self.current.subtopologies:
                what = "it is gone with all that filled it"
                yield Change("store.removed", Subject("store", name, self.application), Verdict.COMPATIBLE, what)
                continue
            same = next((each for each in come if not list(store_differences(old[name], new[each]))), None)
            what = "it is gone" + (f"; is {same} its new name?" if same else "")
            yield self._refused("store.removed", "store", name, what)
        for name in come:
            yield self._refused("store.added", "store", name, "it is new, and would miss the records consumed before")
        for name in sorted(old.keys() & new.keys()):
            if new[name].changelog and not old[name].changelog:
                what = "its changelog was not kept so far, so the store could not be restored from it"
                yield self._refused("store.changelog", "store", name, what)

    def _kept_otherwise(self) -> Iterator[Change]:
        """Stores of the same columns that are kept in another way, or whose rows are computed in another way."""
        old, new = self.committed.stores, self.current.stores
        for name in sorted(old.keys() & new.keys()):
            yield from self._backend(name)
            for setting, onward in _SETTINGS.items():
                was, is_ = (each[name].settings.get(setting) for each in (old, new))
                if setting == "retention" and old[name].given_retention and new[name].given_retention:
                    continue  # which `_stores` tells
                if None not in (was, is_) and was != is_:
                    yield self._onward(f"store.{setting}", name, f"its {setting} was {was}, is {is_}", onward)
            if lines := other_expressions(old[name], new[name]):
                what = "its aggregates read other expressions"
                if name in self.of_tables:
                    yield self._refused("store.expressions", "store", name, f"{what}: {REGROUPED}", lines)
                    continue
                onward = "they count from the next record on, and rows go on from what they hold"
                yield self._onward("store.expressions", name, what, onward, lines)
            if old[name].changelog and not new[name].changelog:
                what = "its changelog is not kept any more"
                subject = Subject("store", name, self.application)
                yield Change("store.changelog", subject, Verdict.COMPATIBLE, what, place=self.places.get(name))

    def _backend(self, name: str) -> Iterator[Change]:
        old, new = self.committed.stores[name], self.current.stores[name]
        was, is_ = (each.settings.get("backend") for each in (old, new))
        if None in (was, is_) or was == is_:
            return
        if not old.changelog:
            what = f"its backend was {was}, is {is_}, and without a changelog its rows are only in {was}"
            yield self._refused("store.backend", "store", name, what)
            return
        what = f"its backend was {was}, is {is_}; clients make the store again from its changelog"
        subject = Subject("store", name, self.application)
        yield Change("store.backend", subject, Verdict.COMPATIBLE, what, place=self.places.get(name))

    def _something_else(self) -> Iterator[Change]:
        """What the topology computes differs in a way that an earlier version has not recorded, and that is not only
        the columns of what it reads, which those who write or feed that tell.
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
                "Headwater that it ran with has not recorded which: it goes on from what is committed",
            )

    def _moved(self) -> Iterator[Change]:
        """Stores that have moved to another subtopology, where they would continue other records, maybe with other
        keys.

        Subtopologies are compared by name: positions are kept by name, and numbers may change. If only the name is new,
        `_read_by_others` reports it. Nothing is found if the log does not say which subtopology had a store.
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
                    f"(reads {', '.join(here.sources)}) now: its rows were made of the records and keys there, and "
                    "would stay as they are",
                )
        for name, then, now in fillers(self.committed, self.current):
            what = f"{then} wrote its rows, and {now} does now: what is in it was made of other records"
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
                what = "its records were put into other partitions after they were consumed"
                yield self._refused(REPARTITIONED, "topic", name, what)
            elif None not in (since, now) and now != since:  # `positions` reports a topic that has lost its records
                what = "it was fully refreshed after its records were consumed"
                yield self._refused(REFRESHED, "topic", name, what)
        for name in both:
            # Another application has written it. Positions count the records of one writer.
            was, is_ = (topics[name].writer for topics in (old, new))
            if was != is_:
                what = f"it was {_written_by(was)} so far, and is {_written_by(is_)} now"
                yield self._refused(OTHER_WRITER, "topic", name, what)
        for name in both:
            facets = TOPIC_KEY if _fed(old[name]) else (*TOPIC_KEY, "windowed")
            for found in topic_differences(old[name], new[name], facets):
                yield self._refused(f"topic.{found.facet}", "topic", name, found.what, found.lines)
            if new[name].writer == self.application or new[name].global_:
                yield from self._columns(name, old[name], new[name])

    def _columns(self, name: str, old: UsedTopic, new: UsedTopic) -> Iterator[Change]:
        """The value columns of a topic that is written here, or held by a global table. Of others only the one who
        feeds or writes them knows what their records have, see `declared_topics`.
        """
        change = columns_change(Subject("topic", name, self.application), old, new)
        if change is None:
            return
        again = ways_back(self.application)
        lacking = ", ".join(old.lacking(new))
        if change.verdict is Verdict.ERROR:
            change = replace(change, ways=again)
        elif lacking and name in self.unread:
            # Null would be wrong for them: they are none of before the change, but of a step that is half done.
            what = f"it repartitions, and has records without {lacking} that were not consumed yet"
            change = replace(change, verdict=Verdict.ERROR, what=what, ways=(CATCH_UP, again[-1]))
        elif new.writer == self.application and not all(map(self._is_new_in_sources, old.lacking(new))):
            # A project that had been so from the start would have written them.
            what, onward = COLUMNS_CHANGED, change.what.removeprefix(f"{COLUMNS_CHANGED}; ")
            ways = ways_onward(self.application)
            change = replace(change, verdict=Verdict.ERROR, what=what, ways=ways, onward=onward)
        yield change

    def _is_new_in_sources(self, column: str) -> bool:
        """Whether no record that was read has had a column: then null is what it would have come to."""
        old, new = self.committed.topics, self.current.topics
        sources = {topic for part in self.current.subtopologies.values() for topic in part.sources}
        read = [name for name in sources if column in parse_columns(new[name].value) and not self._is_own(name)]
        return bool(read) and all(name in old and column in old[name].lacking(new[name]) for name in read)

    def _is_own(self, topic: str) -> bool:
        return self.current.topics[topic].writer == self.application

    def _starts(self) -> Iterator[Change]:
        """Other places to begin at, in topics that have been read already."""
        old, new = _starts(self.committed), _starts(self.current)
        for topic in sorted(old.keys() & new.keys()):
            if old[topic] != new[topic]:
                what = (
                    f"its start was {old[topic]}, is {new[topic]}: that is for a reader that has not read it yet, and "
                    f"the position of {self.current.name} stays where it is"
                )
                move = f"headwater rewind {self.current.name} --topic {topic} --to {new[topic]}"
                subject = Subject("topic", topic, self.application)
                yield Change(
                    "topic.start", subject, Verdict.COMPATIBLE, what, ways=(Way("to move it all the same", move),)
                )

    def _onward(self, kind: str, store: str, sentence: str, onward: str, lines: tuple[str, ...] = ()) -> Change:
        """A change of a store with which a run may go on."""
        found = self._refused(kind, "store", store, sentence, lines)
        return replace(found, ways=ways_onward(self.application), onward=onward)

    def _refused(self, kind: str, what: SubjectKind, name: str, sentence: str, lines: tuple[str, ...] = ()) -> Change:
        place = self.places.get(name) if what == "store" else None
        ways = ways_back(self.application)
        return Change(kind, Subject(what, name, self.application), Verdict.ERROR, sentence, lines, place, ways)


def _with_former_name(change: Change) -> Change:
    """A flow with another name, beside changes that have the result computed again, perhaps only for that name."""
    if change.kind != RENAMED:
        return change
    return replace(change, what=f"{change.what}; say so with `was`, and what is named after it goes on")


def _kept_in(description: TopologyDescription) -> dict[str, str]:
    """Store -> the subtopology that keeps it."""
    return {store: name for name, part in description.subtopologies.items() for store in part.stores}


def _readers(description: TopologyDescription) -> dict[str, str]:
    """Topic -> the subtopology that reads it: all of a topology's readers of a topic are in one."""
    return {topic: name for name, part in description.subtopologies.items() for topic in part.sources}


def _starts(description: TopologyDescription) -> dict[str, str]:
    """Topic that is read -> where a new reader of it begins."""
    parts = description.subtopologies.values()
    begun = {each.topic: each.start for part in parts for each in part.starts}
    return {topic: begun.get(topic, "earliest") for part in parts for topic in part.sources}


def _written_by(writer: str | None) -> str:
    return "fed from outside" if writer is None else f"written by {writer}"


def _fed(topic: UsedTopic) -> bool:
    """Whether it is fed from outside, and no global table holds it."""
    return topic.writer is None and not topic.global_
