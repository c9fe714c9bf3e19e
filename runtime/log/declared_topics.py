"""Declarations and writers of topics at the time their records were written.

The project may have changed since, and records do not change. So a topic is used only if its writer is the same, and if
its records can be read with the present declaration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from ...errors import HeadwaterError
from ..ir.topology import Topic
from .commit.descriptions import TopicDeclaration
from .errors import LogError, TopicChangedError
from .log import Log
from .placed_log import called, handed, latest_state
from .places import is_beside
from .state import LogState


class WriterChangedError(HeadwaterError):
    """The writer of a topic has changed from `was` to `is_` (None: external topic).

    The readers' positions belong to the old writer, and unread records would be lost.
    """

    def __init__(self, topic: str, was: str, is_: str | None) -> None:
        old = was.partition("-")[2]
        if is_ is None:
            now = "is an external topic"
            out = (
                f"drop its records (`headwater read {topic} --format json` shows them): headwater remove {topic}; "
                "the next run rebuilds the results of its readers"
            )
        else:
            now, new = f"is written by {is_}", is_.partition("-")[2]
            out = (
                f"`headwater plan` says what a run does; to start {new} and what reads it again from the first record: "
                f"headwater run --full-refresh --select '{new}+', or '{old}+ {new}+' if topology {old} is still in the "
                "project"
            )
        super().__init__(
            f"topic {topic} was written by {was} so far, and {now} now", f"let topology {old} write it again, or {out}"
        )
        self.topic = topic
        self.was = was
        self.is_ = is_


def check_readable(state: LogState, topic: Topic) -> None:
    """Raise TopicChangedError if records of an external topic cannot be read with its present declaration."""
    known = state.topics.get(topic.name)
    if known is None:
        return
    was, is_ = known.obstacles(topic)
    if was:
        raise TopicChangedError(topic.name, was, is_, None, topic.name in state.seeds, movable=known.can_move_to(topic))


def check_writers(log: Log, project: str, topics: Iterable[Topic]) -> None:
    """Check that only its writer has records of a topic. Raises WriterChangedError."""
    for changed in changed_writers(log, project, topics):
        raise changed


def changed_writers(
    log: Log, project: str, topics: Iterable[Topic], known: Mapping[str, LogState] | None = None
) -> Iterator[WriterChangedError]:
    """Topics with records of another application than their present writer. See `check_writers`."""
    by_name = {topic.name: topic for topic in topics}
    for application in applications_of(log, project):
        written = _written(log, application, known or {}) & by_name.keys()
        for name in sorted(written - handed(log, application) if written else ()):
            if by_name[name].writer != application:
                yield WriterChangedError(name, application, by_name[name].writer)


def topic_in_log(log: Log, project: str, declared: Topic) -> Topic:
    """The topic with its previous writer, or as an external one, as long as its present writer has no records of it.

    A run has not handed it over yet then. Raises WriterChangedError if both have records.
    """
    name, seeds = declared.name, f"{project}-seed"
    for changed in changed_writers(log, project, [declared]):
        if name in _written(log, declared.writer or seeds, {}):
            raise changed
        return _recorded(log, project, replace(declared, writer=changed.was))
    if declared.writer is None or name in _written(log, declared.writer, {}):
        return declared
    fed = name in _written(log, seeds, {})
    return _recorded(log, project, replace(declared, writer=None)) if fed else declared


def _recorded(log: Log, project: str, topic: Topic) -> Topic:
    """A topic with the declaration of its writer, if that is known."""
    if topic.writer is None:
        fed = latest_state(log, f"{project}-seed").topics.get(topic.name)
        return topic if fed is None else _topic(topic.name, fed, None, None)
    for application in applications_of(log, project):
        found = latest_state(log, application).topology.topics.get(topic.name)
        if found is not None and found.writer == topic.writer:
            return _topic(topic.name, found, topic.writer, None)
    return topic


def check_declaration(topic: Topic, writer: LogState) -> None:
    """Check that the records of a topic can be read with its present declaration: see `TopicDeclaration.obstacles`.

    `writer`: the state of the application that writes the topic. Raises TopicChangedError.
    """
    recorded = recorded_declaration(topic, writer)
    if recorded is None:
        return
    was, is_ = recorded.obstacles(topic)
    if was:
        raise TopicChangedError(topic.name, was, is_, topic.writer, topic.name in writer.seeds)


def recorded_declaration(topic: Topic, writer: LogState) -> TopicDeclaration | None:
    """The declaration of a topic's records; None if unknown, or without records."""
    if topic.writer is None:
        return writer.topics.get(topic.name)
    return writer.topology.topics.get(topic.name) if topic.name in writer.written() else None


def declared_topic(log: Log, project: str, name: str, declared: Topic | None = None) -> Topic | None:
    """A topic of a project, also a repartition topic, with the declaration of its records in the log; else None.

    `declared`: its present declaration in the project, which is returned if all records can be read with it.
    """
    if declared is None or declared.writer is None:
        fed = latest_state(log, f"{project}-seed").topics.get(name)
        if fed is not None:
            return _topic(name, fed, None, declared)
    found = {
        application: _topic(name, recorded, recorded.writer, declared)
        for application in applications_of(log, project)
        if (recorded := latest_state(log, application).topology.topics.get(name)) is not None
    }
    if declared is not None:
        found = {application: topic for application, topic in found.items() if topic.writer == declared.writer}
    own = [topic for application, topic in found.items() if topic.writer == application]
    return next(iter([*own, *found.values()]), None)


def applications_of(log: Log, project: str) -> list[str]:
    """The applications of a project with commits, also of removed topologies, without rebuilds."""
    found = (each for each in log.applications() if each.startswith(f"{project}-") and not is_beside(each))
    return [each for each in found if each != f"{project}-seed"]


def gone_with(log: Log, gone: Collection[str], applications: Collection[str], topics: Collection[str]) -> set[str]:
    """The applications in `gone`, of removed topologies, that must be fully refreshed with `applications`.

    They have written one of `topics`, or have read from a fully refreshed application.
    """
    found: set[str] = set()
    while True:
        started = {*applications, *found}
        more = {
            each
            for each in gone
            if each not in found
            and (_written(log, each, {}) & set(topics) or started & {*reads(log, each, lenient=True).values()})
        }
        if not more:
            return found
        found |= more


def reads(log: Log, application: str, *, lenient: bool = False) -> dict[str, str | None]:
    """The topics that an application reads -> their writers, without topics that it writes itself.

    `lenient`: return an empty dict if its commits cannot be read; otherwise this raises LogError.
    """
    try:
        return read_by(log, application, latest_state(log, application))
    except LogError:
        if lenient:
            return {}
        raise


def read_by(log: Log, application: str, state: LogState) -> dict[str, str | None]:
    """`reads` for a loaded state."""
    topics = state.topology.topics
    now = {topic.writer: called(log, topic.writer)[0] for topic in topics.values() if topic.writer}
    writers = {name: now[topic.writer] if topic.writer else None for name, topic in topics.items()}
    return {name: writer for name, writer in writers.items() if writer != application}


def _written(log: Log, application: str, known: Mapping[str, LogState]) -> set[str]:
    """The topics with records of an application; empty if its commits cannot be read, which its own run reports."""
    try:
        return (known.get(application) or latest_state(log, application)).written()
    except LogError:
        return set()


def _topic(name: str, recorded: TopicDeclaration, writer: str | None, declared: Topic | None) -> Topic:
    if declared is not None and declared.writer == writer and not any(recorded.obstacles(declared)):
        return declared
    return Topic(name, recorded.partitions, recorded.key, recorded.value, recorded.windowed, writer)
