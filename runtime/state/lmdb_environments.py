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
from typing import Any

import lmdb

from .durability import is_trusted, mark_synced, mark_unsynced


class Environment:
    """One open environment: the rows, and facts about them (`position`) in a database of their own."""

    def __init__(self, directory: Path, map_size: int) -> None:
        self.directory = directory
        if not (directory / "data.mdb").exists():
            mark_unsynced(directory)
        # Without sync a killed process loses nothing and a stopped machine is noticed (see durability).
        self._lmdb = lmdb.open(str(directory), map_size=map_size, max_dbs=2, sync=False, metasync=False)
        try:
            self._lmdb.reader_check()
            self.rows = self._lmdb.open_db(b"rows")
            self.facts = self._lmdb.open_db(b"facts")
        except lmdb.Error:
            self._lmdb.close()
            raise
        self._inode = _inode(directory)

    def is_current(self) -> bool:
        """Whether the directory still holds the files that are open here (it may have been wiped and made anew)."""
        try:
            return self._inode == _inode(self.directory)
        except FileNotFoundError:
            return False

    def begin(self, *, write: bool = False) -> Any:
        """A transaction. Another process may have grown the map, or died as a reader: both are mended here."""
        try:
            return self._lmdb.begin(write=write)
        except lmdb.MapResizedError:
            self._lmdb.set_mapsize(0)
        except lmdb.ReadersFullError:
            self._lmdb.reader_check()
        return self._lmdb.begin(write=write)

    def grow(self) -> None:
        """Make room when the map is full: free what dead readers hold, and double the map."""
        self._lmdb.reader_check()
        self._lmdb.set_mapsize(2 * self._lmdb.info()["map_size"])

    def mark_unsynced(self) -> None:
        """Say that writes follow. Within a write transaction, before it commits."""
        mark_unsynced(self.directory)

    def sync(self) -> None:
        """Make everything durable. Holds the write lock, so that no process writes between sync and mark."""
        with self.begin(write=True):
            self._lmdb.sync(True)
            mark_synced(self.directory)

    def close(self) -> None:
        """Let go of the files."""
        self._lmdb.close()


class Environments:
    """All environments of a process, by real path."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: dict[Path, Environment] = {}

    @contextmanager
    def use(self, directory: Path, map_size: int) -> Iterator[Environment]:
        """The environment of `directory`, opened (and made, or made anew when it cannot be trusted) if need be."""
        with self._lock:
            environment = self._open.get(directory)
            if environment is not None and not environment.is_current():
                self._forget(directory)
                environment = None
            if environment is None:
                environment = self._open[directory] = _opened(directory, map_size)
            yield environment

    def close(self, directory: Path) -> None:
        """Sync and close the environment of `directory`, if it is open."""
        with self._lock:
            environment = self._open.get(directory)
            if environment is not None:
                if environment.is_current():
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

    def _forget(self, directory: Path) -> None:
        self._open.pop(directory).close()


def _opened(directory: Path, map_size: int) -> Environment:
    directory.mkdir(parents=True, exist_ok=True)
    if is_trusted(directory):
        try:
            return Environment(directory, map_size)
        except (lmdb.InvalidError, lmdb.CorruptedError, lmdb.VersionMismatchError):
            pass  # No store of ours, or none any more: the changelog has it all.
    shutil.rmtree(directory)
    directory.mkdir()
    return Environment(directory, map_size)


def _inode(directory: Path) -> tuple[int, int]:
    # Not used again by the file system as long as the file is open.
    stat = (directory / "data.mdb").stat()
    return stat.st_dev, stat.st_ino


of_this_process = Environments()
os.register_at_fork(
    before=of_this_process.before_fork,
    after_in_parent=of_this_process.after_fork,
    after_in_child=of_this_process.after_fork,
)
