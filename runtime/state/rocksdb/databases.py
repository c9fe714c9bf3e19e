"""The open RocksDB databases of this process.

One process at a time has a database open for writing. It keeps the database open until another process requests it: to
write it, or to read it while there is no checkpoint file. With a checkpoint file other processes read what was on the
disk then, and the writer keeps the database.

A thread of this process handles the requests. It also writes checkpoints of stores that were idle for a moment, because
Spark kills idle workers without a warning. RocksDB's threads do not survive a fork. So all databases are closed before
a fork, and parent and child reopen them on their next use.
"""

from __future__ import annotations

import atexit
import errno
import os
import select
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import rocksdict as rocks

from ....errors import HeadwaterError
from ..store import StoreDamagedError, StoreUnusableError
from .database import (
    Database,
    FilesDamagedError,
    Settings,
    Stamp,
    StoreFiles,
    start_threads,
    stop_threads,
    translated_errors,
)
from .writer import INCOMPLETE, NOT_CLOSED, WriteLock, Writer, is_locked, request_release, shared_lock

IDLE_S = 1.0
"""A store is checkpointed when it was idle for so many seconds."""

_POLL_MS = 1000 * IDLE_S
"""The interval of checks for idle stores, in ms."""

_PAUSE_S = 0.002
"""The interval of checks whether another process has released a store, in seconds."""

_NOT_PERMITTED = "another process has it open, and this user may not ask that process to close it"

_THREADS = Path("/proc/self/task")
_MAX_CHECKS = 1000

Result = TypeVar("Result")


class _RetryError(Exception):
    """Another process has just changed the store."""


class _LockedError(_RetryError):
    """Another process has the store open and has to release it."""


@dataclass(frozen=True)
class _Reader:
    """A read-only database as of a checkpoint."""

    stamp: Stamp
    database: Database


