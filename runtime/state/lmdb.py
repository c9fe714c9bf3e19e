"""The default store: LMDB, transactional, open in many processes at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import lmdb

from ..tasks.errors import TaskMigratedError
from .lmdb_environments import Environment, of_this_process
from .long_keys import PREFIX, is_long, original, stored_key, stored_value
from .store import Changes, StoreWriteError

MAP_SIZE = 64 << 20
"""Bytes of address space to begin with; doubled whenever it is full. The file takes only what is used."""

_POSITION = b"position"
_ROWS_PER_READ = 4096


class LmdbStore:
    """A StateStore in one directory. Read transactions last for one call, or for 4,096 rows of a `range`."""

    def __init__(self, directory: Path, map_size: int = MAP_SIZE) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory.resolve()
        self._map_size = map_size

    @property
    def position(self) -> int:
        """Changelog records applied."""
        with self._environment() as environment, environment.begin() as transaction:
            return _position(environment, transaction)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of `keys`, in their order."""
        any_long = max(map(len, keys), default=0) > PREFIX
        stored = [stored_key(key) for key in keys] if any_long else keys
        with self._environment() as environment, environment.begin() as transaction:
            # One call into LMDB, in the order of its pages.
            found = dict(transaction.cursor(environment.rows).getmulti(sorted(stored)))
        if any_long:
            return [_value(key, found.get(key)) for key in stored]
        return list(map(found.get, stored))

    def range(self, start: bytes | None, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Rows with `start <= key < end`, by key."""
        for key, value in _long_keys_sorted(self._stored(start, end)):
            if (start is None or key >= start) and (end is None or key < end):
                yield key, value

    def apply(
        self, changes: Iterable[Changes], from_position: int, position: int, expire_below: bytes | None = None
    ) -> None:
        """Apply changes and move to `position`, in one transaction, whatever room that takes."""
        changes = list(changes)
        with self._environment() as environment:
            while not self._applied(environment, changes, from_position, position, expire_below):
                environment.grow()

    def close(self) -> None:
        """Sync, and close the environment for this process; using the store again opens it again."""
        of_this_process.close(self._directory)

    def _environment(self) -> Any:
        return of_this_process.use(self._directory, self._map_size)

    def _applied(
        self,
        environment: Environment,
        changes: Iterable[Changes],
        from_position: int,
        position: int,
        expire_below: bytes | None,
    ) -> bool:
        """Whether the map had room for it all; nothing has happened otherwise."""
        try:
            with environment.begin(write=True) as transaction:
                found = _position(environment, transaction)
                if found != from_position:
                    raise TaskMigratedError(f"store {self._directory}", from_position, found)
                environment.mark_unsynced()
                cursor = transaction.cursor(environment.rows)
                for keys, values in changes:
                    _write(cursor, keys, values)
                if expire_below is not None:
                    _expire(cursor, expire_below)
                transaction.put(_POSITION, position.to_bytes(8, "little"), db=environment.facts)
        except lmdb.MapFullError:
            return False
        except lmdb.Error as error:
            if type(error) not in (lmdb.Error, lmdb.DiskError):
                raise  # The others are ours: they tell of wrong calls, not of the system.
            raise StoreWriteError(self._directory, str(error)) from error
        return True

    def _stored(self, start: bytes | None, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Rows as stored, from `start` to `end` or a little beyond either, a few thousand a transaction."""
        at = (start or b"")[:PREFIX]
        while True:
            with self._environment() as environment, environment.begin() as transaction:
                cursor = transaction.cursor(environment.rows)
                rows: list[tuple[bytes, bytes]] = []
                if cursor.set_range(at):
                    for row in cursor.iternext(keys=True, values=True):
                        if len(rows) == _ROWS_PER_READ or (end is not None and row[0][:PREFIX] > end):
                            break
                        rows.append(row)
            yield from rows
            if len(rows) < _ROWS_PER_READ:
                return
            at = rows[-1][0] + b"\0"


class LmdbBackend:
    """Keeps each store as an LMDB environment in its directory. `map_size`: bytes to begin with."""

    def __init__(self, map_size: int = MAP_SIZE) -> None:
        self._map_size = map_size

    def open(self, directory: Path) -> LmdbStore:
        """The store of `directory`."""
        return LmdbStore(directory, self._map_size)


def _position(environment: Environment, transaction: Any) -> int:
    return int.from_bytes(transaction.get(_POSITION, b"", db=environment.facts), "little")


def _value(stored: bytes, value: bytes | None) -> bytes | None:
    return value if value is None or not is_long(stored) else original(stored, value)[1]


def _write(cursor: Any, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
    rows = dict(zip(keys, values, strict=True))  # the last of each key
    if max(map(len, rows), default=0) > PREFIX:
        rows = {stored_key(key): None if value is None else stored_value(key, value) for key, value in rows.items()}
    # Sorted, LMDB fills its pages one after the other.
    in_order = sorted(rows.items(), key=itemgetter(0))
    cursor.putmulti([row for row in in_order if row[1] is not None])
    for key, value in in_order:
        if value is None and cursor.set_key(key):
            cursor.delete()


def _expire(cursor: Any, below: bytes) -> None:
    found = cursor.first()
    while found and cursor.key()[:PREFIX] <= below:
        expired = original(*cursor.item())[0] < below
        found = cursor.delete() if expired else cursor.next()


def _long_keys_sorted(rows: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values as they were given. Long keys of one prefix lie together, by hash: put them in order."""
    prefix, together = b"", list[tuple[bytes, bytes]]()
    for stored, value in rows:
        if together and stored[:PREFIX] != prefix:
            yield from sorted(together)
            together.clear()
        if is_long(stored):
            prefix = stored[:PREFIX]
            together.append(original(stored, value))
        else:
            yield stored, value
    yield from sorted(together)
