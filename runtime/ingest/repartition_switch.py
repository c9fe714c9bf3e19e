"""Repartitions topics, all of them with one commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ...errors import HeadwaterError
from ..ir.topology import Topic
from ..log.commit.descriptions import ExternalTopic
from ..log.commit.records import DELAY_MS, RepartitionedTopic, RepartitionRecord
from ..log.errors import CommitExistsError, SegmentError, UnreadableFileError
from ..log.log import Log
from ..log.state import LogState
from ..timed_parts import wall_ms
from .repartition import DeletionsWithoutKeyError, TopicWriter


class TopicMovedMeanwhileError(HeadwaterError):
    """Another process has reset `topic`, repartitioned it, or put dead letters back into it, at the same time."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"{topic} was reset, repartitioned, or got dead letters back meanwhile; nothing was changed by this run",
            "try again",
        )
        self.topic = topic


class RecordsGoneMeanwhileError(HeadwaterError):
    """Records of `topic` were removed (retention, compaction) while all of them were to be repartitioned."""

    def __init__(self, topic: str, missing: int) -> None:
        super().__init__(
            f"{missing:,} records of {topic} were removed while it was repartitioned, and rebuilt results would lack "
            "them; nothing was changed",
            "`headwater plan` shows what can be done now",
        )
        self.topic = topic


class UnreadableTopicError(HeadwaterError):
    """Records of `topic` cannot be read: `cause`."""

    def __init__(self, topic: str, cause: HeadwaterError) -> None:
        super().__init__(
            f"not all records of {topic} can be read, so it is not repartitioned: {cause.message}", cause.hint
        )
        self.topic = topic


TOPIC_ERRORS = (DeletionsWithoutKeyError, TopicMovedMeanwhileError, RecordsGoneMeanwhileError, UnreadableTopicError)
"""Why one `topic` cannot be repartitioned. Others may be."""


@dataclass(frozen=True)
class Moved:
    """A topic that was repartitioned. `was`: its former declaration."""

    topic: Topic
    was: ExternalTopic
    records: int


def repartition(
    log: Log,
    application: str,
    topics: Sequence[Topic],
    *,
    whole: Collection[str] = (),
    delay_ms: int = DELAY_MS,
    go_on: Callable[[], None] = lambda: None,
) -> tuple[Moved, ...]:
    """Move the records of these topics to the partitions of their present declarations.

    They keep keys, values, timestamps, headers and their order, see `in_order`. Nothing is visible before the commit,
    and records appended meanwhile are included. `application`: `<project>-seed`. `whole`: topics that must not have
    lost a record. `delay_ms`: see `RepartitionRecord`. `go_on`: called repeatedly; an error that it raises ends the
    work. Raises errors of the log, and one of TOPIC_ERRORS: then nothing was changed.
    """
    state = LogState.load(log.commits(application))
    declared = {topic.name: state.topics[topic.name] for topic in topics}
    put_back = {topic.name: state.put_back.get(topic.name) for topic in topics}
    topics = [topic for topic in topics if declared[topic.name].can_move_to(topic)]

    def check_unchanged() -> None:
        go_on()
        for name, before in declared.items():
            now = state.topics.get(name)
            if now is None or (now.since, now.key, now.partitions) != (before.since, before.key, before.partitions):
                raise TopicMovedMeanwhileError(name)
            if state.put_back.get(name) != put_back[name]:
                raise TopicMovedMeanwhileError(name)

    writers = [TopicWriter(log, state, topic, declared[topic.name], check_unchanged) for topic in topics]
    try:
        while topics:
            check_unchanged()
            after = tuple(map(_written, topics, writers))
            _check_whole(state, declared, writers, topics, whole)
            segments = tuple(segment for writer in writers for segment in writer.written)
            try:
                state.commit(RepartitionRecord(wall_ms(), after, segments, delay_ms))
                break
            except CommitExistsError:
                state.refresh()
    except BaseException:
        _remove(log, state, writers)
        raise
    return tuple(
        Moved(topic, declared[topic.name], writer.records) for topic, writer in zip(topics, writers, strict=True)
    )


def _written(topic: Topic, writer: TopicWriter) -> RepartitionedTopic:
    try:
        return writer.write()
    except (SegmentError, UnreadableFileError) as error:
        raise UnreadableTopicError(topic.name, error) from error


def _check_whole(
    state: LogState,
    declared: dict[str, ExternalTopic],
    writers: Sequence[TopicWriter],
    topics: Sequence[Topic],
    whole: Collection[str],
) -> None:
    for topic, writer in zip(topics, writers, strict=True):
        ends = sum(state.end(topic.name, partition) for partition in range(declared[topic.name].partitions))
        if topic.name in whole and writer.records < ends:
            raise RecordsGoneMeanwhileError(topic.name, ends - writer.records)


def _remove(log: Log, state: LogState, writers: Sequence[TopicWriter]) -> None:
    """Remove written files, unless a commit lists them: an error may have come after the commit."""
    paths = {segment.path for writer in writers for segment in writer.written}
    with suppress(HeadwaterError, OSError):
        state.refresh()
        for path in paths - state.paths():
            log.remove(path)
