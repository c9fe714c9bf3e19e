"""Open LMDB environments, and all environments of this process."""

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
    mark_damaged,
    mark_synced,
    mark_unsynced,
    translated_errors,
    with_checksums,
    without_checksums,
)

# One LMDB environment: the layout of a store in it, and its transactions.
#
# Rows are in one database and metadata (the position) in another one, both with checksums (see `file`). Version 0.1
# wrote them without checksums, under other names. Opening such a store for writing adds the checksums. A reader reads
# it without checksums.

DAMAGE = (
    lmdb_file.FileDamagedError,
    RowDamagedError,
    lmdb.BadDbiError,  # no database is ever closed: the page that lists them has changed
    lmdb.BadTxnError,  # of any operation after one of these errors
    lmdb.CorruptedError,
    lmdb.CursorFullError,
    lmdb.IncompatibleError,
    lmdb.InvalidError,
    lmdb.NotFoundError,  # of a commit: a missing key is no error
    lmdb.PageFullError,  # about 50 of 600 flipped bits, mostly in page headers, caused this in a write
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.VersionMismatchError,
)
"""Errors of a damaged file."""

_ROWS, _METADATA = b"checked rows", b"checked facts"
_OLD_ROWS, _OLD_METADATA = b"rows", b"facts"
_LOCK = "lock.mdb"
_LOCK_BYTES = 8192  # the part that LMDB maps, for 126 readers
_DATABASES = 4
_POSITION, _PARTITION = b"position", b"partition"
_SAFE_COMMITS = 1

Result = TypeVar("Result")


