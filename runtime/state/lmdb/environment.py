"""One LMDB environment: how a store lies in it, and what LMDB wants done around its transactions.

Rows are in one database and facts (`position`) in another, both with checksums (see `checksums`). Version 0.1 wrote
them without, under other names: whoever opens such a store to write gives it checksums, whoever reads goes without.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from ....private_files import FILE
from . import file as lmdb_file
from .checksums import RowDamagedError, sealed, unsealed
from .durability import is_synced, mark_synced, mark_unsynced

DAMAGE = (
    lmdb_file.FileDamagedError,
    RowDamagedError,
    lmdb.CorruptedError,
    lmdb.IncompatibleError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.VersionMismatchError,
)
"""What tells that a file is not what was written."""

_ROWS, _FACTS = b"checked rows", b"checked facts"
_OLD_ROWS, _OLD_FACTS = b"rows", b"facts"
_LOCK = "lock.mdb"
_LOCK_BYTES = 8192  # what LMDB maps of it, for 126 readers
_DATABASES = 4
_POSITION = b"position"
_SAFE_COMMITS = 1

Found = TypeVar("Found")


class Environment:
    """An open environment. `writable`: whether it was opened to write. Raises one of DAMAGE, lmdb.Error."""

    def __init__(self, directory: Path, map_size: int, *, writable: bool = True) -> None:
        self.directory = directory
        self.writable = writable
        file = directory / lmdb_file.NAME
        new = not file.exists()
        self._locked = writable or os.access(directory / _LOCK, os.W_OK)
        if writable and new:
            mark_unsynced(directory)
        elif lmdb_file.missing_bytes(file):
            self._lengthen(file)
        if writable:
            _allocate(directory / _LOCK, _LOCK_BYTES)
        # Without sync a killed process loses nothing and a stopped machine is noticed (see durability).
        self._lmdb = lmdb.open(
            str(directory),
            map_size=map_size,
            max_dbs=_DATABASES,
            sync=False,
            metasync=False,
            readonly=not writable,
            create=writable,
            mode=FILE,
            lock=self._locked,
        )
        if new:  # whatever the umask has left of their rights
            file.chmod(FILE)
            (directory / _LOCK).chmod(FILE)
        try:
            self._open()
        except BaseException:
            self._lmdb.close()
            raise
        self._inode = _inode(directory)

    def is_current(self) -> bool:
        """Whether the directory still holds the files that are open here (it may have been wiped and made again)."""
        try:
            return self._inode == _inode(self.directory)
        except FileNotFoundError:
            return False

    def begin(self, *, write: bool = False) -> Any:
        """A transaction. Another process may have grown the map, or died as a reader: both are put right here."""
        try:
            return self._lmdb.begin(write=write)
        except lmdb.MapResizedError:
            self._lmdb.set_mapsize(0)
        except lmdb.ReadersFullError:
            self._lmdb.reader_check()
        return self._lmdb.begin(write=write)

    def read(self, work: Callable[[Any], Found]) -> Found:
        """What `work` makes of a read transaction.

        Without a lock nobody knows of this reader. A writer leaves alone what the last commit and the one before it
        can see, so after more commits than that it is read again.
        """
        while True:
            with self.begin() as transaction:
                try:
                    found = work(transaction)
                except DAMAGE:
                    if self._locked or not self._overtaken(transaction):
                        raise
                    continue
                if self._locked or not self._overtaken(transaction):
                    return found

    def position(self, transaction: Any) -> int:
        """Changelog records applied."""
        stored = transaction.get(_POSITION, db=self.facts)
        if stored is None:
            if transaction.stat(self.rows)["entries"]:
                raise RowDamagedError("it has rows and no position")
            return 0
        (position,) = self.values([_POSITION], [stored])
        return int.from_bytes(position, "little")

    def put_position(self, transaction: Any, position: int) -> None:
        """Note how many changelog records are applied."""
        (stored,) = sealed([_POSITION], [position.to_bytes(8, "little")])
        transaction.put(_POSITION, stored, db=self.facts)

    def values(self, keys: Sequence[bytes], stored: Sequence[bytes]) -> Sequence[bytes]:
        """The values behind what is stored under `keys`. Raises RowDamagedError."""
        return unsealed(keys, stored) if self.checked else stored

    def grow(self) -> None:
        """Make room when the map is full: free what dead readers hold, and double the map."""
        self._lmdb.reader_check()
        self._lmdb.set_mapsize(2 * self._lmdb.info()["map_size"])

    def mark_unsynced(self) -> None:
        """Say that writes follow. Within a write transaction, before it commits."""
        mark_unsynced(self.directory)

    def lengthen(self) -> None:
        """Give the file the empty pages that LMDB may leave out at its end, so that only a damaged one lacks some."""
        lmdb_file.extend(self.directory / lmdb_file.NAME)

    def sync(self) -> None:
        """Make everything durable. Holds the write lock, so that no process writes between sync and mark."""
        with self.begin(write=True):
            self.lengthen()
            self._lmdb.sync(True)
            mark_synced(self.directory)

    def close(self) -> None:
        """Let go of the files."""
        self._lmdb.close()

    def _lengthen(self, file: Path) -> None:
        """A file that was not closed may end too early without harm; its checksums tell whether it does."""
        if self.writable and not is_synced(self.directory):
            lmdb_file.extend(file)
        else:
            missing = lmdb_file.missing_bytes(file)
            raise lmdb_file.FileDamagedError(f"its file {file.name} is {missing:,} bytes too short")

    def _open(self) -> None:
        if self.writable:
            self._lmdb.reader_check()
            while not self._taken_over():
                self.grow()
        self.checked = self.writable or _has(self._lmdb, _ROWS)
        rows, facts = (_ROWS, _FACTS) if self.checked else (_OLD_ROWS, _OLD_FACTS)
        self.rows = self._lmdb.open_db(rows, create=self.writable)
        self.facts = self._lmdb.open_db(facts, create=self.writable)

    def _taken_over(self) -> bool:
        """Give what version 0.1 has left its checksums; whether the map had room for it."""
        if not _has(self._lmdb, _OLD_ROWS):
            return True
        try:
            with self.begin(write=True) as transaction:
                if not _has(self._lmdb, _OLD_ROWS, transaction):
                    return True  # another process was quicker
                mark_unsynced(self.directory)
                for old, new in ((_OLD_ROWS, _ROWS), (_OLD_FACTS, _FACTS)):
                    database = self._lmdb.open_db(old, txn=transaction)
                    target = self._lmdb.open_db(new, txn=transaction)
                    for key, value in transaction.cursor(database):
                        transaction.put(key, sealed([key], [value])[0], db=target, append=True)
                    transaction.drop(database)
        except lmdb.MapFullError:
            return False
        self.lengthen()
        return True

    def _overtaken(self, transaction: Any) -> bool:
        return bool(self._lmdb.info()["last_txnid"] > transaction.id() + _SAFE_COMMITS)


def _allocate(path: Path, size: int) -> None:
    """Take room for a file that is mapped to be written: where a disk is full, the process is killed at that write."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, FILE)
    try:
        os.posix_fallocate(handle, 0, size)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(handle)


def _has(environment: Any, database: bytes, transaction: Any = None) -> bool:
    try:
        environment.open_db(database, txn=transaction, create=False)
    except lmdb.NotFoundError:
        return False
    return True


def _inode(directory: Path) -> tuple[int, int]:
    # Not used again by the file system as long as the file is open.
    stat = (directory / lmdb_file.NAME).stat()
    return stat.st_dev, stat.st_ino
