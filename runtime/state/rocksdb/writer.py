"""Who writes a database, and answers others."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol, Self

from ....errors import HeadwaterError
from ....private_files import FILE, make_folder
from ...log.durable_files import sync_directory
from ...tasks.errors import TaskMigratedError
from ..store import Changes
from .database import Database, FilesDamagedError, StoreFiles, collected, errors_told

# Which process writes a store: RocksDB lets one process at a time have a database open to write.
#
# That process holds a lock, which ends with it. Another process that needs the store asks for it through a named pipe:
# the holder closes the database as soon as it is not at work on it.

_LOCK = "lock"
_ASKED = "asked"


class Claim:
    """The right to write the store of a directory, until it is released or the process ends."""

    def __init__(self, directory: Path, lock: int, asked: int) -> None:
        self._directory = directory
        self._lock = lock
        self.asked = asked

    @classmethod
    def attempt(cls, directory: Path) -> Self | None:
        """Take the right; None while another process has it. Raises OSError."""
        while True:
            make_folder(directory)
            try:
                lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, FILE)
            except FileNotFoundError:
                continue  # the directory was wiped just now
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not _is_at(lock, directory / _LOCK):
                    os.close(lock)
                    continue
                with suppress(FileExistsError):
                    os.mkfifo(directory / _ASKED, FILE)
                # Open to write as well: otherwise the pipe would be at its end whenever nobody asks.
                return cls(directory, lock, os.open(directory / _ASKED, os.O_RDWR | os.O_NONBLOCK))
            except BlockingIOError:
                os.close(lock)
                return None
            except BaseException:
                os.close(lock)
                raise

    def is_current(self) -> bool:
        """Whether it is the right to what lies in the directory now. That may have been wiped and made again."""
        return _is_at(self._lock, self._directory / _LOCK)

    def release(self) -> None:
        """Give the right up, also where the folder cannot be looked at: this process would wait for itself."""
        try:
            with suppress(OSError):  # many a tool that copies folders does not know pipes
                if self.is_current():
                    os.unlink(self._directory / _ASKED)
        finally:
            os.close(self.asked)
            os.close(self._lock)


def is_claimed(directory: Path) -> bool:
    """Whether a process writes the store of a directory. Raises OSError."""
    try:
        lock = os.open(directory / _LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def ask(directory: Path) -> bool:
    """Ask the process that writes a store to let go of it. Whether this may be done."""
    try:
        pipe = os.open(directory / _ASKED, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        # ENXIO: nobody listens. The holder has just let go, or is about to listen.
        return error.errno in (errno.ENXIO, errno.ENOENT)
    with suppress(BlockingIOError, BrokenPipeError):  # it is asked already, or has let go just now
        os.write(pipe, b"?")
    os.close(pipe)
    return True


def _is_at(handle: int, path: Path) -> bool:
    mine = os.fstat(handle)
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


# A store that this process writes: the database, and what of it is on the disk.

NOT_CLOSED = "the process that had it open was killed, and it keeps no log of what was not on the disk yet"
INCOMPLETE = "it lacks changes that were on the disk"

Open = Callable[[Path], Database]
"""Opens the database of a folder to write."""


class Writer:
    """The store of a directory as its one writer has it. `position`: up to which its changelog is applied.

    `records`, `bytes`: applied since the last checkpoint. `used`: when it was used last, by `time.monotonic`. `wiped`:
    why it began empty, if nobody has been told yet.
    """

    def __init__(self, files: StoreFiles, claim: Claim, open_database: Open) -> None:
        self._files = files
        self._claim = claim
        self._open = open_database
        self.records = 0
        self.bytes = 0
        self.wiped = ""
        self.used = time.monotonic()
        try:
            self.database, self.position, self._clean = self._opened(open_database)
        except BaseException:
            claim.release()
            raise

    @property
    def asked(self) -> int:
        """The file that can be read when another process asks for the store."""
        return self._claim.asked

    @property
    def clean(self) -> bool:
        """Whether the checkpoint file is true."""
        return self._clean

    def serves(self) -> bool:
        """Whether its files are those of the directory, and nobody has found them damaged."""
        return self._claim.is_current() and (not self._clean or self._files.stamp is not None)

    def apply(
        self, changes: Iterable[Changes], from_position: int, position: int, expire_below: bytes | None = None
    ) -> None:
        """See `StateStore.apply`. What was applied is not on the disk before the next checkpoint."""
        if self.position != from_position:
            raise TaskMigratedError(f"store {self._files.directory}", from_position, self.position)
        batch = collected(changes, expire_below)
        if self._clean:
            self._files.delete_checkpoint()
            self._clean = False
        size = batch.size_in_bytes()
        self.database.write(batch)
        self.position = position
        self.records += position - from_position
        self.bytes += size

    def checkpoint(self) -> None:
        """Bring everything to the disk, and then write the position down."""
        if self._clean:
            return
        self.database.flush()
        self._files.write_checkpoint(self.position, self.database.sequence)
        self._clean = True
        self.records = self.bytes = 0

    def link(self, folder: Path) -> tuple[int, int]:
        """Make a database in a new folder, of this moment; its position and sequence number."""
        self.checkpoint()
        self.database.link(folder)
        return self.position, self.database.sequence

    def replace(self, folder: Path, position: int, sequence: int) -> None:
        """Put the database of a folder in the place of this one. The folder is gone then."""
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
        """Close the database and let other processes have it. Raises StoreUnusableError."""
        try:
            if checkpoint and self.serves():
                self.checkpoint()
        finally:
            try:
                # RocksDB itself repeats the error of a flush that failed.
                with suppress(HeadwaterError, FilesDamagedError), errors_told(self._files.directory):
                    self.database.close()
            finally:
                self._claim.release()

    def _opened(self, open_database: Open) -> tuple[Database, int, bool]:
        """The database, its position, and whether there is a checkpoint. What cannot be trusted is wiped."""
        files = self._files
        try:
            with errors_told(files.directory):
                noted = None if files.is_damaged() else files.checkpoint()
                if noted is not None:
                    return self._checked(open_database, *noted)
                if files.database.is_dir() and not files.is_damaged():
                    self.wiped = NOT_CLOSED
        except FilesDamagedError as error:
            self.wiped = str(error)
        files.wipe()
        make_folder(files.database)
        with errors_told(files.directory):
            return open_database(files.database), 0, False

    def _checked(self, open_database: Open, position: int, sequence: int) -> tuple[Database, int, bool]:
        if not self._files.database.is_dir():
            raise FilesDamagedError("its files are not there")
        database = open_database(self._files.database)
        if database.sequence != sequence:
            database.close()
            raise FilesDamagedError(INCOMPLETE)
        return database, position, True


# The thread that answers other processes which need a store that this one writes.

IDLE_S = 1.0
"""After which a store that is not used is brought to the disk, in seconds."""


class OpenStores(Protocol):
    """What is open in this process."""

    def listened_to(self) -> Mapping[int, Path] | None:
        """The stores that others may ask for, by the files that can be read then; None if nothing is open."""
        ...

    def let_go(self, directory: Path) -> None:
        """Close a store for others."""
        ...

    def rest(self) -> None:
        """Bring to the disk what has not been used for a moment."""
        ...


class Answering:
    """Runs as long as something is open. `lock` protects what is open."""

    def __init__(self, what: OpenStores, lock: threading.RLock) -> None:
        self._open = what
        self._lock = lock
        self._thread: threading.Thread | None = None
        self._woken = (-1, -1)

    def opened(self) -> None:
        """Something was opened. Call it with the lock held."""
        if self._thread is None:
            self._woken = os.pipe()
            self._thread = threading.Thread(target=self._run, name="headwater-rocksdb", daemon=True)
            self._thread.start()
        else:
            os.write(self._woken[1], b"!")

    def forget(self) -> None:
        """In a forked process: there is no thread, whatever there was before."""
        if self._thread is not None:
            self._end()

    def _end(self) -> None:
        self._thread = None
        for end in self._woken:
            os.close(end)

    def _run(self) -> None:
        while True:
            with self._lock:
                stores = self._open.listened_to()
                if stores is None:
                    if self._thread is threading.current_thread():
                        self._end()
                    return
                woken = self._woken[0]
            poll = select.poll()
            for file in (woken, *stores):
                poll.register(file, select.POLLIN)
            for file, _ in poll.poll(IDLE_S * 1000):
                if file == woken:
                    os.read(woken, 4096)
                elif file in stores:
                    self._open.let_go(stores[file])
            self._open.rest()
