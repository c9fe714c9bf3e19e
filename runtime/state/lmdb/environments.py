"""The LMDB environments that this process has open.

Owns two rules of LMDB: a path is open at most once in a process, and nothing is open across a fork. Hence the one
object of this module that lives as long as the process, and one lock for all of its environments: a fork closes them
all before it happens, and parent and child open again what they use.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ....private_files import make_folder
from ..store import StoreDamagedError
from .durability import damage, is_damaged, is_trusted, mark_damaged
from .environment import DAMAGE, Environment
from .errors import machine_errors_told


class Environments:
    """All environments of a process, by real path."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: dict[Path, Environment] = {}

    @contextmanager
    def use(self, directory: Path, map_size: int, *, writable: bool = True) -> Iterator[Environment]:
        """The environment of `directory`, opened if need be: made, or made again where it cannot be trusted.

        One that is only read is not made: raises StoreDamagedError where it cannot be trusted. So it does, after
        saying so to all who use the files, where they are found damaged meanwhile. Raises StoreUnusableError.
        """
        with self._lock, machine_errors_told(directory):
            environment = self._open.get(directory)
            if environment is not None and not self._serves(environment, writable):
                self._forget(directory)
                environment = None
            if environment is None:
                opened = _opened(directory, map_size) if writable else _opened_to_read(directory, map_size)
                environment = self._open[directory] = opened
            try:
                yield environment
            except DAMAGE as error:
                if environment.is_current():  # else the damage is not in the files that are there by now
                    mark_damaged(directory, str(error))
                raise StoreDamagedError(directory, str(error)) from error

    def close(self, directory: Path) -> None:
        """Sync and close the environment of `directory`, if it is open."""
        with self._lock, machine_errors_told(directory):
            environment = self._open.get(directory)
            if environment is not None:
                if environment.writable and environment.is_current():
                    environment.sync()
                self._forget(directory)

    def before_fork(self) -> None:
        """Close everything, and keep it closed until the fork has happened."""
        self._lock.acquire()
        for directory in list(self._open):
            self._forget(directory)

    def after_fork(self) -> None:
        """Let threads go on, in parent and child."""
        self._lock.release()

    def _serves(self, environment: Environment, writable: bool) -> bool:
        return (
            environment.is_current()
            and (environment.writable or not writable)
            and not is_damaged(environment.directory)
        )

    def _forget(self, directory: Path) -> None:
        self._open.pop(directory).close()


def _opened(directory: Path, map_size: int) -> Environment:
    make_folder(directory)
    if is_trusted(directory):
        try:
            return Environment(directory, map_size)
        except DAMAGE:
            pass  # No store of ours, or none any more: the changelog has it all.
    _wipe(directory)
    make_folder(directory)
    return Environment(directory, map_size)


def _opened_to_read(directory: Path, map_size: int) -> Environment:
    if not is_trusted(directory):
        raise StoreDamagedError(directory, damage(directory) or "the machine stopped before it was on the disk")
    try:
        return Environment(directory, map_size, writable=False)
    except FileNotFoundError as error:
        raise StoreDamagedError(directory, f"its file {Path(error.filename).name} is not there") from error
    except DAMAGE as error:
        # It may also be that a writer is just about to lengthen the file: this is not for a reader to judge.
        raise StoreDamagedError(directory, str(error)) from error


def _wipe(directory: Path) -> None:
    """Renamed first, so that a crash leaves either the files or nothing, and of two processes one does it."""
    doomed = directory.with_name(f".{directory.name}-{os.getpid()}")
    shutil.rmtree(doomed, ignore_errors=True)  # of a killed process that had the same id: in containers most have
    try:
        directory.rename(doomed)
    except FileNotFoundError:
        return
    shutil.rmtree(doomed)


of_this_process = Environments()
os.register_at_fork(
    before=of_this_process.before_fork,
    after_in_parent=of_this_process.after_fork,
    after_in_child=of_this_process.after_fork,
)
