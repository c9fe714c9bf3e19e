"""Starting again, and removing."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...errors import HeadwaterError
from ..ir.topology import Topology
from ..log.commit.records import StoreResetRecord, TopicRemovalRecord
from ..log.declared_topics import reads
from ..log.durable_files import collect_garbage
from ..log.errors import CommitExistsError
from ..log.inspection.contents import ApplicationContents, TopicContents, contents_of
from ..log.log import Log
from ..log.placed_log import PlacedLog
from ..log.places import is_beside
from ..log.state import LogState
from ..state.directory import StateDirectory, find_with_rebuilds
from .committed import Committed

# `--full-refresh`: removes what applications have committed, and the stores made of it, so that they start again.


class ReaderError(HeadwaterError):
    """An application that is not refreshed with the others has read a topic whose records would be removed.

    `reader`, `topic` and `writer` name them. `missing`: all applications that must be refreshed fully too, by name.
    """

    def __init__(self, reader: str, topic: str, writer: str, missing: Sequence[str]) -> None:
        names = " ".join(each.partition("-")[2] for each in missing)
        super().__init__(
            f"{reader} has read {topic}, which {writer} would write again from its first record",
            f"start what has read it as well: add {names} to --select",
        )
        self.reader = reader
        self.topic = topic
        self.writer = writer
        self.missing = tuple(missing)


def refresh_fully(
    log: Log, state_dir: Path | None, applications: Collection[str], check: Callable[[], None] = lambda: None
) -> None:
    """Remove all that these applications have: commits, records, changelogs, stores.

    `check` is called once they cannot run here any more: what it raises ends this, with nothing removed. `state_dir`:
    this machine's. None if the stores are on executors' machines: the next run finds there that they
    belong to another incarnation. Raises LockError if one of the applications is running, ReaderError if another
    application has read from them. Then nothing has been removed.
    """
    for application in log.applications():
        if application in applications or is_beside(application):
            continue
        for topic, writer in reads(log, application).items():
            if writer is not None and writer in applications:
                raise ReaderError(application, topic, writer, _missing(log, applications))
    with held(state_dir, applications) as directories:
        check()
        if isinstance(log, PlacedLog):  # nobody wants what is computed again for them
            now = time.time_ns() // 1_000_000
            log.change(lambda places: places.abandoned(applications, now))
        # Before the commits: a store that outlives them could be taken for one of the new incarnation.
        _remove(directories)
        for application in _readers_first(log, applications):
            log.drop(application)
        if isinstance(log, PlacedLog):  # only now: as long as their commits are there, so are topics that have moved
            log.change(lambda places: places.refreshed(applications))


def forget_state(directories: Collection[StateDirectory]) -> None:
    """Remove these directories. Runs restore their stores from the changelogs. Raises LockError while one is in use."""
    with _locked(directories):
        _remove(directories)


def readers(log: Log, topics: Collection[str]) -> list[str]:
    """The applications that have read any of these topics, or a topic that such an application writes, by name."""
    every = {application: reads(log, application) for application in log.applications()}
    found: set[str] = set()
    while True:
        more = {
            application
            for application, read in every.items()
            if any(topic in topics or writer in found for topic, writer in read.items())
        }
        if more == found:
            return sorted(found)
        found = more


@contextmanager
def held(state_dir: Path | None, applications: Collection[str]) -> Iterator[list[StateDirectory]]:
    """Lock these applications' state directories on this machine, so that they cannot run here, and give the
    directories.

    Raises LockError while one of them is running here. A run with stores on executors is not noticed; it fails at its
    next commit because its commits are gone.
    """
    directories = [
        directory
        for here in ([] if state_dir is None else [state_dir])
        for application in applications
        for directory in find_with_rebuilds(here, application)
    ]
    with _locked(directories):
        yield directories


@contextmanager
def _locked(directories: Iterable[StateDirectory]) -> Iterator[None]:
    with ExitStack() as stack:
        for directory in directories:
            stack.enter_context(directory.lock())
        yield


def _missing(log: Log, applications: Collection[str]) -> list[str]:
    """All other applications that have read from `applications`, directly or through others."""
    every = {each: set(reads(log, each, lenient=True).values()) for each in log.applications()}
    found = set(applications)
    while more := {each for each, writers in every.items() if each not in found and writers & found}:
        found |= more
    return sorted(found - set(applications))


def _readers_first(log: Log, applications: Collection[str]) -> Iterator[str]:
    """The applications, each after its readers.

    If the removal is interrupted, no reader remains whose input is gone.
    """
    writers = {application: set(reads(log, application, lenient=True).values()) for application in applications}
    while writers:
        unread = (each for each in writers if not any(each in read for read in writers.values()))
        last = next(unread, next(iter(writers)))  # each of a circle has a reader, so any of them may be first
        del writers[last]
        yield last


def _remove(directories: Collection[StateDirectory]) -> None:
    for directory in directories:
        directory.delete()


# What is removed for good with applications and topics: told first, then done.
#
# An application goes as a whole: its commits, output, changelogs and stores. Of an application that stays, or of what
# is fed from outside, one topic goes with all of its records.


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


# Asks for stores of an application to be computed again, and withdraws that. The next run finds it in the commits.


def ask_for_reset(log: Log, topology: Topology, incarnation: str, stores: Collection[str]) -> None:
    """Have the next run compute these stores again, and all others that were asked for. A run may be under way.

    `incarnation`: of the application when this was planned. Raises CommittedMeanwhileError if it has begun again since
    from nothing, LogError.
    """
    _change(log, topology, incarnation, lambda asked: asked.union(stores))


def withdraw_reset(log: Log, topology: Topology, incarnation: str, stores: Collection[str]) -> None:
    """Have the next run leave these stores as they are. See `ask_for_reset`."""
    _change(log, topology, incarnation, lambda asked: asked.difference(stores))


def _change(log: Log, topology: Topology, incarnation: str, change: Callable[[frozenset[str]], frozenset[str]]) -> None:
    state = Committed(log, topology).own  # with the names of now, which the log may not know yet
    while True:
        if not state.number or state.incarnation != incarnation:
            raise CommittedMeanwhileError(topology.application)
        wanted = tuple(sorted(change(frozenset(state.resets))))
        if wanted == state.resets:
            return
        at = time.time_ns() // 1_000_000
        try:
            state.commit(StoreResetRecord(state.generation, at, wanted, incarnation))
            return
        except CommitExistsError:
            state.refresh()
