"""How topics were declared, and who wrote them, when the records in the log were written.

The project may have changed since. Records stay where their writer and the declaration of that time have put them. So a
topic is used only if both agree with the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ...errors import HeadwaterError
from ..records.types import split_columns
from ..topology import Topic
from .descriptions import TopicDeclaration
from .errors import LogError, TopicChangedError
from .log import Log
from .state import LogState


class WriterChangedError(HeadwaterError):
    """Another application has written the topic so far: `topic`, `was`, `is_` (None: fed from outside).

    Its readers' positions count the records of the old writer, and the records they have not read yet would be lost.
    """

    def __init__(self, topic: str, was: str, is_: str | None) -> None:
        old = was.partition("-")[2]
        if is_ is None:
            now = "is fed from outside"
            again = (
                f"start again what reads it: headwater build --full-refresh --select '{topic}+', or without --select "
                f"where nothing reads it; with '{old}+ {topic}+' if topology {old} is still in the project"
            )
        else:
            now, new = f"is written by {is_}", is_.partition("-")[2]
            again = (
                f"start {new} and what reads it again from the first record: headwater run --full-refresh --select "
                f"'{new}+', or '{old}+ {new}+' if topology {old} is still in the project"
            )
        super().__init__(
            f"topic {topic} was written by {was} so far, and {now} now",
            f"let topology {old} write it again, or {again}",
        )
        self.topic = topic
        self.was = was
        self.is_ = is_


def check_unchanged(state: LogState, topic: Topic) -> None:
    """Raises TopicChangedError if the topic was fed before under another declaration."""
    known = state.topics.get(topic.name)
    if known is None:
        return
    was, is_ = known.changes(topic)
    if was:
        raise TopicChangedError(topic.name, was, is_, None, topic.name in state.seeds)


def check_writers(log: Log, project: str, topics: Iterable[Topic], known: Mapping[str, LogState] | None = None) -> None:
    """Check that no application but its writer has records of a topic. `known`: states that are loaded already.

    Raises WriterChangedError.
    """
    asked = {topic.name: topic for topic in topics}
    for application in applications_of(log, project):
        for name in sorted(_written(log, application, known or {}) & asked.keys()):
            if asked[name].writer != application:
                raise WriterChangedError(name, application, asked[name].writer)


def check_declaration(topic: Topic, writer: LogState) -> None:
    """Check that the records of a topic have the partitions, key and columns that a reader expects.

    Columns may be left out, or have another order. `writer`: the state of the application that writes the topic. Raises
    TopicChangedError.
    """
    recorded: TopicDeclaration | None = None
    if topic.writer is None:
        recorded = writer.topics.get(topic.name)
    elif topic.name in writer.written():
        recorded = writer.topology.topics.get(topic.name)
    if recorded is None:
        return
    was, is_ = recorded.changes(topic)
    if "value" in was and set(split_columns(topic.value)) <= set(split_columns(recorded.value)):
        del was["value"], is_["value"]
    if was:
        raise TopicChangedError(topic.name, was, is_, topic.writer, topic.name in writer.seeds)


def declared_topic(log: Log, project: str, name: str, declared: Topic | None = None) -> Topic | None:
    """A topic of a project, also a repartition topic, as its records are declared in the log; else None.

    `declared`: its declaration in the project now. Without it, the writer's declaration is used.
    """
    if declared is None or declared.writer is None:
        fed = LogState.load(log.commits(f"{project}-seed")).topics.get(name)
        if fed is not None:
            return _topic(name, fed)
    found = {
        application: _topic(name, recorded, recorded.writer)
        for application in applications_of(log, project)
        if (recorded := LogState.load(log.commits(application)).topology.topics.get(name)) is not None
    }
    if declared is not None:
        found = {application: topic for application, topic in found.items() if topic.writer == declared.writer}
    own = [topic for application, topic in found.items() if topic.writer == application]
    return next(iter([*own, *found.values()]), None)


def applications_of(log: Log, project: str) -> list[str]:
    """The applications of a project that have committed something, also of topologies that were removed."""
    return [each for each in log.applications() if each.startswith(f"{project}-") and each != f"{project}-seed"]


def gone_with(log: Log, gone: Collection[str], applications: Collection[str], topics: Collection[str]) -> set[str]:
    """Which of the `gone` applications, whose topologies were removed, must be refreshed fully with `applications`.

    They have written one of `topics`, or have read from an application that is fully refreshed.
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
    """The topics that an application reads, each with its writer, without those that it writes itself.

    `lenient`: none for an application whose commits cannot be read. Otherwise this raises LogError.
    """
    try:
        topics = LogState.load(log.commits(application)).topology.topics
    except LogError:
        if lenient:
            return {}
        raise
    return {name: topic.writer for name, topic in topics.items() if topic.writer != application}


def _written(log: Log, application: str, known: Mapping[str, LogState]) -> set[str]:
    """The topics that it has written. None if its commits cannot be read: its own run reports that."""
    try:
        return (known.get(application) or LogState.load(log.commits(application))).written()
    except LogError:
        return set()


def _topic(name: str, recorded: TopicDeclaration, writer: str | None = None) -> Topic:
    return Topic(name, recorded.partitions, recorded.key, recorded.value, recorded.windowed, writer)