class Databases:
    """All databases of a process, by real path. One lock protects them all; it is released while a call waits."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._writers: dict[Path, Writer] = {}
        self._readers: dict[Path, _Reader] = {}
        self._caches: dict[int, rocks.Cache] = {}
        self._listener = ReleaseListener(self, self._lock)
        self._has_threads = False

    def position(self, directory: Path, settings: Settings, *, writable: bool) -> int:
        """The position of a store. Raises StoreDamagedError, StoreUnusableError, as the methods below do."""

        def look(files: StoreFiles) -> int:
            if (writer := self._writer(files)) is not None:
                return writer.position
            checkpoint = files.checkpoint()
            return self._without_checkpoint(files, settings, writable).position if checkpoint is None else checkpoint[0]

        return self._run(directory, look)

    def read(
        self, directory: Path, settings: Settings, work: Callable[[Database], Result], *, writable: bool = True
    ) -> Result:
        """The result of `work` on a store. If not `writable`, a missing store is not created but StoreDamagedError."""

        def look(files: StoreFiles) -> Result:
            if (writer := self._writer(files)) is not None:
                return work(writer.database)
            stamp = files.stamp
            if stamp is None:
                return work(self._without_checkpoint(files, settings, writable).database)
            return work(self._reader(files, settings, stamp).database)

        return self._run(directory, look)

    def write(self, directory: Path, settings: Settings, work: Callable[[Writer], Result]) -> Result:
        """The result of `work` with the writer of a store. An error of the operating system loses unflushed changes:
        then the next process that opens the store gets an empty one."""

        def change(files: StoreFiles) -> Result:
            writer = self._writer(files) or self._open_writer(files, settings)
            try:
                with translated_errors(directory):
                    return work(writer)
            except StoreUnusableError:
                self._mark_damaged(files)
                raise

        return self._run(directory, change)

    def defect(self, folder: Path, settings: Settings, sequence: int) -> str:
        """Why the database in a folder is damaged or lacks changes; empty if it has this sequence number."""
        try:
            with self._lock, translated_errors(folder):
                self._has_threads = True
                database = Database(folder, settings, self._cache(settings), writable=False)
                actual = database.sequence
                database.close()
        except FilesDamagedError as error:
            return str(error)
        return "" if actual == sequence else INCOMPLETE

    def applied(self, directory: Path) -> tuple[int, int]:
        """Records and bytes that this process has applied to a store since its last checkpoint."""
        with self._lock:
            writer = self._writers.get(directory)
            return (0, 0) if writer is None else (writer.records, writer.bytes)

    def close(self, directory: Path) -> None:
        """Flush and close a store, in whichever process it is open for writing."""

        def end(files: StoreFiles) -> None:
            if (writer := self._writer(files)) is not None:
                del self._writers[directory]
                writer.close(checkpoint=True)
            self._close_reader(directory)
            if is_locked(directory):
                if files.stamp is None:
                    raise _LockedError
                request_release(directory)  # without waiting: everything is on the disk

        self._run(directory, end)

    def request_pipes(self) -> Mapping[int, Path] | None:
        """The stores that other processes may request, by the file descriptors of their pipes; None without stores."""
        with self._lock:
            if not self._writers and not self._readers:
                return None
            return {writer.request_pipe: directory for directory, writer in self._writers.items()}

    def release(self, directory: Path) -> None:
        """Close a store, so that another process can open it. If it cannot be flushed, that process wipes it."""
        with self._lock, suppress(HeadwaterError, FilesDamagedError, OSError):
            if (writer := self._writers.pop(directory, None)) is not None:
                writer.close(checkpoint=True)

    def checkpoint_idle(self) -> None:
        """Checkpoint idle stores."""
        with self._lock:
            # An unreadable folder must not end the thread that serves all other stores. The next use of that store
            # raises the error.
            for directory, writer in list(self._writers.items()):
                with suppress(OSError):
                    self._checkpoint_if_idle(directory, writer)
            for directory, reader in list(self._readers.items()):
                with suppress(OSError):
                    if reader.stamp != StoreFiles(directory).stamp:
                        self._close_reader(directory)  # else it would keep replaced files on the disk

    def close_all(self) -> None:
        """Close all databases."""
        with self._lock:
            for directory in list(self._writers):
                self.release(directory)
            for directory in list(self._readers):
                self._close_reader(directory)

    def before_fork(self) -> None:
        """Close all databases, and keep them closed until the fork is done."""
        self._lock.acquire()
        self.close_all()
        if self._has_threads:
            stop_threads()
            _wait_for_threads()

    def after_fork_in_parent(self) -> None:
        """Restart RocksDB's threads."""
        if self._has_threads:
            start_threads()
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Restart RocksDB's threads. The listener's thread does not exist in the child."""
        self._listener.forget()
        self.after_fork_in_parent()

    def _run(self, directory: Path, work: Callable[[StoreFiles], Result]) -> Result:
        """The result of `work`, which is repeated until no other process interferes."""
        files = StoreFiles(directory)
        while True:
            try:
                with self._lock, self._marking_damage(files), translated_errors(directory):
                    return work(files)
            except _LockedError:
                if not request_release(directory):
                    raise StoreUnusableError(directory, errno.EACCES, _NOT_PERMITTED) from None
            except _RetryError:
                pass
            time.sleep(_PAUSE_S)

    @contextmanager
    def _marking_damage(self, files: StoreFiles) -> Iterator[None]:
        try:
            yield
        except FilesDamagedError as error:
            self._mark_damaged(files)
            raise StoreDamagedError(files.directory, str(error)) from error

    def _writer(self, files: StoreFiles) -> Writer | None:
        """This process's writer of a store, or None."""
        writer = self._writers.get(files.directory)
        if writer is not None and not writer.is_valid():
            self._close_without_checkpoint(files.directory)
            return None
        if writer is not None:
            writer.used = time.monotonic()
        return writer

    def _without_checkpoint(self, files: StoreFiles, settings: Settings, writable: bool) -> Writer:
        """A store without a checkpoint file: it is new, or was not closed, or another process writes it."""
        if writable:
            return self._open_writer(files, settings)
        if is_locked(files.directory):
            raise _LockedError
        if files.stamp is not None:
            raise _RetryError
        raise StoreDamagedError(files.directory, NOT_CLOSED)

    def _open_writer(self, files: StoreFiles, settings: Settings) -> Writer:
        lock = WriteLock.try_acquire(files.directory)
        if lock is None:
            raise _LockedError
        self._close_reader(files.directory)
        self._has_threads = True
        writer = Writer(files, lock, lambda folder: Database(folder, settings, self._cache(settings)))
        self._writers[files.directory] = writer
        self._listener.opened()
        if writer.wiped:
            raise StoreDamagedError(files.directory, writer.wiped)
        return writer

    def _reader(self, files: StoreFiles, settings: Settings, stamp: Stamp) -> _Reader:
        """The store as of the checkpoint file with this stamp."""
        current = self._readers.get(files.directory)
        if current is not None and current.stamp == stamp:
            return current
        self._close_reader(files.directory)
        self._has_threads = True
        try:
            database = self._open_as_of_checkpoint(files, settings)
        except Exception:
            # Opening a database for writing replaces files, also when nothing is changed. So the files are damaged only
            # if they cannot be opened while no process may write them.
            with shared_lock(files.directory) as shared:
                if not shared:
                    raise _LockedError from None
                if files.stamp != stamp:
                    raise _RetryError from None
                database = self._open_as_of_checkpoint(files, settings)
        if files.stamp != stamp:
            database.close()
            raise _RetryError
        reader = self._readers[files.directory] = _Reader(stamp, database)
        self._listener.opened()
        return reader

    def _open_as_of_checkpoint(self, files: StoreFiles, settings: Settings) -> Database:
        checkpoint = files.checkpoint()
        database = Database(files.database, settings, self._cache(settings), writable=False)
        if checkpoint is None or database.sequence != checkpoint[1]:
            database.close()
            raise FilesDamagedError(INCOMPLETE)
        return database

    def _cache(self, settings: Settings) -> rocks.Cache:
        size = settings.block_cache_size
        if size not in self._caches:
            self._caches[size] = rocks.Cache(size)
        return self._caches[size]

    def _checkpoint_if_idle(self, directory: Path, writer: Writer) -> None:
        if not writer.is_valid():
            self._close_without_checkpoint(directory)  # its files were replaced and would stay on the disk
        elif not writer.clean and time.monotonic() - writer.used >= IDLE_S:
            self._checkpoint(directory, writer)

    def _checkpoint(self, directory: Path, writer: Writer) -> None:
        try:
            with translated_errors(directory):
                writer.checkpoint()
        except (HeadwaterError, FilesDamagedError):
            self._close_without_checkpoint(directory)  # the next process that opens the store gets the error

    def _mark_damaged(self, files: StoreFiles) -> None:
        """Close a store with unknown content. The next process that opens it wipes it."""
        self._close_without_checkpoint(files.directory)
        files.mark_damaged()

    def _close_without_checkpoint(self, directory: Path) -> None:
        if (writer := self._writers.pop(directory, None)) is not None:
            with suppress(HeadwaterError, FilesDamagedError):
                writer.close(checkpoint=False)
        self._close_reader(directory)

    def _close_reader(self, directory: Path) -> None:
        if (reader := self._readers.pop(directory, None)) is not None:
            reader.database.close()


