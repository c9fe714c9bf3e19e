"""The RocksDB databases that are open in this process.

A database is open to write in one process at a time, its holder. It stays open there until another process asks for it:
one that wants to write it, and one that wants to read it where there is no checkpoint. Where there is one, processes
read what was on the disk then, and the holder keeps the store.

A thread of this process answers those who ask. It also writes checkpoints of stores that have not been used for a
moment, because Spark kills workers that are idle, and tells them nothing before. RocksDB's threads do not survive a
fork. So before one all databases are closed, and parent and child open them again when they use them.
"""

from __future__ import annotations

import atexit
import errno
import os
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
from .database import Database, FilesDamagedError, Settings, Stamp, StoreFiles, errors_told, start_threads, stop_threads
from .writer import IDLE_S, INCOMPLETE, NOT_CLOSED, Answering, Claim, Writer, ask, is_claimed

_PAUSE_S = 0.002
"""Between two looks whether another process has let go of a store, in seconds."""

_NOT_ASKED = "another process has it open, and this user may not ask that process to close it"

_THREADS = Path("/proc/self/task")
_MOST_LOOKS = 1000

Found = TypeVar("Found")


class _Again(Exception):
    """Another process has just changed the store."""


class _Held(_Again):
    """Another process holds the store, and is to let go of it."""


@dataclass(frozen=True)
class _Reader:
    """A database as it was at a checkpoint."""

    stamp: Stamp
    database: Database


