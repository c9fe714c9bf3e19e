"""What is removed for good with applications and topics: told first, then done.

An application goes as a whole: its commits, output, changelogs and stores. Of an application that stays, or of what is
fed from outside, one topic goes with all of its records.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....errors import HeadwaterError
from ...log.commit.records import TopicRemovalRecord
from ...log.declared_topics import reads
from ...log.errors import CommitExistsError
from ...log.garbage import collect_garbage
from ...log.inspection.contents import ApplicationContents, TopicContents, contents_of
from ...log.log import Log
from ...log.placed.log import PlacedLog
from ...log.state import LogState
from .full_refresh import held, refresh_fully


class CommittedMeanwhileError(HeadwaterError):
    """An application has committed since it was looked at: `application`. Nothing was changed."""

    def __init__(self, application: str) -> None:
        super().__init__(
            f"{application} has committed something since this was planned; nothing was changed", "do it again"
        )
        self.application = application


@dataclass(frozen=True)
class Removal:
    """What goes of an application. `whole`: all of it, else only `topics`, whose records go for good.

    `commits`: the number of its last commit, which this was planned on. `stores`: by name. `store_copies`: of stores
    in the log. `size`: bytes of the files. `readers`: the applications that have read from it.
    `error`: why its commits cannot be read; then nothing else is known.
    """

    application: str
    commits: int
    topics: tuple[TopicContents, ...] = ()
    stores: tuple[str, ...] = ()
    store_copies: int = 0
    size: int = 0
    readers: tuple[str, ...] = ()
    whole: bool = True
    error: str | None = None

    @property
    def records(self) -> int:
        """In all topics that go."""
        return sum(each.records for each in self.topics)


def plan_application_removal(log: Log, application: str) -> Removal:
    """What goes with an application. Raises LogError if the commits of another application cannot be read."""
    found = contents_of(log, application)
    if found.error is not None:
        return Removal(application, 0, error=found.error.message)
    stores = tuple(sorted(LogState.load(log.commits(application)).topology.stores))
    return Removal(
        application,
        found.commits,
        found.topics,
        stores,
        found.store_copies,
        found.size,
        tuple(_readers(log, application)),
    )


def plan_topic_removal(log: Log, application: str, topic: str) -> Removal:
    """What goes with a topic that an application has written, or `<project>-seed`. Raises LogError."""
    found: ApplicationContents = contents_of(log, application)
    topics = tuple(each for each in found.topics if each.topic == topic)
    return Removal(application, found.commits, topics, size=sum(each.size for each in topics), whole=False)


def readers_of(log: Log, topic: str, writer: str | None) -> list[str]:
    """The applications that have read a topic of a writer, None for what is fed from outside. Raises LogError."""
    found = ((each, reads(log, each)) for each in log.applications())
    return [each for each, read in found if topic in read and read[topic] == writer]


def remove(log: Log, state_dir: Path | None, planned: Sequence[Removal]) -> None:
    """Remove what was planned. Readers go before what they read, so that it may end at any place and be called again.

    `state_dir`: see `refresh_fully`. Raises LockError while one of the applications runs here, ReaderError if one that
    stays has read from one that goes, CommittedMeanwhileError. Then nothing has been removed.
    """
    whole = [each.application for each in planned if each.whole]
    rest = [each for each in planned if not each.whole]
    with held(state_dir, {each.application for each in rest}):
        refresh_fully(log, state_dir, whole, lambda: _check_unchanged(log, planned))
        for each in rest:
            for topic in each.topics:
                remove_topic(log, each.application, topic.topic)


def remove_topic(log: Log, application: str, topic: str) -> None:
    """Remove all records that an application has in a topic, while it does not run. Raises LogError."""
    state = LogState.load(log.commits(application))
    while True:
        at = time.time_ns() // 1_000_000
        try:
            state.commit(TopicRemovalRecord(state.generation, at, topic, state.incarnation))
            break
        except CommitExistsError:
            state.refresh()
    collect_garbage(log, application, state)
    if isinstance(log, PlacedLog) and state.generation:
        # If it writes the topic again one day, it cannot go on where it was.
        log.change(lambda places: places.emptied(log.place_of(application), topic))


def _check_unchanged(log: Log, planned: Collection[Removal]) -> None:
    for each in planned:
        if each.error is None and LogState.load(log.commits(each.application)).number != each.commits:
            raise CommittedMeanwhileError(each.application)


def _readers(log: Log, application: str) -> Iterator[str]:
    for each in log.applications():
        if each != application and application in reads(log, each, lenient=True).values():
            yield each
