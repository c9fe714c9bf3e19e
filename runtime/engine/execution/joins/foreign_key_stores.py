"""Stores of foreign-key joins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....ir.topology import Store
from ....ir.windows import JoinWindow, SessionWindow
from ....records.arrays import Bools, Int64s, cast_to, to_numpy
from ....records.keys import decode_keys
from ....records.types import Kind, parse_columns
from ....state.codec import RowCodec
from ...operators.foreign_keys import HASH
from ..aggregate import look_up, row_keys
from ..final_results import Closing, closed_rows
from ..keyed.groups import by_key, bytes_of, group_codes, last_rows
from ..keyed.stored_rows import StoredRows, expired, visible_columns
from ..keyed.stored_rows import expired as has_expired
from ..node import EpochStore, TaskEpoch
from ..rows import Rows, is_old, path_order

# Who subscribes to a row: the store of subscriptions, and those that come and go during an epoch.
#
# A row of the store is found by the foreign key and then the subscriber's key, and has the hash of the row that has
# asked. So the subscriptions to one row lie together, in the order of the subscribers' keys.

_CODEC = RowCodec({HASH: pa.binary()})

_BEHIND = b"\x02"
"""Sorts after every marker with which a column of a key begins."""

_TOGETHER = 16_384
"""Subscribers that are read at once: of a row that millions refer to, never all are in memory."""


@dataclass(frozen=True)
class Asked:
    """Subscriptions of an epoch, in order. `keys`: encoded foreign keys, null for null ones; `subscribers`: encoded
    keys of those who have sent them. `stays`: which are to be kept; the others end one. `places`: in the order of
    processing, in which changes have places, too.
    """

    keys: pa.BinaryArray
    subscribers: pa.BinaryArray
    hashes: pa.BinaryArray
    stays: Bools
    timestamps: Int64s
    places: Int64s


@dataclass(frozen=True)
class Subscribers:
    """Some subscribers of a row, by key bytes. `keys`: encoded; `hashes`: of the rows that have asked."""

    keys: pa.BinaryArray
    hashes: pa.BinaryArray

    def __len__(self) -> int:
        return len(self.keys)


@dataclass
class _New:
    """What an epoch has asked of a row, up to a place. `waiting`: numbers of what comes later, the next one last.

    `there`: subscriber -> the hash, or None of one whose subscription has ended.
    """

    waiting: list[int] = field(default_factory=list)
    there: dict[bytes, bytes | None] = field(default_factory=dict)


class Subscriptions:
    """The subscriptions to the rows of one task, during an epoch. `changed`: the encoded keys of rows that change."""

    def __init__(self, store: EpochStore, asked: Asked, changed: pa.BinaryArray) -> None:
        self._store = store
        self._asked = asked
        self._new: dict[bytes, _New] = {key: _New() for key in bytes_of(changed)}
        for number in reversed(np.flatnonzero(to_numpy(pc.is_in(asked.keys, value_set=changed))).tolist()):
            self._new[asked.keys[number].as_py()].waiting.append(number)

    def at(self, key: bytes, place: int) -> Iterator[Subscribers]:
        """Who subscribes to a row that changes at a place, some at a time. Changes come in the order of places."""
        new = self._new[key]
        while new.waiting and self._asked.places[new.waiting[-1]] < place:
            number = new.waiting.pop()
            stays = self._asked.stays[number]
            new.there[self._asked.subscribers[number].as_py()] = self._asked.hashes[number].as_py() if stays else None
        ahead = sorted(new.there, reverse=True)
        rows = self._store.range(key, key + _BEHIND)
        while some := list(islice(rows, _TOGETHER)):
            subscribers = [at[len(key) :] for at, _ in some]
            (hashes,), _ = _CODEC.decode([value for _, value in some])
            if ahead and ahead[-1] <= subscribers[-1]:
                found = dict(zip(subscribers, hashes.to_pylist(), strict=True))
                while ahead and ahead[-1] <= subscribers[-1]:
                    subscriber = ahead.pop()
                    found[subscriber] = new.there[subscriber]
                yield _there(found)
            else:
                yield Subscribers(pa.array(subscribers, pa.binary()), hashes)
        yield _there({subscriber: new.there[subscriber] for subscriber in ahead})

    def put(self) -> None:
        """Keep the subscriptions of the epoch, and remove those that end."""
        asked = self._asked
        rows = np.flatnonzero(to_numpy(asked.keys.is_valid()))
        keys = pc.binary_join_element_wise(asked.keys, asked.subscribers, b"").take(pa.array(rows))
        code, first = group_codes(keys)
        code, first, ordered = by_key(code, first, keys.take(pa.array(first)))
        numbers = rows[last_rows(code, len(first))]
        encoded = _CODEC.encode([asked.hashes.take(pa.array(numbers))], asked.timestamps[numbers])
        stays = asked.stays[numbers].tolist()
        values = [value if kept else None for value, kept in zip(encoded, stays, strict=True)]
        self._store.put_many(bytes_of(ordered), values, asked.timestamps[numbers])


def _there(found: Mapping[bytes, bytes | None]) -> Subscribers:
    """Those who are there, by key bytes."""
    there = sorted((subscriber, row) for subscriber, row in found.items() if row is not None)
    keys, hashes = zip(*there, strict=True) if there else ((), ())
    return Subscribers(pa.array(keys, pa.binary()), pa.array(hashes, pa.binary()))


# The rows of a table as they are when a record is processed, for records of the same task.


@dataclass(frozen=True)
class RowsAt:
    """`columns`, `timestamp` (ms): of all versions of the rows that are looked up. `index`: for each record the version
    at that moment, which has no meaning where not `exists`.
    """

    columns: dict[str, pa.Array]
    timestamp: Int64s
    index: Int64s
    exists: Bools

    @classmethod
    def of(
        cls,
        store: Store,
        table: Rows,
        records: Rows,
        names: Iterable[str],
        epoch: TaskEpoch,
        expired: Store | None = None,
    ) -> RowsAt:
        """Look up the keys of records; a null key has no row.

        `store`: as it was when the epoch began. `table`: the changes of the epoch. `names`: the value columns wanted.
        `expired`: where the rows are that the store had forgotten by then.
        """
        changed = table.filter(table.kind <= Kind.VALUE)
        keys = row_keys(expired or store, records.keys)
        all_keys = pa.concat_arrays([row_keys(expired or store, changed.keys), keys])
        code, first = group_codes(all_keys)
        distinct = all_keys.take(pa.array(first))
        if expired is None:
            stored = look_up(store, epoch.store(store), distinct)
            before = visible_columns(store, stored)
        else:
            stored = _also_expired(store, expired, distinct, epoch)
            before = stored.columns
        change = last_before(code, path_order([changed, records]), len(changed))
        index = np.where(change >= 0, change + len(first), code[len(changed) :])
        exists = np.concatenate([stored.exists, changed.kind == Kind.VALUE])[index]
        exists &= keys.is_valid().to_numpy(zero_copy_only=False)
        now = changed.values
        columns = {name: pa.concat_arrays([before[name], cast_to(now[name], before[name].type)]) for name in names}
        return cls(columns, np.concatenate([stored.timestamp, changed.timestamp]), index, exists)

    def taken(self, rows: Bools) -> dict[str, pa.Array]:
        """The columns for each record; null where not in `rows`."""
        picked = pa.array(self.index, mask=~rows)
        return {name: column.take(picked) for name, column in self.columns.items()}


def _also_expired(store: Store, expired: Store, keys: pa.BinaryArray, epoch: TaskEpoch) -> StoredRows:
    """The rows of the keys (`row_keys` of `expired`) when the epoch began, with the columns that users see."""
    types = parse_columns(expired.key)
    key = dict(zip(types, decode_keys(keys, list(types.values())), strict=True))
    inside = look_up(store, epoch.store(store), row_keys(store, key))
    outside = look_up(expired, epoch.store(expired), keys)
    gone = has_expired(store, key, np.full(len(keys), epoch.clock_before(store.name)))
    picked = np.where(gone, len(keys), 0) + np.arange(len(keys))
    there = visible_columns(store, inside)
    return StoredRows(
        np.concatenate([inside.exists, outside.exists])[picked],
        {
            name: pa.concat_arrays([cast_to(there[name], column.type), column]).take(pa.array(picked))
            for name, column in outside.columns.items()
        },
        np.concatenate([inside.timestamp, outside.timestamp])[picked],
    )


def last_before(code: Int64s, order: Int64s, changes: int) -> Int64s:
    """For each record the last change of its key before it; -1 if there is none.

    `code`: keys of all changes and then all records. `order`: the permutation that sorts them by path.
    """
    if not changes:
        return np.full(len(code) - changes, -1)
    # Stable, so that within a key changes and records keep their order by path.
    by_key = order[np.argsort(code[order], kind="stable")]
    starts = np.ones(len(by_key), np.bool_)
    starts[1:] = code[by_key][1:] != code[by_key][:-1]
    places = np.arange(len(by_key))
    last_start = np.maximum.accumulate(np.where(starts, places, 0))
    last_change = np.maximum.accumulate(np.where(by_key < changes, places, -1))
    latest = np.full(len(code), -1)
    # A last change before the start of the key is one of another key.
    latest[by_key] = np.where(last_change >= last_start, by_key[last_change], -1)
    return latest[changes:]


# The left rows of a join whose table has windows: which of them count, and which expire as its clock moves.
#
# A row expires for the join once lookups do not find it any more: at the change that moves the table's clock so far.
# From then on it neither changes nor asks, and it is in the store of expired rows until the last answer to it has come.


def unexpired(store: Store, rows: Rows, epoch: TaskEpoch) -> Rows:
    """The changes of rows that the table has not forgotten at that moment, with the rows that they replace.

    `store`: the table's. `rows`: all of its changes.
    """
    old = is_old(rows.kind)
    times = np.where(old, -1, rows.timestamp)
    clock = np.maximum(np.maximum.accumulate(times), epoch.clock_before(store.name))
    gone = expired(store, rows.keys, clock)
    # A row that is replaced goes the way of its change, which is the next row.
    replaced = np.flatnonzero(old)
    gone[replaced] = gone[replaced + 1]
    return rows.filter(~gone)


def expiring(store: Store, rows: Rows, counting: Rows, epoch: TaskEpoch) -> Rows:
    """The rows that expire, as they are then, each at the place and the time of the change that moves the clock so far.

    `rows`: all changes of the table; `counting`: the `unexpired` ones. The clock of the store moves with them.
    """
    assert store.kept_ms is not None
    assert not isinstance(store.window, JoinWindow | None)
    length = 0 if isinstance(store.window, SessionWindow) else store.window.length_ms
    closing = Closing.of(store, _new(rows), store.kept_ms - length, epoch)
    gone, at = closed_rows(store, _new(counting), closing, epoch.store(store))
    if len(closing.clock):
        # Also where time passes without a record: what has expired then must not do so again.
        epoch.advance(store.name, int(closing.clock[-1]))
    return replace(gone, timestamp=closing.clock[at])


def _new(rows: Rows) -> Rows:
    return rows.filter(rows.kind <= Kind.VALUE)
