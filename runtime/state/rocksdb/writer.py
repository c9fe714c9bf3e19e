"""The writer of a RocksDB database, and its lock."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from ....errors import HeadwaterError
from ....private_files import FILE, make_folder
from ...log.durable_files import sync_directory
from ...tasks.errors import TaskMigratedError
from ..store import Changes
from .database import Database, FilesDamagedError, StoreFiles, translated_errors, write_batch

# The write lock of a store: only one process at a time can have a RocksDB database open for writing.
#
# The operating system releases the lock when its process ends. Another process that needs the store requests it through
# a named pipe. Then the process with the lock closes the database as soon as it is idle.

_LOCK = "lock"
_REQUEST_PIPE = "asked"


class WriteLock:
    """The write lock of the store in a directory, until it is released or the process ends.

    `request_pipe`: file descriptor, readable when another process requests the store.
    """

    def __init__(self, directory: Path, lock: int, request_pipe: int) -> None:
        self._directory = directory
        self._lock = lock
        self.request_pipe = request_pipe

    @classmethod
    def try_acquire(cls, directory: Path) -> Self | None:
        """Acquire the lock; None while another process has it. Raises OSError."""
        while True:
            make_folder(directory)
            try:
                lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, FILE)
            except FileNotFoundError:
                continue  # the directory was wiped meanwhile
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not _is_at(lock, directory / _LOCK):
                    os.close(lock)
                    continue
                with suppress(FileExistsError):
                    os.mkfifo(directory / _REQUEST_PIPE, FILE)
                # Open for writing too: a pipe without a writer is always at its end.
                return cls(directory, lock, os.open(directory / _REQUEST_PIPE, os.O_RDWR | os.O_NONBLOCK))
            except BlockingIOError:
                os.close(lock)
                return None
            except BaseException:
                os.close(lock)
                raise

    def is_current(self) -> bool:
        """Whether it locks the store that is in the directory now. The store may have been wiped and recreated."""
        return _is_at(self._lock, self._directory / _LOCK)

    def release(self) -> None:
        """Release the lock, also if the folder is unreadable: else this process would wait for itself."""
        try:
            with suppress(OSError):  # some tools that copy folders cannot handle pipes, so it is removed
                if self.is_current():
                    os.unlink(self._directory / _REQUEST_PIPE)
        finally:
            os.close(self.request_pipe)
            os.close(self._lock)


@contextmanager
def shared_lock(directory: Path) -> Iterator[bool]:
    """Keep all processes from opening a store for writing. Gives False if one has it open. Raises OSError."""
    try:
        lock = os.open(directory / _LOCK, os.O_RDONLY)
    except FileNotFoundError:
        yield True
        return
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(lock)


def is_locked(directory: Path) -> bool:
    """Whether a process has the write lock of the store in a directory. Raises OSError."""
    with shared_lock(directory) as shared:
        return not shared


def request_release(directory: Path) -> bool:
    """Request the release of a store by its writer. Returns whether this user has the permission."""
    try:
        pipe = os.open(directory / _REQUEST_PIPE, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        # ENXIO: no reader. The writer has just released the store, or is about to open the pipe.
        return error.errno in (errno.ENXIO, errno.ENOENT)
    with suppress(BlockingIOError, BrokenPipeError):  # it is requested already, or was just released
        os.write(pipe, b"?")
    os.close(pipe)
    return True


def _is_at(handle: int, path: Path) -> bool:
    own = os.fstat(handle)
    try:
        current = os.stat(path)
    except FileNotFoundError:
        return False
    return (own.st_dev, own.st_ino) == (current.st_dev, current.st_ino)


# A store that this process writes: the database, and its checkpoint file.

NOT_CLOSED = "the process that had it open was killed, and it keeps no log of what was not on the disk yet"
INCOMPLETE = "it lacks changes that were on the disk"

Open = Callable[[Path], Database]
"""Opens the database in a folder for writing."""


class Writer:
    """The only writer of the store in a directory. `position`: up to which its changelog is applied.

    `records`, `bytes`: applied since the last checkpoint. `used`: time of the last use, by `time.monotonic`. `wiped`:
    why it started empty, if that was not reported yet.
    """

    def __init__(self, files: StoreFiles, lock: WriteLock, open_database: Open) -> None:
        self._files = files
        self._lock = lock
        self._open = open_database
        self.records = 0
        self.bytes = 0
        self.wiped = ""
        self.used = time.monotonic()
        try:
            self.database, self.position, self._clean = self._open_or_wipe(open_database)
        except BaseException:
            lock.release()
            raise

    @property
    def request_pipe(self) -> int:
        """The file descriptor that is readable when another process requests the store."""
        return self._lock.request_pipe

    @property
    def clean(self) -> bool:
        """Whether the checkpoint file is current."""
        return self._clean

    def is_valid(self) -> bool:
        """Whether its files are still those of the directory, and no process has marked them as damaged."""
        return self._lock.is_current() and (not self._clean or self._files.stamp is not None)

    def apply(
        self, changes: Iterable[Changes], from_position: int, position: int, expire_below: bytes | None = None
    ) -> None:
        """See `StateStore.apply`. Changes are on the disk after the next checkpoint only."""
        if self.position != from_position:
            raise TaskMigratedError(f"store {self._files.directory}", from_position, self.position)
        batch = write_batch(changes, expire_below)
        if self._clean:
            self._files.delete_checkpoint()
            self._clean = False
        size = batch.size_in_bytes()
        self.database.write(batch)
        self.position = position
        self.records += position - from_position
        self.bytes += size

    def checkpoint(self) -> None:
        """Flush the database, then write the checkpoint file."""
        if self._clean:
            return
        self.database.flush()
        self._files.write_checkpoint(self.position, self.database.sequence)
        self._clean = True
        self.records = self.bytes = 0

    def link(self, folder: Path) -> tuple[int, int]:
        """Create a copy of the database in a new folder, by links. Returns its position and sequence number."""
        self.checkpoint()
        self.database.link(folder)
        return self.position, self.database.sequence

    def replace(self, folder: Path, position: int, sequence: int) -> None:
        """Replace this database by the one in a folder. The folder is moved."""
        self._files.delete_checkpoint()
        self._clean = False
        self.database.close()
        shutil.rmtree(self._files.database)
        folder.rename(self._files.database)
        sync_directory(self._files.directory)
        self.database, self.position = self._open(self._files.database), position
        self.records = self.bytes = 0
        self._files.write_checkpoint(position, sequence)
        self._clean = True

    def close(self, *, checkpoint: bool) -> None:
        """Close the database and release its lock. Raises StoreUnusableError."""
        try:
            if checkpoint and self.is_valid():
                self.checkpoint()
        finally:
            try:
                # RocksDB repeats the error of a failed flush here.
                with suppress(HeadwaterError, FilesDamagedError), translated_errors(self._files.directory):
                    self.database.close()
            finally:
                self._lock.release()

    def _open_or_wipe(self, open_database: Open) -> tuple[Database, int, bool]:
        """The database, its position, and whether it has a checkpoint file. An untrusted database is wiped."""
        files = self._files
        try:
            with translated_errors(files.directory):
                checkpoint = None if files.is_damaged() else files.checkpoint()
                if checkpoint is not None:
                    return self._open_checked(open_database, *checkpoint)
                if files.database.is_dir() and not files.is_damaged():
                    self.wiped = NOT_CLOSED
        except FilesDamagedError as error:
            self.wiped = str(error)
        files.wipe()
        make_folder(files.database)
        with translated_errors(files.directory):
            return open_database(files.database), 0, False

    def _open_checked(self, open_database: Open, position: int, sequence: int) -> tuple[Database, int, bool]:
        if not self._files.database.is_dir():
            raise FilesDamagedError("its files are not there")
        database = open_database(self._files.database)
        if database.sequence != sequence:
            database.close()
            raise FilesDamagedError(INCOMPLETE)
        return database, position, True
