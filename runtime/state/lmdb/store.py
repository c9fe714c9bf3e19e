"""The store backend `lmdb`: long keys, copies, and the store."""

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
from ...tasks.errors import TaskMigratedError
from ...tasks.measured import StoreSize
from ..directory import work_folder
from ..store import Changes, CopyDamagedError
from . import file as lmdb_file
from .environment import DAMAGE, Environment, process_environments
from .file import errno_of, mark_unsynced, require_absent, require_order, with_checksums

# Long keys: LMDB allows 511 bytes. A longer key is replaced by its prefix and a hash, and the whole key is part of the
# value.
#
# A stored key of 511 bytes is always a prefix with a hash; a shorter one is the key itself. So they are distinct. Long
# keys with the same prefix are adjacent, ordered by hash; readers sort them.

STORED_KEY_BYTES = 511
HASH_BYTES = 16
PREFIX_BYTES = STORED_KEY_BYTES - HASH_BYTES


def stored_key(key: bytes) -> bytes:
    """The stored form of `key`, at most 511 bytes."""
    return key if len(key) <= PREFIX_BYTES else key[:PREFIX_BYTES] + blake2b(key, digest_size=HASH_BYTES).digest()


def stored_bound(end: bytes) -> bytes:
    """A bound above the stored forms of all keys below `end`; for a long `end`, of all keys with its prefix."""
    return end if len(end) <= PREFIX_BYTES else end[:PREFIX_BYTES] + b"\xff" * HASH_BYTES


def stored_value(key: bytes, value: bytes) -> bytes:
    """The stored value of `key`. For a long key: its length (4 bytes, little endian), the key, and the value."""
    return value if len(key) <= PREFIX_BYTES else len(key).to_bytes(4, "little") + key + value


def is_long(stored: bytes) -> bool:
    """Whether a stored key is the form of a long key."""
    return len(stored) == STORED_KEY_BYTES


def original(stored: bytes, value: bytes) -> tuple[bytes, bytes]:
    """The original key and value of stored ones."""
    if not is_long(stored):
        return stored, value
    end = 4 + int.from_bytes(value[:4], "little")
    return value[4:end], value[end:]


# Copies whole LMDB environments, and replaces environments by copies.
#
# A copy is LMDB's file as of one transaction, without free pages. These may be most of the file: a transaction with
# changes on all pages writes all pages anew. The pages are read in a read transaction and written sequentially, so a
# copy takes about as long as copying a file, and does not block writers.


def _copy(environment: Environment, file: Path) -> None:
    with open(file, "xb", opener=opener) as copy:
        try:
            environment.copy(copy.fileno())
        except lmdb.Error as error:
            if (number := errno_of(error)) is None:
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


# The store: LMDB, transactional, for several processes at the same time.

MAP_SIZE = 64 << 20
"""The initial map size in bytes. It is doubled when the map is full. The file has only the used part."""

_ROWS_PER_READ = 4096
_ROWS_OF_FIRST_READ = 16
"""Few rows, because a caller may only check whether a range has any."""


