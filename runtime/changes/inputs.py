"""Compares the topics that an application reads or writes with what the log says of their writers and declarations."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from ..ingest.appended import AppendedUnknownError, appended_records
from ..log.commit.descriptions import FedTopic
from ..log.declared_topics import WriterChangedError, changed_writers, check_declaration, recorded_declaration
from ..log.errors import TopicChangedError, read_to_append
from ..log.placed.log import handed
from ..progress.committed import Committed
from ..topology import Topic, Topology
from .facets import topic_differences
from .model import Change, Subject, Verdict, Way
from .topic_columns import UNREADABLE, columns_change
from .ways import FROM_THE_FIRST, called_before, start_again, ways_back, ways_to_declare

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
            Verdict.REFUSES,
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
        Verdict.REFUSES,
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
        Verdict.REFUSES,
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
        Verdict.REFUSES,
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
                Verdict.REFUSES,
                UNREADABLE if found.facet == "columns" else f"{found.what} since its records were written",
                found.lines,
                ways=ways_to_declare(error, committed.of(topic), topic),
            )
        return
    recorded = recorded_declaration(topic, committed.of(topic))
    # Of a topic that another application writes, that one's changes say it.
    if recorded is not None and topic.writer is None and (change := columns_change(subject, recorded, topic)):
        yield change
