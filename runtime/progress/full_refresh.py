"""Starting applications anew: what they have committed is forgotten, and so are the stores made of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ...errors import HeadwaterError
from ..log.declarations import reads
from ..log.log import Log
from ..state.directory import StateDirectory


class ReaderError(HeadwaterError):
    """An application that is not started anew has read what would be forgotten: `reader`, `topic`, `writer`.

    `missing`: all applications that have to be started with it, by name.
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


def start_anew(log: Log, state_dir: Path | None, applications: Collection[str]) -> None:
    """Forget these applications: commits, records, changelogs, stores.

    `state_dir`: of this machine, None where executors have the stores on theirs: the next run finds there that they are
    of another incarnation. Raises LockError if one of them is running, ReaderError if another application has read from
    them; then nothing has happened.
    """
    for application in log.applications():
        if application in applications:
            continue
        for topic, writer in reads(log, application).items():
            if writer is not None and writer in applications:
                raise ReaderError(application, topic, writer, _missing(log, applications))
    with held(state_dir, applications) as directories:
        _remove(directories)  # before the commits: a store that outlives them would pass for one of their successors'
        for application in _readers_first(log, applications):
            log.drop(application)


def forget_state(directories: Collection[StateDirectory]) -> None:
    """Remove these directories; runs restore what was in them. Raises LockError while one is in use."""
    with _locked(directories):
        _remove(directories)


def readers(log: Log, topics: Collection[str]) -> list[str]:
    """The applications that have read any of these topics, or what such applications write, by name."""
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
    """Keep these applications from running; their state directories on this machine.

    Raises LockError while one of them is running here. One that runs on executors is not noticed; it fails at its next
    commit when its commits are gone.
    """
    directories = [
        directory
        for here in ([] if state_dir is None else [state_dir])
        for application in applications
        for directory in StateDirectory.found(here, application)
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
    """The applications that have read what `applications` write, one from another, and are not among them."""
    every = {each: set(reads(log, each, lenient=True).values()) for each in log.applications()}
    found = set(applications)
    while more := {each for each, writers in every.items() if each not in found and writers & found}:
        found |= more
    return sorted(found - set(applications))


def _readers_first(log: Log, applications: Collection[str]) -> Iterator[str]:
    """The applications in such an order that none is left, wherever this is broken off, that has read what is gone."""
    writers = {application: set(reads(log, application, lenient=True).values()) for application in applications}
    while writers:
        unread = (each for each in writers if not any(each in read for read in writers.values()))
        last = next(unread, next(iter(writers)))  # in a circle there is no last one
        del writers[last]
        yield last


def _remove(directories: Collection[StateDirectory]) -> None:
    for directory in directories:
        directory.forget()
