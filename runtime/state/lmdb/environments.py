"""The LMDB environments that are open in this process.

Two rules of LMDB are kept here: a process opens a path at most once, and no environment is open across a fork. So this
module has one object that lives as long as the process, and one lock for all of its environments. Before a fork all of
them are closed. Parent and child open them again when they use them.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ....private_files import make_folder
from ..directories.half_made import wipe
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
        """The environment of `directory`.

        It is opened if necessary, created if missing, and made again if it cannot be trusted. An environment that is
        only read is never made: raises StoreDamagedError if it cannot be trusted. Damage that is found during use
        raises it too, after the files have been marked as damaged. Raises StoreUnusableError.
        """
        with self._lock, machine_errors_told(directory):
            environment = self._open.get(directory)
            if environment is not None and not self._serves(environment, writable):
                self._forget(directory)
                environment = None
            if environment is None:
                self._let_go_of_renamed()
                opened = _opened(directory, map_size) if writable else _opened_to_read(directory, map_size)
                environment = self._open[directory] = opened
            try:
                yield environment
            except DAMAGE as error:
                if environment.is_current():  # else the damage was in files that are gone by now
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

    def put_in_place(self, made: Path, directory: Path) -> None:
        """Have the folder `made` take the place of `directory`. Processes that have it open notice."""
        with self._lock, machine_errors_told(directory):
            if directory in self._open:
                self._forget(directory)
            wipe(directory)
            made.rename(directory)

    def before_fork(self) -> None:
        """Close everything, and keep it closed until the fork is done."""
        self._lock.acquire()
        for directory in list(self._open):
            self._forget(directory)

    def after_fork(self) -> None:
        """Let threads continue, in parent and child."""
        self._lock.release()

    def _serves(self, environment: Environment, writable: bool) -> bool:
        return (
            environment.is_current()
            and (environment.writable or not writable)
            and not is_damaged(environment.directory)
        )

    def _let_go_of_renamed(self) -> None:
        """Close what lies elsewhere by now: under its new path it would be the same file, which is opened once only."""
        for directory in [each for each, environment in self._open.items() if _lies_elsewhere(environment)]:
            self._forget(directory)

    def _forget(self, directory: Path) -> None:
        self._open.pop(directory).close()


def _lies_elsewhere(environment: Environment) -> bool:
    try:
        return not environment.lies_at_its_path()
    except OSError:  # of a folder that is none of the caller's: who uses it is told
        return False


def _opened(directory: Path, map_size: int) -> Environment:
    make_folder(directory)
    # The workers of an executor open a global table at once. What one of them has half made looks damaged to another,
    # which would wipe it.
    with _one_at_a_time(directory.parent):
        if is_trusted(directory):
            try:
                return Environment(directory, map_size)
            except DAMAGE:
                pass  # it is damaged; the changelog has everything
        wipe(directory)
        make_folder(directory)
        return Environment(directory, map_size)


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Keep other processes out that want the same. The system ends it too if this process dies."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _opened_to_read(directory: Path, map_size: int) -> Environment:
    if not is_trusted(directory):
        raise StoreDamagedError(directory, damage(directory) or "the machine stopped before it was on the disk")
    try:
        return Environment(directory, map_size, writable=False)
    except FileNotFoundError as error:
        raise StoreDamagedError(directory, f"its file {Path(error.filename).name} is not there") from error
    except DAMAGE as error:
        # A reader does not mark it as damaged: a writer may be about to lengthen the file.
        raise StoreDamagedError(directory, str(error)) from error


of_this_process = Environments()
os.register_at_fork(
    before=of_this_process.before_fork,
    after_in_parent=of_this_process.after_fork,
    after_in_child=of_this_process.after_fork,
)
