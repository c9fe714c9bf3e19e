"""Full refreshes, removals and resets of stores."""

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

# `--full-refresh`: removes the commits and stores of applications, so that they restart.


class ReaderError(HeadwaterError):
    """An application that is not part of the full refresh has read a topic that would be removed.

    `missing`: all further applications that must be refreshed fully, sorted by name.
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
    """Remove these applications' commits, records, changelogs and stores.

    `check` is called once they cannot run here any more; its errors end this, with nothing removed. `state_dir`: of
    this machine; None if the stores are on executors: the next run finds there that they belong to another incarnation.
    Raises LockError if one of the applications is running, ReaderError if another application has read from them. Then
    nothing has been removed.
    """
    for application in log.applications():
        if application in applications or is_beside(application):
            continue
        for topic, writer in reads(log, application).items():
            if writer is not None and writer in applications:
                missing = set(readers(log, writers=applications, lenient=True)).difference(applications)
                raise ReaderError(application, topic, writer, sorted(missing))
    with locked(state_dir, applications) as directories:
        check()
        if isinstance(log, PlacedLog):  # nobody wants what is computed again for them
            now = time.time_ns() // 1_000_000
            log.change(lambda places: places.abandoned(applications, now))
        # Before the commits: otherwise, a remaining store could be mistaken for one of the new incarnation.
        for directory in directories:
            directory.delete()
        for application in _readers_first(log, applications):
            log.drop(application)
        if isinstance(log, PlacedLog):  # only now: as long as their commits are there, so are topics that have moved
            log.change(lambda places: places.refreshed(applications))


def forget_state(directories: Collection[StateDirectory]) -> None:
    """Remove state directories. Runs restore the stores from changelogs. Raises LockError while one is in use."""
    with _locked(directories):
        for directory in directories:
            directory.delete()


def readers(
    log: Log, topics: Collection[str] = (), writers: Collection[str] = (), *, lenient: bool = False
) -> list[str]:
    """The applications that have read any of these topics, or from these writers, directly or through others.

    Sorted by name. `lenient`: see `reads`.
    """
    every = {application: reads(log, application, lenient=lenient) for application in log.applications()}
    found: set[str] = set()
    while more := {
        application
        for application, read in every.items()
        if application not in found
        and any(topic in topics or writer in writers or writer in found for topic, writer in read.items())
    }:
        found |= more
    return sorted(found)


@contextmanager
def locked(state_dir: Path | None, applications: Collection[str]) -> Iterator[list[StateDirectory]]:
    """Lock these applications' state directories on this machine, so that they cannot run here. Yields the directories.

    Raises LockError while one of them is running here. A run with stores on executors is not noticed; its next commit
    fails because its commits are gone.
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


def _readers_first(log: Log, applications: Collection[str]) -> Iterator[str]:
    """The applications, each after its readers.

    If the removal is interrupted, the input of all remaining readers still exists.
    """
    writers = {application: set(reads(log, application, lenient=True).values()) for application in applications}
    while writers:
        unread = (name for name in writers if not any(name in read for read in writers.values()))
        last = next(unread, next(iter(writers)))  # in a circle all have readers, so any of them may be first
        del writers[last]
        yield last


# Permanent removal of applications and topics: planned first, then done.
#
# An application is removed with its commits, output, changelogs and stores. A single topic, of another application or
# external, is removed with all of its records.


class CommittedMeanwhileError(HeadwaterError):
    """An application has committed since the removal was planned. Nothing was changed."""

    def __init__(self, application: str) -> None:
        super().__init__(
            f"{application} has committed something since this was planned; nothing was changed", "do it again"
        )
        self.application = application


@dataclass(frozen=True)
class Removal:
    """A planned removal. `whole`: of the whole application, else only of `topics`.

    `commits`: the number of its last commit at planning. `stores`: names. `store_copies`: number of snapshots of stores
    in the log. `size`: bytes of the files. `readers`: the applications that have read from it. `error`: why its commits
    cannot be read; nothing else is known then.
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
        """The number of records in all removed topics."""
        return sum(topic.records for topic in self.topics)


def plan_application_removal(log: Log, application: str) -> Removal:
    """The removal of an application. Raises LogError if the commits of another application cannot be read."""
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
    """The removal of a topic that an application has written, or `<project>-seed`. Raises LogError."""
    contents: ApplicationContents = contents_of(log, application)
    topics = tuple(listed for listed in contents.topics if listed.topic == topic)
    return Removal(application, contents.commits, topics, size=sum(listed.size for listed in topics), whole=False)


def readers_of(log: Log, topic: str, writer: str | None) -> list[str]:
    """The applications that have read a topic. `writer`: its writer, None for an external topic. Raises LogError."""
    sources = ((name, reads(log, name)) for name in log.applications())
    return [name for name, read in sources if topic in read and read[topic] == writer]


def remove(log: Log, state_dir: Path | None, planned: Sequence[Removal]) -> None:
    """Do planned removals. Readers are removed before their writers, so an interrupted removal can be repeated.

    `state_dir`: see `refresh_fully`. Raises LockError while one of the applications runs here, ReaderError if a
    remaining application has read from a removed one, CommittedMeanwhileError. Then nothing has been removed.
    """
    whole = [removal.application for removal in planned if removal.whole]
    rest = [removal for removal in planned if not removal.whole]
    with locked(state_dir, {removal.application for removal in rest}):
        refresh_fully(log, state_dir, whole, lambda: _check_unchanged(log, planned))
        for removal in rest:
            for topic in removal.topics:
                remove_topic(log, removal.application, topic.topic)


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
    for removal in planned:
        if removal.error is None and LogState.load(log.commits(removal.application)).number != removal.commits:
            raise CommittedMeanwhileError(removal.application)


def _readers(log: Log, application: str) -> Iterator[str]:
    for name in log.applications():
        if name != application and application in reads(log, name, lenient=True).values():
            yield name


# Requests to rebuild stores of an application, and their cancellation. The next run reads them from the commits.


def request_reset(log: Log, topology: Topology, incarnation: str, stores: Collection[str]) -> None:
    """Request that the next run rebuilds these stores, in addition to earlier requests. The application may be running.

    `incarnation`: of the application at planning. Raises CommittedMeanwhileError after a full refresh, LogError.
    """
    _change(log, topology, incarnation, lambda requested: requested.union(stores))


def cancel_reset(log: Log, topology: Topology, incarnation: str, stores: Collection[str]) -> None:
    """Cancel a request for these stores. See `request_reset`."""
    _change(log, topology, incarnation, lambda requested: requested.difference(stores))


def _change(log: Log, topology: Topology, incarnation: str, change: Callable[[frozenset[str]], frozenset[str]]) -> None:
    state = Committed(log, topology).own  # with present names, which the log may not have yet
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