class ReleaseListener:
    """A thread that releases `stores` to other processes while any are open. `lock` protects `stores`."""

    def __init__(self, stores: Databases, lock: threading.RLock) -> None:
        self._stores = stores
        self._lock = lock
        self._thread: threading.Thread | None = None
        self._wakeup = (-1, -1)

    def opened(self) -> None:
        """A store was opened. The caller has the lock."""
        if self._thread is None:
            self._wakeup = os.pipe()
            self._thread = threading.Thread(target=self._run, name="headwater-rocksdb", daemon=True)
            self._thread.start()
        else:
            os.write(self._wakeup[1], b"!")

    def forget(self) -> None:
        """Reset the state in a forked process, which does not have the thread."""
        if self._thread is not None:
            self._end()

    def _end(self) -> None:
        self._thread = None
        for end in self._wakeup:
            os.close(end)

    def _run(self) -> None:
        while True:
            with self._lock:
                stores = self._stores.request_pipes()
                if stores is None:
                    if self._thread is threading.current_thread():
                        self._end()
                    return
                wakeup = self._wakeup[0]
            poll = select.poll()
            for file in (wakeup, *stores):
                poll.register(file, select.POLLIN)
            for file, _ in poll.poll(_POLL_MS):
                if file == wakeup:
                    os.read(wakeup, 4096)
                elif file in stores:
                    self._stores.release(stores[file])
            self._stores.checkpoint_idle()


def _wait_for_threads() -> None:
    """Wait until RocksDB's stopped threads have ended: less than a millisecond."""
    for _ in range(_MAX_CHECKS):
        with suppress(OSError):
            names = [(thread / "comm").read_text() for thread in _THREADS.iterdir()]
            if not any(name.startswith("rocksdb") for name in names):
                return
        time.sleep(_PAUSE_S / 4)


process_databases = Databases()
atexit.register(process_databases.close_all)
os.register_at_fork(
    before=process_databases.before_fork,
    after_in_parent=process_databases.after_fork_in_parent,
    after_in_child=process_databases.after_fork_in_child,
)