class LmdbStore:
    """A StateStore in one directory. A read transaction is for one call, or for at most 4,096 rows of a `range`.

    `writable`: False for a read-only store. It is not created, and needs no write permission.
    """

    def __init__(self, directory: Path, map_size: int = MAP_SIZE, *, writable: bool = True) -> None:
        self._directory = Path(os.path.realpath(directory))  # as `resolve`, but a circle of links is left to its use
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
        any_long = max(map(len, keys), default=0) > PREFIX_BYTES
        stored = [stored_key(key) for key in keys] if any_long else keys
        # Operators pass sorted keys, which saves the sorting here.
        ordered = stored if _ascending(stored) else sorted(set(stored))
        with self._environment() as environment:
            values = environment.read(partial(_get, environment, ordered))
        if ordered is not stored:
            values = list(map(dict(zip(ordered, values, strict=True)).get, stored))
        return [_value(key, value) for key, value in zip(stored, values, strict=True)] if any_long else values

    def range(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """See `StateStore.range`."""
        # No generator per row: it would cost as much as reading the row.
        return chain.from_iterable(self._pages(start or b"", end, reverse))

    def apply(
        self, changes: Iterable[Changes], from_position: int, position: int, expire_below: bytes | None = None
    ) -> None:
        """Apply changes and advance to `position` in one transaction. The map grows as needed."""
        changes = list(changes)
        size = sum(sum(map(len, keys)) + sum(map(len, filter(None, values))) for keys, values in changes)
        with self._environment() as environment:
            environment.reserve(size)
            while not self._try_apply(environment, changes, from_position, position, expire_below):
                environment.grow()

    def close(self) -> None:
        """Sync and close the environment in this process. The next use reopens it."""
        process_environments.close(self._directory)

    def _environment(self) -> AbstractContextManager[Environment]:
        return process_environments.use(self._directory, self._map_size, writable=self._writable)

    def _try_apply(
        self,
        environment: Environment,
        changes: Iterable[Changes],
        from_position: int,
        position: int,
        expire_below: bytes | None,
    ) -> bool:
        """Apply changes. Returns False, and applies nothing, if the map is too small."""
        try:
            with environment.begin(write=True) as transaction:
                current = environment.position(transaction)
                if current != from_position:
                    raise TaskMigratedError(f"store {self._directory}", from_position, current)
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
        except FileNotFoundError:
            if environment.is_current():
                raise
            # The store was wiped meanwhile: its file crashes another process, which copies it for a snapshot.
            raise TaskMigratedError(f"store {self._directory}", from_position, 0) from None
        return True

    def _pages(self, start: bytes, end: bytes | None, reverse: bool) -> Iterator[Iterable[tuple[bytes, bytes]]]:
        """The rows of a range, some thousands at a time; from the first long key on, row by row."""
        pages = self._stored_backwards(start, end) if reverse else self._stored(start, end)
        for keys, values in pages:
            if max(map(len, keys), default=0) > PREFIX_BYTES:
                rows = chain(zip(keys, values, strict=True), chain.from_iterable(starmap(zip, pages)))
                in_order = _long_keys_sorted(rows, reverse)
                yield (row for row in in_order if start <= row[0] and (end is None or row[0] < end))
                return
            if reverse:
                yield zip(keys, values, strict=True)  # without long keys the bounds are exact
                continue
            first = bisect_left(keys, start)
            stop = len(keys) if end is None else bisect_left(keys, end)
            yield zip(keys[first:stop], values[first:stop], strict=True)

    def _stored(self, start: bytes, end: bytes | None) -> Iterator[tuple[Sequence[bytes], Sequence[bytes]]]:
        """Stored keys and values from about `start` to about `end`, some thousands per transaction."""
        # A long key is stored under its prefix, so the search begins there.
        at, most = start[:PREFIX_BYTES], _ROWS_OF_FIRST_READ
        while True:
            with self._environment() as environment:
                keys, values = environment.read(partial(_read_forwards, environment, at, end, most))
            yield keys, values
            if len(keys) < most:
                return
            at, most = keys[-1] + b"\0", _ROWS_PER_READ

    def _stored_backwards(self, start: bytes, end: bytes | None) -> Iterator[tuple[Sequence[bytes], Sequence[bytes]]]:
        """The same in descending order."""
        below, most = None if end is None else stored_bound(end), _ROWS_OF_FIRST_READ
        while True:
            with self._environment() as environment:
                keys, values = environment.read(
                    partial(_read_backwards, environment, start[:PREFIX_BYTES], below, most)
                )
            yield keys, values
            if len(keys) < most:
                return
            below, most = keys[-1], _ROWS_PER_READ


class LmdbBackend:
    """A CopyingBackend with one LMDB environment per store. `map_size`: the initial size in bytes."""

    copy_form = "lmdb"

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
        with process_environments.use(directory.resolve(), self._map_size) as environment:
            try:
                _copy(environment, file)
            except OSError as error:  # of the new file, not of the store
                raise MachineError.from_error(error) from error
        return _position(file, self._map_size)

    def load_copy(
        self, directory: Path, position: int, file: Path, complete: Callable[[Path], None] = lambda _: None
    ) -> None:
        """See `CopyingBackend.load_copy`. `complete`: adds further files to the new folder."""
        directory = directory.resolve()
        folder = work_folder(directory, "loading")
        shutil.rmtree(folder, ignore_errors=True)
        if (copied_position := _position(file, self._map_size)) != position:
            raise CopyDamagedError(f"it is at position {copied_position:,}, and not at {position:,}")
        make_folder(folder)
        try:
            mark_unsynced(folder)  # as for each write: after a stop of the machine the changelog has all rows
            shutil.move(file, folder / lmdb_file.NAME)
            complete(folder)
            process_environments.replace(folder, directory)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _get(environment: Environment, keys: Sequence[bytes], transaction: Any) -> list[bytes | None]:
    """The values of these stored keys, which are sorted and distinct."""
    cursor = transaction.cursor(environment.rows)
    # One call into LMDB, which visits its pages in order for sorted keys.
    rows = cursor.getmulti(keys)
    if len(rows) == len(keys):
        return list(environment.values(keys, [value for _, value in rows]))
    existing = [key for key, _ in rows]
    values = dict(zip(existing, environment.values(existing, [value for _, value in rows]), strict=True))
    if environment.checked:
        require_absent(cursor, [key for key in keys if key not in values])
    return list(map(values.get, keys))


def _read_forwards(
    environment: Environment, at: bytes, end: bytes | None, most: int, transaction: Any
) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """At most `most` stored keys and values, from `at` to about `end`."""
    cursor = transaction.cursor(environment.rows)
    if not cursor.set_range(at):
        return (), ()
    rows = list(islice(cursor.iternext(keys=True, values=True), most))
    keys = [key for key, _ in rows]
    require_order(keys)
    if end is not None:
        del keys[bisect_right(keys, end, key=itemgetter(slice(PREFIX_BYTES))) :]
    return keys, environment.values(keys, [value for _, value in rows[: len(keys)]])


def _read_backwards(
    environment: Environment, start: bytes, below: bytes | None, most: int, transaction: Any
) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """At most `most` stored keys and values below the stored key `below` (None: all), down to `start`, descending."""
    cursor = transaction.cursor(environment.rows)
    if not (cursor.prev() if below is not None and cursor.set_range(below) else cursor.last()):
        return (), ()
    rows = list(islice(cursor.iterprev(keys=True, values=True), most))
    keys = [key for key, _ in rows]
    require_order(keys[::-1] if below is None else [*keys[::-1], below])
    count = sum(key >= start for key in keys)
    return keys[:count], environment.values(keys[:count], [value for _, value in rows[:count]])


def _value(stored: bytes, value: bytes | None) -> bytes | None:
    return value if value is None or not is_long(stored) else original(stored, value)[1]


def _write(cursor: Any, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
    if max(map(len, keys), default=0) > PREFIX_BYTES:
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
    cursor.putmulti(zip(keys, with_checksums(keys, present), strict=True))
    for key in deleted:
        if cursor.set_key(key):
            cursor.delete()


def _ascending(keys: Sequence[bytes]) -> bool:
    return all(map(lt, keys, islice(keys, 1, None)))


def _expire(environment: Environment, cursor: Any, below: bytes) -> None:
    """Delete all rows with keys below `below`."""
    has_row = cursor.first()
    while has_row and (stored := cursor.key())[:PREFIX_BYTES] <= below:
        key = stored
        if is_long(stored):
            key = original(stored, *environment.values([stored], [cursor.value()]))[0]
        has_row = cursor.delete() if key < below else cursor.next()


def _long_keys_sorted(rows: Iterable[tuple[bytes, bytes]], reverse: bool) -> Iterator[tuple[bytes, bytes]]:
    """The original keys and values, sorted by key. In `rows`, long keys with the same prefix are sorted by hash."""
    prefix, same_prefix = b"", list[tuple[bytes, bytes]]()
    for stored, value in rows:
        if same_prefix and not (is_long(stored) and stored[:PREFIX_BYTES] == prefix):
            yield from sorted(same_prefix, reverse=reverse)
            same_prefix.clear()
        if is_long(stored):
            prefix = stored[:PREFIX_BYTES]
            same_prefix.append(original(stored, value))
        else:
            yield stored, value
    yield from sorted(same_prefix, reverse=reverse)
