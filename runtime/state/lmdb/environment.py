"""Environments of LMDB."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from ....private_files import FILE, make_folder
from ..directory import wipe
from ..store import StoreDamagedError
from . import file as lmdb_file
from .file import (
    RowDamagedError,
    damage,
    is_damaged,
    is_synced,
    is_trusted,
    machine_errors_told,
    mark_damaged,
    mark_synced,
    mark_unsynced,
    sealed,
    unsealed,
)

# One LMDB environment: how a store is laid out in it, and how LMDB's transactions are used.
#
# Rows are in one database and facts (`position`) in another, both with checksums (see `checksums`). Version 0.1 wrote
# them without checksums, under other names. Opening such a store to write adds the checksums. Opening it to read goes
# without them.

DAMAGE = (
    lmdb_file.FileDamagedError,
    RowDamagedError,
    lmdb.BadDbiError,  # no database is ever closed: the page that lists them has changed
    lmdb.BadTxnError,  # of what is done after another of these errors
    lmdb.CorruptedError,
    lmdb.CursorFullError,
    lmdb.IncompatibleError,
    lmdb.InvalidError,
    lmdb.NotFoundError,  # of a commit: a missing key is no error
    lmdb.PageFullError,  # of 600 flipped bits, most in headers of pages, about 50 gave this at a write
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.VersionMismatchError,
)
"""Errors which show that a file is not as it was written."""

_ROWS, _FACTS = b"checked rows", b"checked facts"
_OLD_ROWS, _OLD_FACTS = b"rows", b"facts"
_LOCK = "lock.mdb"
_LOCK_BYTES = 8192  # what LMDB maps of it, for 126 readers
_DATABASES = 4
_POSITION, _PARTITION = b"position", b"partition"
_SAFE_COMMITS = 1

Found = TypeVar("Found")


class Environment:
    """An open environment. `writable`: whether it was opened to write. Raises one of DAMAGE, lmdb.Error."""

    def __init__(self, directory: Path, map_size: int, *, writable: bool = True) -> None:
        self.directory = directory
        self.writable = writable
        self._partition = directory.name.encode() if directory.name.isdecimal() else b""
        file = directory / lmdb_file.NAME
        new = not file.exists()
        self._locked = writable or os.access(directory / _LOCK, os.W_OK)
        if writable and new:
            mark_unsynced(directory)
        elif lmdb_file.missing_bytes(file):
            self._lengthen(file)
        if writable:
            _allocate(directory / _LOCK, _LOCK_BYTES)
        # No sync: a killed process loses nothing, and the stop of a machine is noticed (see `durability`).
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
        if new:  # LMDB's mode is subject to the umask
            file.chmod(FILE)
            (directory / _LOCK).chmod(FILE)
        self._file = _file(directory)
        try:
            self._open()
        except BaseException:
            self._lmdb.close()
            raise

    def is_current(self) -> bool:
        """Whether the directory still has the files that are open here, as long as they were.

        They may have been wiped and made again. And LMDB never shortens a file: one that was cut off would end the
        process at the next page that is not there.
        """
        try:
            found = _file(self.directory)
        except FileNotFoundError:
            return False
        if found[:2] != self._file[:2] or found[2] < self._file[2] or self._was_cut_off():
            return False
        self._file = found
        return True

    def lies_at_its_path(self) -> bool:
        """Whether the file that is open here is the one of the directory, whatever has become of its content."""
        try:
            return _file(self.directory)[:2] == self._file[:2]
        except FileNotFoundError:
            return False

    def begin(self, *, write: bool = False) -> Any:
        """Begin a transaction. If another process has grown the map or died as a reader, this is handled here."""
        try:
            return self._lmdb.begin(write=write)
        except lmdb.MapResizedError:
            self._lmdb.set_mapsize(0)
        except lmdb.ReadersFullError:
            self._lmdb.reader_check()
        return self._lmdb.begin(write=write)

    def read(self, work: Callable[[Any], Found]) -> Found:
        """The result of `work` in a read transaction.

        A reader without the lock file is unknown to writers. A writer keeps the pages that the last two commits can
        see. So if there were more commits meanwhile, the read is repeated.
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
        """Up to which the changelog is applied.

        Raises RowDamagedError for the file of another partition, such as one that was copied to the wrong directory.
        """
        stored = transaction.get(_PARTITION, db=self.facts) if self._partition else None
        if stored is not None:
            (partition,) = self.values([_PARTITION], [stored])
            if partition != self._partition:
                raise RowDamagedError(f"it is the file of partition {partition.decode()}")
        stored = transaction.get(_POSITION, db=self.facts)
        if stored is None:
            if transaction.stat(self.rows)["entries"]:
                raise RowDamagedError("it has rows and no position")
            return 0
        (position,) = self.values([_POSITION], [stored])
        return int.from_bytes(position, "little")

    def entries(self, transaction: Any) -> int:
        """How many rows there are."""
        return int(transaction.stat(self.rows)["entries"])

    @property
    def file_bytes(self) -> int:
        """The length of the file."""
        return self._file[2]

    def put_position(self, transaction: Any, position: int) -> None:
        """Record up to which position the changelog is applied, and whose partition the store is."""
        facts = {_POSITION: position.to_bytes(8, "little")}
        if self._partition:  # other directories, such as those of stores in memory, have names without a meaning
            facts[_PARTITION] = self._partition
        for key, stored in zip(facts, sealed(list(facts), list(facts.values())), strict=True):
            transaction.put(key, stored, db=self.facts)

    def values(self, keys: Sequence[bytes], stored: Sequence[bytes]) -> Sequence[bytes]:
        """The values of what is stored under `keys`. Raises RowDamagedError."""
        return unsealed(keys, stored) if self.checked else stored

    def grow(self) -> None:
        """Make room when the map is full: free the pages of dead readers, and double the map."""
        self._lmdb.reader_check()
        self._lmdb.set_mapsize(2 * self._lmdb.info()["map_size"])

    def make_room(self, size: int) -> None:
        """Make the map large enough for a transaction with so many bytes of rows, as far as can be told.

        It may copy every page that there is, and takes up to twice the size of new rows. A transaction that finds the
        map full is done all over again.
        """
        info = self._lmdb.info()
        mapped, used = info["map_size"], (info["last_pgno"] + 1) * self._page_size
        wanted = 2 * (used + size)
        if wanted > mapped:
            self._lmdb.reader_check()
            self._lmdb.set_mapsize(mapped << (-(-wanted // mapped) - 1).bit_length())

    def mark_unsynced(self) -> None:
        """Record that writes follow. Call it within a write transaction, before the commit."""
        mark_unsynced(self.directory)

    def lengthen(self) -> None:
        """Add the empty pages at the end that LMDB may leave out, so that only a damaged file is too short."""
        lmdb_file.extend(self.directory / lmdb_file.NAME)
        found = _file(self.directory)
        if found[:2] == self._file[:2]:
            self._file = found

    def sync(self) -> None:
        """Make everything durable. It holds the write lock, so that no process writes between sync and marker."""
        with self.begin(write=True):
            self.lengthen()
            self._lmdb.sync(True)
            mark_synced(self.directory)

    def copy(self, handle: int) -> None:
        """Write all pages that are used after the last transaction to an open file. Writers go on meanwhile."""
        try:
            self._lmdb.copyfd(handle, compact=True)
        except lmdb.IncompatibleError:
            # LMDB cannot leave out free pages if some are neither used nor listed as free, which does no other harm.
            os.ftruncate(handle, 0)
            os.lseek(handle, 0, os.SEEK_SET)
            self._lmdb.copyfd(handle)

    @staticmethod
    def position_of_copy(file: Path, map_size: int) -> int:
        """The position that a copied file has. Raises one of DAMAGE, lmdb.Error."""
        copied = lmdb.open(str(file), map_size, subdir=False, readonly=True, lock=False, max_dbs=_DATABASES)
        try:
            facts = copied.open_db(_FACTS, create=False)
            with copied.begin() as transaction:
                stored = transaction.get(_POSITION, db=facts)
            if stored is None:
                return 0
            (position,) = unsealed([_POSITION], [stored])
            return int.from_bytes(position, "little")
        finally:
            copied.close()

    def close(self) -> None:
        """Close the files."""
        self._lmdb.close()

    def _was_cut_off(self) -> bool:
        """Whether a file that another process has closed is too short, though longer than when it was used here."""
        try:
            return is_synced(self.directory) and lmdb_file.missing_bytes(self.directory / lmdb_file.NAME) > 0
        except (lmdb_file.FileDamagedError, FileNotFoundError):
            return True

    def _lengthen(self, file: Path) -> None:
        """Handle a file that is too short.

        If it was not closed this is harmless, because checksums find losses. Otherwise it is damaged.
        """
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
        self._page_size = self._lmdb.stat()["psize"]
        self.rows = self._lmdb.open_db(rows, create=self.writable)
        self.facts = self._lmdb.open_db(facts, create=self.writable)

    def _taken_over(self) -> bool:
        """Add checksums to a store of version 0.1. Returns whether the map had room for them."""
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
    """Reserve disk space for a file that is written through a map: on a full disk such a write kills the process."""
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


def _file(directory: Path) -> tuple[int, int, int]:
    # The file system does not reuse an inode while the file is open.
    stat = os.stat(f"{directory}/{lmdb_file.NAME}")  # not by a Path: each use of a store asks this
    return stat.st_dev, stat.st_ino, stat.st_size


# The LMDB environments that are open in this process.
#
# Two rules of LMDB are kept here: a process opens a path at most once, and no environment is open across a fork. So
# this module has one object that lives as long as the process, and one lock for all of its environments. Before a fork
# all of them are closed. Parent and child open them again when they use them.


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
