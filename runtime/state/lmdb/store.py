"""Stores in LMDB."""

from __future__ import annotations

import os
import shutil
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from hashlib import blake2b
from itertools import chain, islice, starmap
from operator import itemgetter, lt
from pathlib import Path
from typing import Any, cast

import lmdb

from ....errors import MachineError
from ....private_files import make_folder, opener
from ....unusable_paths import raises_machine_errors
from ...tasks.errors import TaskMigratedError
from ...tasks.measured import StoreSize
from ..directory import work_folder
from ..store import Changes, CopyDamagedError
from . import file as lmdb_file
from .environment import DAMAGE, Environment, of_this_process
from .file import mark_unsynced, number_of, refuse_disorder, refuse_hidden, sealed

# Stores keys longer than LMDB allows: a prefix and a hash replace the key, and the whole key is kept in the value.
#
# A stored key of the full 511 bytes is always a prefix with a hash. A shorter one is the key itself. So the two cannot
# be confused. Long keys with the same prefix lie together, ordered by hash; readers sort them.

STORED = 511
HASH = 16
PREFIX = STORED - HASH


def stored_key(key: bytes) -> bytes:
    """The form under which `key` is stored, at most 511 bytes."""
    return key if len(key) <= PREFIX else key[:PREFIX] + blake2b(key, digest_size=HASH).digest()


def behind_stored(end: bytes) -> bytes:
    """What is greater than the stored forms of all keys below `end`; of a long one also of those with its prefix."""
    return end if len(end) <= PREFIX else end[:PREFIX] + b"\xff" * HASH


def stored_value(key: bytes, value: bytes) -> bytes:
    """The value to store for `key`. For a long key: its length (4 bytes, little endian), the key, and the value."""
    return value if len(key) <= PREFIX else len(key).to_bytes(4, "little") + key + value


def is_long(stored: bytes) -> bool:
    """Whether a stored key replaces a longer one."""
    return len(stored) == STORED


def original(stored: bytes, value: bytes) -> tuple[bytes, bytes]:
    """The original key and value of their stored forms."""
    if not is_long(stored):
        return stored, value
    end = 4 + int.from_bytes(value[:4], "little")
    return value[4:end], value[end:]


# Copies LMDB environments as a whole, and puts copies in the place of others.
#
# A copy is LMDB's file as it is after one transaction, without free pages. They may be more than the others: a
# transaction that changes a row on each page writes all pages again. The pages are walked as a reader does it, and
# written one after the other, so it takes about as long as copying a file, and nobody waits.

FORM = "lmdb"
"""What lmdb's and memory's copies are, see `CopyingBackend.copy_form`."""


def save_copy(directory: Path, map_size: int, file: Path) -> int:
    """See `CopyingBackend.save_copy`."""
    with of_this_process.use(directory.resolve(), map_size) as environment:
        try:
            _copy(environment, file)
        except OSError as error:  # it is about the new file, and not about the store
            raise MachineError.from_error(error) from error
    return _position(file, map_size)


def load_copy(
    directory: Path,
    map_size: int,
    position: int,
    file: Path,
    complete: Callable[[Path], None] = lambda _: None,
) -> None:
    """See `CopyingBackend.load_copy`. `complete`: adds to the new folder what else belongs there."""
    directory = directory.resolve()
    folder = work_folder(directory, "loading")
    shutil.rmtree(folder, ignore_errors=True)
    if (found := _position(file, map_size)) != position:
        raise CopyDamagedError(f"it is at position {found:,}, and not at {position:,}")
    make_folder(folder)
    try:
        mark_unsynced(folder)  # as after each write: if the machine stops, the changelog has everything
        shutil.move(file, folder / lmdb_file.NAME)
        complete(folder)
        of_this_process.put_in_place(folder, directory)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(environment: Environment, file: Path) -> None:
    with open(file, "xb", opener=opener) as copy:
        try:
            environment.copy(copy.fileno())
        except lmdb.Error as error:
            if (number := number_of(error)) is None:
                raise
            raise OSError(number, os.strerror(number), str(file)) from error
    lmdb_file.extend(file)


def _position(file: Path, map_size: int) -> int:
    """The position of a copy. Raises CopyDamagedError."""
    try:
        if missing := lmdb_file.missing_bytes(file):
            raise CopyDamagedError(f"it is {missing:,} bytes too short")
        return Environment.position_of_copy(file, map_size)
    except (*DAMAGE, lmdb.Error) as error:
        raise CopyDamagedError(str(error)) from error


# The default store: LMDB, transactional, and usable by many processes at once.

MAP_SIZE = 64 << 20
"""The initial map size in bytes. It is doubled whenever the map is full. The file takes only what is used."""

_ROWS_PER_READ = 4096
_ROWS_OF_FIRST_READ = 16
"""Who looks whether there is any row reads no thousands of them."""


