"""Which process writes a store: RocksDB lets one process at a time have a database open to write.

That process holds a lock, which ends with it. Another process that needs the store asks for it through a named pipe:
the holder closes the database as soon as it is not at work on it.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Self

from ....private_files import FILE, make_folder

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
