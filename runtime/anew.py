"""Starting applications anew: what they have committed is forgotten, and so are the stores made of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ..errors import HeadwaterError
from .log.errors import LogError
from .log.log import Log
from .log.state import LogState
from .state.directory import StateDirectory


class ReaderError(HeadwaterError):
    """An application that is not started anew has read what would be forgotten: `reader`, `topic`, `writer`."""

    def __init__(self, reader: str, topic: str, writer: str) -> None:
        super().__init__(
            f"{reader} has read {topic}, which {writer} would write anew",
            f"start {reader} anew as well: select {writer.partition('-')[2]}+",
        )
        self.reader = reader
        self.topic = topic
        self.writer = writer


def start_anew(log: Log, state_dir: Path | None, applications: Collection[str]) -> None:
    """Forget these applications: commits, records, changelogs, stores.

    `state_dir`: of this machine, None where executors have the stores on theirs: the next run finds there that they are
    of another incarnation. Raises LockError if one of them is running, ReaderError if another application has read from
    them; then nothing has happened.
    """
    for application in log.applications():
        if application in applications:
            continue
        for topic, writer in _reads(log, application).items():
            if writer is not None and writer in applications:
                raise ReaderError(application, topic, writer)
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
    reads = {application: _reads(log, application) for application in log.applications()}
    found: set[str] = set()
    while True:
        more = {
            application
            for application, read in reads.items()
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


def _readers_first(log: Log, applications: Collection[str]) -> Iterator[str]:
    """The applications in such an order that none is left, wherever this is broken off, that has read what is gone."""
    writers = {application: set(_reads_if_known(log, application).values()) for application in applications}
    while writers:
        unread = (each for each in writers if not any(each in read for read in writers.values()))
        last = next(unread, next(iter(writers)))  # in a circle there is no last one
        del writers[last]
        yield last


def _remove(directories: Collection[StateDirectory]) -> None:
    for directory in directories:
        directory.forget()


def _reads_if_known(log: Log, application: str) -> dict[str, str | None]:
    """Nothing of an application whose commits cannot be read: starting it anew is the way out of that."""
    try:
        return _reads(log, application)
    except LogError:
        return {}


def _reads(log: Log, application: str) -> dict[str, str | None]:
    """Topics that an application reads, each with its writer; not those that it writes itself."""
    topics = LogState.load(log.commits(application)).topology.get("topics", {})
    return {name: topic["writer"] for name, topic in topics.items() if topic["writer"] != application}