class LmdbStore:
    """A StateStore in one directory. A read transaction lasts for one call, or for 4,096 rows of a `range` at most.

    `writable`: a store that is only read is not created, and needs no right to write.
    """

    @raises_machine_errors
    def __init__(self, directory: Path, map_size: int = MAP_SIZE, *, writable: bool = True) -> None:
        if writable:
            make_folder(directory)
        self._directory = directory.resolve()
        self._map_size = map_size
        self._writable = writable

    @property
    def position(self) -> int:
        """See `StateStore.position`."""
        with self._environment() as environment:
            return environment.read(environment.position)

    @property
    def size(self) -> StoreSize:
        """See `SizedStore.size`."""
        with self._environment() as environment:
            return StoreSize(environment.read(environment.entries), environment.file_bytes)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of `keys`, in their order."""
        any_long = max(map(len, keys), default=0) > PREFIX
        stored = [stored_key(key) for key in keys] if any_long else keys
        # Who asks in order, as operators do, saves the sorting here.
        ordered = stored if _ascending(stored) else sorted(set(stored))
        with self._environment() as environment:
            values = environment.read(partial(_found, environment, ordered))
        if ordered is not stored:
            values = list(map(dict(zip(ordered, values, strict=True)).get, stored))
        return [_value(key, value) for key, value in zip(stored, values, strict=True)] if any_long else values

    def range(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Rows with `start <= key < end`, sorted by key, or in `reverse` of that."""
        # No generator takes each row: that would cost as much as to read it.
        return chain.from_iterable(self._pages(start or b"", end, reverse))

    def apply(
        self, changes: Iterable[Changes], from_position: int, position: int, expire_below: bytes | None = None
    ) -> None:
        """Apply changes and move to `position` in one transaction. The map grows as needed."""
        changes = list(changes)
        size = sum(sum(map(len, keys)) + sum(map(len, filter(None, values))) for keys, values in changes)
        with self._environment() as environment:
            environment.make_room(size)
            while not self._applied(environment, changes, from_position, position, expire_below):
                environment.grow()

    def close(self) -> None:
        """Sync and close the environment in this process. Using the store opens it again."""
        of_this_process.close(self._directory)

    def _environment(self) -> AbstractContextManager[Environment]:
        return of_this_process.use(self._directory, self._map_size, writable=self._writable)

    def _applied(
        self,
        environment: Environment,
        changes: Iterable[Changes],
        from_position: int,
        position: int,
        expire_below: bytes | None,
    ) -> bool:
        """Whether the map had room for everything. Otherwise nothing has happened."""
        try:
            with environment.begin(write=True) as transaction:
                found = environment.position(transaction)
                if found != from_position:
                    raise TaskMigratedError(f"store {self._directory}", from_position, found)
                environment.mark_unsynced()
                cursor = transaction.cursor(environment.rows)
                for keys, values in changes:
                    _write(cursor, keys, values)
                if expire_below is not None:
                    _expire(environment, cursor, expire_below)
                environment.put_position(transaction, position)
            environment.lengthen()
        except lmdb.MapFullError:
            return False
        return True

    def _pages(self, start: bytes, end: bytes | None, reverse: bool) -> Iterator[Iterable[tuple[bytes, bytes]]]:
        """The rows of a range, some thousands at a time; from the first long key on one after another."""
        pages = self._stored_back(start, end) if reverse else self._stored(start, end)
        for keys, values in pages:
            if max(map(len, keys), default=0) > PREFIX:
                rows = chain(zip(keys, values, strict=True), chain.from_iterable(starmap(zip, pages)))
                found = _long_keys_sorted(rows, reverse)
                yield (row for row in found if start <= row[0] and (end is None or row[0] < end))
                return
            if reverse:
                yield zip(keys, values, strict=True)  # their bounds are exact, as there are no long ones
                continue
            first = bisect_left(keys, start)
            behind = len(keys) if end is None else bisect_left(keys, end)
            yield zip(keys[first:behind], values[first:behind], strict=True)

    def _stored(self, start: bytes, end: bytes | None) -> Iterator[tuple[Sequence[bytes], Sequence[bytes]]]:
        """Keys and values as stored, from about `start` to about `end`, a few thousand in each transaction."""
        # A long key is stored under its prefix, so that is where the search begins.
        at, most = start[:PREFIX], _ROWS_OF_FIRST_READ
        while True:
            with self._environment() as environment:
                keys, values = environment.read(partial(_from, environment, at, end, most))
            yield keys, values
            if len(keys) < most:
                return
            at, most = keys[-1] + b"\0", _ROWS_PER_READ

    def _stored_back(self, start: bytes, end: bytes | None) -> Iterator[tuple[Sequence[bytes], Sequence[bytes]]]:
        """The same from the greatest key down."""
        below, most = None if end is None else behind_stored(end), _ROWS_OF_FIRST_READ
        while True:
            with self._environment() as environment:
                keys, values = environment.read(partial(_back, environment, start[:PREFIX], below, most))
            yield keys, values
            if len(keys) < most:
                return
            below, most = keys[-1], _ROWS_PER_READ


