"""`--full-refresh`: removes what applications have committed, and the stores made of it, so that they start again."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ....errors import HeadwaterError
from ...log.declared_topics import reads
from ...log.log import Log
from ...log.placed.log import PlacedLog
from ...log.placed.places import is_beside
from ...state.directories.beside import found_with_beside
from ...state.directories.directory import StateDirectory


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
        for directory in found_with_beside(here, application)
    ]
    with _locked(directories):
        yield directories


@contextmanager
def _locked(directories: Iterable[StateDirectory]) -> Iterator[None]:
    with ExitStack() as stack:
        for directory in directories:
            stack.enter_context(directory.locked())
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
        directory.forget()
