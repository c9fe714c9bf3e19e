"""The state directories of virtual clients, which this process holds while an application runs."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from ...log.state import LogState
from ...placing.client import Client
from ...state.directories.directory import StateDirectory
from ...state.directories.process_file import Owner, ProcessFile
from ...state.directories.renamed import take_over_renamed


class ClientDirectories:
    """One lock for each client. An executor has its directory on its own machine, and is left alone here.

    `own`: the state of the application. If it was renamed, its directories are, too.
    `owner`: the process that works on the stores; nothing is locked where the system does not tell.
    """

    def __init__(self, state_dir: Path, own: LogState, owner: Owner | None) -> None:
        self._state_dir = state_dir
        self._own = own
        self._owner = owner
        self._locks: dict[str, ExitStack] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of all directories."""
        for lock in self._locks.values():
            lock.close()
        self._locks = {}

    def lock(self, client: Client) -> None:
        """Hold a client's directory, once nobody works on it who was started by a driver that is gone.

        Raises LockError when another process has it.
        """
        if client.executor is None and self._owner is not None:
            own = self._own
            take_over_renamed(self._state_dir, own.application, own.former, own.incarnation, client.folder)
            directory = StateDirectory(self._state_dir, client.folder, own.application)
            with ExitStack() as stack:
                stack.enter_context(directory.locked())
                ProcessFile.take_over(directory.path, self._owner)
                self._locks[client.name] = stack.pop_all()

    def unlock(self, client: Client) -> None:
        """Let go of a client's directory: the client is gone."""
        if (lock := self._locks.pop(client.name, None)) is not None:
            lock.close()