class LmdbBackend:
    """Keeps each store as an LMDB environment in its directory. `map_size`: the initial size in bytes.

    A CopyingBackend.
    """

    copy_form = FORM

    def __init__(self, map_size: int = MAP_SIZE) -> None:
        self._map_size = map_size

    def open(self, directory: Path) -> LmdbStore:
        """The store of `directory`."""
        return LmdbStore(directory, self._map_size)

    def open_to_read(self, directory: Path) -> LmdbStore:
        """The existing store of `directory`."""
        return LmdbStore(directory, self._map_size, writable=False)

    def save_copy(self, directory: Path, file: Path) -> int:
        """See `CopyingBackend.save_copy`."""
        return save_copy(directory, self._map_size, file)

    def load_copy(self, directory: Path, position: int, file: Path) -> None:
        """See `CopyingBackend.load_copy`."""
        load_copy(directory, self._map_size, position, file)


def _found(environment: Environment, keys: Sequence[bytes], transaction: Any) -> list[bytes | None]:
    """The values under these keys, which are sorted and distinct."""
    cursor = transaction.cursor(environment.rows)
    # One call into LMDB. Sorted keys visit its pages in order.
    rows = cursor.getmulti(keys)
    if len(rows) == len(keys):
        return list(environment.values(keys, [value for _, value in rows]))
    there = [key for key, _ in rows]
    found = dict(zip(there, environment.values(there, [value for _, value in rows]), strict=True))
    if environment.checked:
        refuse_hidden(cursor, [key for key in keys if key not in found])
    return list(map(found.get, keys))


def _from(
    environment: Environment, at: bytes, end: bytes | None, most: int, transaction: Any
) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """Keys and values from `at` to about `end`, at most so many."""
    cursor = transaction.cursor(environment.rows)
    if not cursor.set_range(at):
        return (), ()
    rows = list(islice(cursor.iternext(keys=True, values=True), most))
    keys = [key for key, _ in rows]
    refuse_disorder(keys)
    if end is not None:
        del keys[bisect_right(keys, end, key=itemgetter(slice(PREFIX))) :]
    return keys, environment.values(keys, [value for _, value in rows[: len(keys)]])


def _back(
    environment: Environment, start: bytes, below: bytes | None, most: int, transaction: Any
) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """Keys and values below a stored key (None: all) and down to `start`, from the greatest on, at most so many."""
    cursor = transaction.cursor(environment.rows)
    if not (cursor.prev() if below is not None and cursor.set_range(below) else cursor.last()):
        return (), ()
    rows = list(islice(cursor.iterprev(keys=True, values=True), most))
    keys = [key for key, _ in rows]
    refuse_disorder(keys[::-1] if below is None else [*keys[::-1], below])
    kept = sum(key >= start for key in keys)
    return keys[:kept], environment.values(keys[:kept], [value for _, value in rows[:kept]])


def _value(stored: bytes, value: bytes | None) -> bytes | None:
    return value if value is None or not is_long(stored) else original(stored, value)[1]


def _write(cursor: Any, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
    if max(map(len, keys), default=0) > PREFIX:
        values = [None if value is None else stored_value(key, value) for key, value in zip(keys, values, strict=True)]
        keys = [stored_key(key) for key in keys]
    # Sorted keys let LMDB fill its pages one after another.
    if not _ascending(keys):
        rows = dict(zip(keys, values, strict=True))  # the last change of each key
        keys = sorted(rows)
        values = [rows[key] for key in keys]
    deleted: Sequence[bytes] = ()
    if None in values:
        deleted = [key for key, value in zip(keys, values, strict=True) if value is None]
        keys = [key for key, value in zip(keys, values, strict=True) if value is not None]
    present = [value for value in values if value is not None] if deleted else cast("Sequence[bytes]", values)
    cursor.putmulti(zip(keys, sealed(keys, present), strict=True))
    for key in deleted:
        if cursor.set_key(key):
            cursor.delete()


def _ascending(keys: Sequence[bytes]) -> bool:
    return all(map(lt, keys, islice(keys, 1, None)))


def _expire(environment: Environment, cursor: Any, below: bytes) -> None:
    found = cursor.first()
    while found and (stored := cursor.key())[:PREFIX] <= below:
        key = stored
        if is_long(stored):
            key = original(stored, *environment.values([stored], [cursor.value()]))[0]
        found = cursor.delete() if key < below else cursor.next()


def _long_keys_sorted(rows: Iterable[tuple[bytes, bytes]], reverse: bool) -> Iterator[tuple[bytes, bytes]]:
    """The original keys and values. Long keys with the same prefix come sorted by hash; here they are sorted by key."""
    prefix, together = b"", list[tuple[bytes, bytes]]()
    for stored, value in rows:
        if together and not (is_long(stored) and stored[:PREFIX] == prefix):
            yield from sorted(together, reverse=reverse)
            together.clear()
        if is_long(stored):
            prefix = stored[:PREFIX]
            together.append(original(stored, value))
        else:
            yield stored, value
    yield from sorted(together, reverse=reverse)