class Environment:
    """An open environment. `writable`: whether it was opened for writing. Raises one of DAMAGE, lmdb.Error."""

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
        # No sync: a killed process loses nothing, and a stop of the machine is detected (see `file.is_trusted`).
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
        if new:  # the umask applies to LMDB's mode
            file.chmod(FILE)
            (directory / _LOCK).chmod(FILE)
        self._file = _file(directory)
        try:
            self._open()
        except BaseException:
            self._lmdb.close()
            raise

    def is_current(self) -> bool:
        """Whether the directory still has the open files, and they are not shorter.

        They may have been wiped and recreated. LMDB itself never shortens a file. A truncated one would crash the
        process at the next missing page.
        """
        try:
            current = _file(self.directory)
        except FileNotFoundError:
            return False
        if current[:2] != self._file[:2] or current[2] < self._file[2] or self._was_cut_off():
            return False
        self._file = current
        return True

    def is_at_its_path(self) -> bool:
        """Whether the open file is still the one in the directory, with any content."""
        try:
            return _file(self.directory)[:2] == self._file[:2]
        except FileNotFoundError:
            return False

    def begin(self, *, write: bool = False) -> Any:
        """Begin a transaction. It handles a map that another process has grown, and readers of ended processes."""
        try:
            return self._lmdb.begin(write=write)
        except lmdb.MapResizedError:
            self._lmdb.set_mapsize(0)
        except lmdb.ReadersFullError:
            self._lmdb.reader_check()
        return self._lmdb.begin(write=write)

    def read(self, work: Callable[[Any], Result]) -> Result:
        """The result of `work` in a read transaction.

        Writers do not know a reader without the lock file. They keep the pages of the last two commits only. So after
        more commits the read is repeated.
        """
        while True:
            with self.begin() as transaction:
                try:
                    result = work(transaction)
                except DAMAGE:
                    if self._locked or not self._overtaken(transaction):
                        raise
                    continue
                if self._locked or not self._overtaken(transaction):
                    return result

    def position(self, transaction: Any) -> int:
        """The position up to which the changelog is applied.

        Raises RowDamagedError for the file of another partition, such as one that was copied to the wrong directory.
        """
        stored = transaction.get(_PARTITION, db=self.metadata) if self._partition else None
        if stored is not None:
            (partition,) = self.values([_PARTITION], [stored])
            if partition != self._partition:
                raise RowDamagedError(f"it is the file of partition {partition.decode()}")
        stored = transaction.get(_POSITION, db=self.metadata)
        if stored is None:
            if transaction.stat(self.rows)["entries"]:
                raise RowDamagedError("it has rows and no position")
            return 0
        (position,) = self.values([_POSITION], [stored])
        return int.from_bytes(position, "little")

    def entries(self, transaction: Any) -> int:
        """The number of rows."""
        return int(transaction.stat(self.rows)["entries"])

    @property
    def file_bytes(self) -> int:
        """The length of the file in bytes."""
        return self._file[2]

    def put_position(self, transaction: Any, position: int) -> None:
        """Write the position up to which the changelog is applied, and the partition of the store."""
        metadata = {_POSITION: position.to_bytes(8, "little")}
        if self._partition:  # the names of other directories, such as those of stores in memory, have no meaning
            metadata[_PARTITION] = self._partition
        for key, stored in zip(metadata, with_checksums(list(metadata), list(metadata.values())), strict=True):
            transaction.put(key, stored, db=self.metadata)

    def values(self, keys: Sequence[bytes], stored: Sequence[bytes]) -> Sequence[bytes]:
        """The values in the stored bytes of `keys`. Raises RowDamagedError."""
        return without_checksums(keys, stored) if self.checked else stored

    def grow(self) -> None:
        """Double a full map, and free the pages of ended readers."""
        self._lmdb.reader_check()
        self._lmdb.set_mapsize(2 * self._lmdb.info()["map_size"])

    def reserve(self, size: int) -> None:
        """Enlarge the map for a transaction with `size` bytes of rows, by an estimate.

        A transaction may copy all existing pages, and uses up to twice the size of new rows. If the map is full anyway,
        the transaction is repeated. The map size is doubled until it suffices: 64 MB mapped, 40 MB used and 100 MB of
        rows need 2 * 140 MB, so the map gets 512 MB.
        """
        info = self._lmdb.info()
        mapped, used = info["map_size"], (info["last_pgno"] + 1) * self._page_size
        needed = 2 * (used + size)
        if needed > mapped:
            self._lmdb.reader_check()
            self._lmdb.set_mapsize(mapped << (-(-needed // mapped) - 1).bit_length())

    def mark_unsynced(self) -> None:
        """Record that writes follow. Call it within a write transaction, before the commit."""
        mark_unsynced(self.directory)

    def lengthen(self) -> None:
        """Add empty pages at the end that LMDB may omit, so that only a damaged file is too short."""
        lmdb_file.extend(self.directory / lmdb_file.NAME)
        current = _file(self.directory)
        if current[:2] == self._file[:2]:
            self._file = current

    def sync(self) -> None:
        """Sync all changes to the disk. Under the write lock, so that no process writes between sync and marker."""
        with self.begin(write=True):
            self.lengthen()
            self._lmdb.sync(True)
            mark_synced(self.directory)

    def copy(self, handle: int) -> None:
        """Write all pages in use after the last transaction to an open file. Writers are not blocked."""
        try:
            self._lmdb.copyfd(handle, compact=True)
        except lmdb.IncompatibleError:
            # LMDB cannot omit free pages if some are neither used nor listed as free. That is otherwise harmless.
            os.ftruncate(handle, 0)
            os.lseek(handle, 0, os.SEEK_SET)
            self._lmdb.copyfd(handle)

    @staticmethod
    def position_of_copy(file: Path, map_size: int) -> int:
        """The position in a copied file. Raises one of DAMAGE, lmdb.Error."""
        copied = lmdb.open(str(file), map_size, subdir=False, readonly=True, lock=False, max_dbs=_DATABASES)
        try:
            metadata = copied.open_db(_METADATA, create=False)
            with copied.begin() as transaction:
                stored = transaction.get(_POSITION, db=metadata)
            if stored is None:
                return 0
            (position,) = without_checksums([_POSITION], [stored])
            return int.from_bytes(position, "little")
        finally:
            copied.close()

    def close(self) -> None:
        """Close the files."""
        self._lmdb.close()

    def _was_cut_off(self) -> bool:
        """Whether a file that another process has closed is truncated, although it is longer than it was here."""
        try:
            return is_synced(self.directory) and lmdb_file.missing_bytes(self.directory / lmdb_file.NAME) > 0
        except (lmdb_file.FileDamagedError, FileNotFoundError):
            return True

    def _lengthen(self, file: Path) -> None:
        """Handle a short file. If it was not closed it is extended, because checksums detect losses. Else it is
        damaged.
        """
        if self.writable and not is_synced(self.directory):
            lmdb_file.extend(file)
        else:
            missing = lmdb_file.missing_bytes(file)
            raise lmdb_file.FileDamagedError(f"its file {file.name} is {missing:,} bytes too short")

    def _open(self) -> None:
        if self.writable:
            self._lmdb.reader_check()
            while not self._add_missing_checksums():
                self.grow()
        self.checked = self.writable or _has(self._lmdb, _ROWS)
        rows, metadata = (_ROWS, _METADATA) if self.checked else (_OLD_ROWS, _OLD_METADATA)
        self._page_size = self._lmdb.stat()["psize"]
        self.rows = self._lmdb.open_db(rows, create=self.writable)
        self.metadata = self._lmdb.open_db(metadata, create=self.writable)

    def _add_missing_checksums(self) -> bool:
        """Add checksums to a store of version 0.1. Returns whether the map was large enough."""
        if not _has(self._lmdb, _OLD_ROWS):
            return True
        try:
            with self.begin(write=True) as transaction:
                if not _has(self._lmdb, _OLD_ROWS, transaction):
                    return True  # another process was faster
                mark_unsynced(self.directory)
                for old, new in ((_OLD_ROWS, _ROWS), (_OLD_METADATA, _METADATA)):
                    database = self._lmdb.open_db(old, txn=transaction)
                    target = self._lmdb.open_db(new, txn=transaction)
                    for key, value in transaction.cursor(database):
                        transaction.put(key, with_checksums([key], [value])[0], db=target, append=True)
                    transaction.drop(database)
        except lmdb.MapFullError:
            return False
        self.lengthen()
        return True

    def _overtaken(self, transaction: Any) -> bool:
        return bool(self._lmdb.info()["last_txnid"] > transaction.id() + _SAFE_COMMITS)


def _allocate(path: Path, size: int) -> None:
    """Allocate disk space for a file that is written through a map: on a full disk such a write crashes the process."""
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
    """Device, inode and size of an environment's file. The file system does not reuse an inode of an open file."""
    stat = os.stat(f"{directory}/{lmdb_file.NAME}")  # a string is faster than a Path, and each use of a store needs it
    return stat.st_dev, stat.st_ino, stat.st_size


# All open LMDB environments of this process.
#
# LMDB has two rules: a process opens a path at most once, and no environment is open across a fork. So this module has
# one object for the whole process, with one lock for all of its environments. Before a fork all of them are closed.
# Parent and child reopen them on their next use.


class Environments:
    """The open environments of a process, by real path."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: dict[Path, Environment] = {}

    @contextmanager
    def use(self, directory: Path, map_size: int, *, writable: bool = True) -> Iterator[Environment]:
        """The environment of `directory`, for the time of the context.

        It is opened if necessary, created if missing, and recreated empty if it cannot be trusted. A read-only
        environment is never created: StoreDamagedError is raised if it cannot be trusted. Damage found in the context
        marks the files as damaged and raises StoreDamagedError too. Raises StoreUnusableError.
        """
        with self._lock, translated_errors(directory):
            environment = self._open.get(directory)
            if environment is not None and not self._is_valid(environment, writable):
                self._close(directory)
                environment = None
            if environment is None:
                self._close_renamed()
                opened = _open_to_write(directory, map_size) if writable else _open_to_read(directory, map_size)
                environment = self._open[directory] = opened
            try:
                yield environment
            except DAMAGE as error:
                if environment.is_current():  # else the damage was in files that were replaced meanwhile
                    mark_damaged(directory, str(error))
                raise StoreDamagedError(directory, str(error)) from error

    def close(self, directory: Path) -> None:
        """Sync and close the environment of `directory`, if it is open."""
        with self._lock, translated_errors(directory):
            environment = self._open.get(directory)
            if environment is not None:
                if environment.writable and environment.is_current():
                    environment.sync()
                self._close(directory)

    def replace(self, folder: Path, directory: Path) -> None:
        """Replace `directory` by `folder`, which is renamed. Processes with open files detect it."""
        with self._lock, translated_errors(directory):
            if directory in self._open:
                self._close(directory)
            wipe(directory)
            folder.rename(directory)

    def before_fork(self) -> None:
        """Close all environments, and keep them closed until the fork is done."""
        self._lock.acquire()
        for directory in list(self._open):
            self._close(directory)

    def after_fork(self) -> None:
        """Allow use again, in parent and child."""
        self._lock.release()

    def _is_valid(self, environment: Environment, writable: bool) -> bool:
        return (
            environment.is_current()
            and (environment.writable or not writable)
            and not is_damaged(environment.directory)
        )

    def _close_renamed(self) -> None:
        """Close environments with moved directories: a file must be opened only once, also under its new path."""
        for directory in [path for path, environment in self._open.items() if _was_moved(environment)]:
            self._close(directory)

    def _close(self, directory: Path) -> None:
        self._open.pop(directory).close()


def _was_moved(environment: Environment) -> bool:
    try:
        return not environment.is_at_its_path()
    except OSError:  # the next use of that environment raises it
        return False


def _open_to_write(directory: Path, map_size: int) -> Environment:
    make_folder(directory.parent)
    # The workers of an executor may open a global table at the same time. A file that one of them is still creating
    # would look damaged to another one, which would wipe it.
    with _locked(directory.parent):
        while True:
            try:
                return _open_or_wipe(directory, map_size)
            except (FileNotFoundError, lmdb.Error):
                if directory.exists():
                    raise
                # Another process has wiped the store after `make_folder`.


def _open_or_wipe(directory: Path, map_size: int) -> Environment:
    make_folder(directory)
    if is_trusted(directory):
        try:
            return Environment(directory, map_size)
        except DAMAGE:
            pass  # wiped below; the changelog has all rows
    wipe(directory)
    make_folder(directory)
    return Environment(directory, map_size)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes. The operating system releases the lock when this process ends."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _open_to_read(directory: Path, map_size: int) -> Environment:
    if not is_trusted(directory):
        raise StoreDamagedError(directory, damage(directory) or "the machine stopped before it was on the disk")
    try:
        return Environment(directory, map_size, writable=False)
    except FileNotFoundError as error:
        raise StoreDamagedError(directory, f"its file {Path(error.filename).name} is not there") from error
    except DAMAGE as error:
        # Without a mark of the damage: a writer may be about to extend the file.
        raise StoreDamagedError(directory, str(error)) from error


process_environments = Environments()
os.register_at_fork(
    before=process_environments.before_fork,
    after_in_parent=process_environments.after_fork,
    after_in_child=process_environments.after_fork,
)