class Databases:
    """All databases of a process, by real path. One lock for all of them, which is never held while it waits."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._writers: dict[Path, Writer] = {}
        self._readers: dict[Path, _Reader] = {}
        self._caches: dict[int, rocks.Cache] = {}
        self._answering = Answering(self, self._lock)
        self._has_threads = False

    def position(self, directory: Path, settings: Settings, *, writable: bool) -> int:
        """The position of a store. Raises StoreDamagedError, StoreUnusableError, as the methods below do."""

        def look(files: StoreFiles) -> int:
            if (writer := self._writer(files)) is not None:
                return writer.position
            noted = files.checkpoint()
            return self._unknown(files, settings, writable).position if noted is None else noted[0]

        return self._done(directory, look)

    def read(
        self, directory: Path, settings: Settings, work: Callable[[Database], Found], *, writable: bool = True
    ) -> Found:
        """What `work` finds in a store. A store that is not `writable` is never made: see StoreDamagedError."""

        def look(files: StoreFiles) -> Found:
            if (writer := self._writer(files)) is not None:
                return work(writer.database)
            stamp = files.stamp
            if stamp is None:
                return work(self._unknown(files, settings, writable).database)
            return work(self._reader(files, settings, stamp).database)

        return self._done(directory, look)

    def write(self, directory: Path, settings: Settings, work: Callable[[Writer], Found]) -> Found:
        """What `work` comes to with the right to write a store. An error of the machine loses what was not on the disk:
        then the next one who opens the store gets an empty one."""

        def change(files: StoreFiles) -> Found:
            writer = self._writer(files) or self._taken(files, settings)
            try:
                with errors_told(directory):
                    return work(writer)
            except StoreUnusableError:
                self._give_up(files)
                raise

        return self._done(directory, change)

    def defect(self, folder: Path, settings: Settings, sequence: int) -> str:
        """Why the database of a folder is not the one that has this sequence number; empty if it is."""
        try:
            with self._lock, errors_told(folder):
                self._has_threads = True
                database = Database(folder, settings, self._cache(settings), writable=False)
                found = database.sequence
                database.close()
        except FilesDamagedError as error:
            return str(error)
        return "" if found == sequence else INCOMPLETE

    def applied(self, directory: Path) -> tuple[int, int]:
        """Records and bytes that this process has applied to a store since its last checkpoint."""
        with self._lock:
            writer = self._writers.get(directory)
            return (0, 0) if writer is None else (writer.records, writer.bytes)

    def close(self, directory: Path) -> None:
        """Bring a store to the disk and close it, whichever process writes it."""

        def end(files: StoreFiles) -> None:
            if (writer := self._writer(files)) is not None:
                del self._writers[directory]
                writer.close(checkpoint=True)
            self._drop(directory)
            if is_claimed(directory):
                if files.stamp is None:
                    raise _Held
                ask(directory)  # there is nothing to wait for: everything is on the disk

        self._done(directory, end)

    def listened_to(self) -> Mapping[int, Path] | None:
        """See `answering.Open`."""
        with self._lock:
            if not self._writers and not self._readers:
                return None
            return {writer.asked: directory for directory, writer in self._writers.items()}

    def let_go(self, directory: Path) -> None:
        """See `answering.Open`. A store that cannot be brought to the disk is wiped by whoever asked for it."""
        with self._lock, suppress(HeadwaterError, FilesDamagedError, OSError):
            if (writer := self._writers.pop(directory, None)) is not None:
                writer.close(checkpoint=True)

    def rest(self) -> None:
        """See `answering.Open`."""
        with self._lock:
            # A folder that cannot be looked at must not end the thread that answers for all others: whoever uses that
            # store is told.
            for directory, writer in list(self._writers.items()):
                with suppress(OSError):
                    self._rest_writer(directory, writer)
            for directory, reader in list(self._readers.items()):
                with suppress(OSError):
                    if reader.stamp != StoreFiles(directory).stamp:
                        self._drop(directory)  # it would keep files on the disk that are replaced by now

    def close_all(self) -> None:
        """Close everything."""
        with self._lock:
            for directory in list(self._writers):
                self.let_go(directory)
            for directory in list(self._readers):
                self._drop(directory)

    def before_fork(self) -> None:
        """Close everything, and keep it closed until the fork is done."""
        self._lock.acquire()
        self.close_all()
        if self._has_threads:
            stop_threads()
            _wait_for_threads()

    def after_fork_in_parent(self) -> None:
        """Let threads continue."""
        if self._has_threads:
            start_threads()
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Let threads continue, but the one that is not here."""
        self._answering.forget()
        self.after_fork_in_parent()

    def _done(self, directory: Path, work: Callable[[StoreFiles], Found]) -> Found:
        """The result of `work`, which is tried until no other process is in its way."""
        files = StoreFiles(directory)
        while True:
            try:
                with self._lock, self._damage_told(files), errors_told(directory):
                    return work(files)
            except _Held:
                if not ask(directory):
                    raise StoreUnusableError(directory, errno.EACCES, _NOT_ASKED) from None
            except _Again:
                pass
            time.sleep(_PAUSE_S)

    @contextmanager
    def _damage_told(self, files: StoreFiles) -> Iterator[None]:
        try:
            yield
        except FilesDamagedError as error:
            self._give_up(files)
            raise StoreDamagedError(files.directory, str(error)) from error

    def _writer(self, files: StoreFiles) -> Writer | None:
        """The store as this process writes it, if it does."""
        writer = self._writers.get(files.directory)
        if writer is not None and not writer.serves():
            self._forget(files.directory)
            return None
        if writer is not None:
            writer.used = time.monotonic()
        return writer

    def _unknown(self, files: StoreFiles, settings: Settings, writable: bool) -> Writer:
        """The store without a checkpoint: it is new, or was not closed, or another process writes it."""
        if writable:
            return self._taken(files, settings)
        if is_claimed(files.directory):
            raise _Held
        if files.stamp is not None:
            raise _Again
        raise StoreDamagedError(files.directory, NOT_CLOSED)

    def _taken(self, files: StoreFiles, settings: Settings) -> Writer:
        claim = Claim.attempt(files.directory)
        if claim is None:
            raise _Held
        self._drop(files.directory)
        self._has_threads = True
        writer = Writer(files, claim, lambda folder: Database(folder, settings, self._cache(settings)))
        self._writers[files.directory] = writer
        self._answering.opened()
        if writer.wiped:
            raise StoreDamagedError(files.directory, writer.wiped)
        return writer

    def _reader(self, files: StoreFiles, settings: Settings, stamp: Stamp) -> _Reader:
        """The store as it was at the checkpoint with this stamp."""
        known = self._readers.get(files.directory)
        if known is not None and known.stamp == stamp:
            return known
        self._drop(files.directory)
        self._has_threads = True
        noted = files.checkpoint()
        try:
            database = Database(files.database, settings, self._cache(settings), writable=False)
            if noted is None or database.sequence != noted[1]:
                database.close()
                raise FilesDamagedError(INCOMPLETE)
        except Exception:
            if files.stamp != stamp:
                raise _Again from None
            if is_claimed(files.directory):
                raise _Held from None  # it may replace files just now
            raise
        if files.stamp != stamp:
            database.close()
            raise _Again
        found = self._readers[files.directory] = _Reader(stamp, database)
        self._answering.opened()
        return found

    def _cache(self, settings: Settings) -> rocks.Cache:
        size = settings.block_cache_size
        if size not in self._caches:
            self._caches[size] = rocks.Cache(size)
        return self._caches[size]

    def _rest_writer(self, directory: Path, writer: Writer) -> None:
        if not writer.serves():
            self._forget(directory)  # other files are in the place of its own, which would stay on the disk
        elif not writer.clean and time.monotonic() - writer.used >= IDLE_S:
            self._settle(directory, writer)

    def _settle(self, directory: Path, writer: Writer) -> None:
        try:
            with errors_told(directory):
                writer.checkpoint()
        except (HeadwaterError, FilesDamagedError):
            self._forget(directory)  # whoever opens the store next is told

    def _give_up(self, files: StoreFiles) -> None:
        """Have a store wiped by whoever opens it next, as it is unknown what it holds."""
        self._forget(files.directory)
        files.mark_damaged()

    def _forget(self, directory: Path) -> None:
        """Close a store as it is."""
        if (writer := self._writers.pop(directory, None)) is not None:
            with suppress(HeadwaterError, FilesDamagedError):
                writer.close(checkpoint=False)
        self._drop(directory)

    def _drop(self, directory: Path) -> None:
        if (reader := self._readers.pop(directory, None)) is not None:
            reader.database.close()


def _wait_for_threads() -> None:
    """Wait until RocksDB's threads have ended, which were told so: less than a millisecond."""
    for _ in range(_MOST_LOOKS):
        with suppress(OSError):
            names = [(thread / "comm").read_text() for thread in _THREADS.iterdir()]
            if not any(name.startswith("rocksdb") for name in names):
                return
        time.sleep(_PAUSE_S / 4)


of_this_process = Databases()
atexit.register(of_this_process.close_all)
os.register_at_fork(
    before=of_this_process.before_fork,
    after_in_parent=of_this_process.after_fork_in_parent,
    after_in_child=of_this_process.after_fork_in_child,
)
