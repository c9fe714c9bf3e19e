"""Starting applications anew: what they have committed is forgotten, and so are the stores made of it."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path

from ..errors import HeadwaterError
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


def start_anew(log: Log, state_dir: Path, applications: Collection[str]) -> None:
    """Forget these applications: commits, records, changelogs, stores.

    Raises LockError if one of them is running, ReaderError if another application has read from them; then nothing
    has happened.
    """
    for reader in log.applications():
        if reader not in applications:
            _check_reader(log, reader, applications)
    with ExitStack() as stack:
        for application in applications:
            for directory in _directories(state_dir, application):
                stack.enter_context(directory.locked())
        for application in applications:
            log.drop(application)
            for directory in _directories(state_dir, application):
                shutil.rmtree(directory.path)


def forget_state(state_dir: Path, applications: Collection[str]) -> None:
    """Remove the stores of these applications; runs restore them. Raises LockError while one of them is running."""
    with ExitStack() as stack:
        doomed = [directory for application in applications for directory in _directories(state_dir, application)]
        for directory in doomed:
            stack.enter_context(directory.locked())
        for directory in doomed:
            shutil.rmtree(directory.path)


def _check_reader(log: Log, reader: str, applications: Collection[str]) -> None:
    for name, topic in LogState.load(log.commits(reader)).topology.get("topics", {}).items():
        if topic["writer"] in applications:
            raise ReaderError(reader, name, topic["writer"])


def _directories(state_dir: Path, application: str) -> Iterator[StateDirectory]:
    """The application's directories of all clients that have one."""
    for path in sorted(state_dir.glob(f"*/{application}")):
        yield StateDirectory(state_dir, path.parent.name, application)
