"""Stores of foreign-key joins: subscriptions, and rows at the moment of a record."""

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
from ..keyed.groups import bytes_of, group_codes, last_rows, sorted_groups
from ..keyed.stored_rows import StoredRows, visible_columns
from ..keyed.stored_rows import expired as has_expired
from ..node import EpochStore, TaskEpoch
from ..rows import Rows, is_old, path_order, taken
from .lookups import last_before

# The store of subscriptions, and the changes of subscriptions during an epoch.
#
# The key of a subscription is the foreign key, then the key of the left row (the subscriber). Its value is the hash of
# the left row. So the subscriptions to one right row are adjacent, in the order of the subscribers' keys.

_CODEC = RowCodec({HASH: pa.binary()})

_BEHIND = b"\x02"
"""Sorts behind every marker byte with which a key column begins."""

_TOGETHER = 16_384
"""The number of subscribers to read at once. A row may have millions, which memory does not hold."""


@dataclass(frozen=True)
class Incoming:
    """Subscriptions and ends of subscriptions of an epoch, in order. All arrays have one entry for each.

    `keys`: encoded foreign keys, null for a null key. `subscribers`: encoded keys of the left rows. `hashes`: of the
    left rows. `stays`: True for a subscription, False for an end. `timestamps`: ms. `places`: indexes in the path order
    of subscriptions and changes of right rows together.
    """

    keys: pa.BinaryArray
    subscribers: pa.BinaryArray
    hashes: pa.BinaryArray
    stays: Bools
    timestamps: Int64s
    places: Int64s


@dataclass(frozen=True)
class Subscribers:
    """Some subscribers of a right row, by key bytes. `keys`: encoded. `hashes`: of the left rows."""

    keys: pa.BinaryArray
    hashes: pa.BinaryArray

    def __len__(self) -> int:
        return len(self.keys)


@dataclass
class _New:
    """The subscriptions to one right row in this epoch, up to a place.

    `waiting`: indexes of later entries of `Incoming`, the next one last. `there`: subscriber -> hash; None for
    an ended subscription.
    """

    waiting: list[int] = field(default_factory=list)
    there: dict[bytes, bytes | None] = field(default_factory=dict)


class Subscriptions:
    """The subscriptions of one task during an epoch. `changed`: the encoded keys of changed right rows."""

    def __init__(self, store: EpochStore, incoming: Incoming, changed: pa.BinaryArray) -> None:
        self._store = store
        self._incoming = incoming
        self._new: dict[bytes, _New] = {key: _New() for key in bytes_of(changed)}
        for number in reversed(np.flatnonzero(to_numpy(pc.is_in(incoming.keys, value_set=changed))).tolist()):
            self._new[incoming.keys[number].as_py()].waiting.append(number)

    def at(self, key: bytes, place: int) -> Iterator[Subscribers]:
        """The subscribers of a right row at a place, piece by piece. Calls for one key must come in ascending places.

        Merges two sorted inputs: the stored subscriptions, and those of this epoch before the place. The latter win.
        """
        new = self._new[key]
        while new.waiting and self._incoming.places[new.waiting[-1]] < place:
            number = new.waiting.pop()
            stays = self._incoming.stays[number]
            new.there[self._incoming.subscribers[number].as_py()] = (
                self._incoming.hashes[number].as_py() if stays else None
            )
        # Subscribers of this epoch, the first one last. Each is merged into the stored piece that covers its key.
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
        """Store the subscriptions of the epoch, and delete ended ones. The last entry for a key counts."""
        incoming = self._incoming
        rows = np.flatnonzero(to_numpy(incoming.keys.is_valid()))
        keys = pc.binary_join_element_wise(incoming.keys, incoming.subscribers, b"").take(pa.array(rows))
        code, first, ordered = sorted_groups(keys)
        numbers = rows[last_rows(code, len(first))]
        encoded = _CODEC.encode([incoming.hashes.take(pa.array(numbers))], incoming.timestamps[numbers])
        stays = incoming.stays[numbers].tolist()
        values = [value if kept else None for value, kept in zip(encoded, stays, strict=True)]
        self._store.put_many(bytes_of(ordered), values, incoming.timestamps[numbers])


def _there(found: Mapping[bytes, bytes | None]) -> Subscribers:
    """The subscribers with a hash, by key bytes."""
    there = sorted((subscriber, row) for subscriber, row in found.items() if row is not None)
    keys, hashes = zip(*there, strict=True) if there else ((), ())
    return Subscribers(pa.array(keys, pa.binary()), pa.array(hashes, pa.binary()))


# The rows of a table at the moment of a record of the same task.


@dataclass(frozen=True)
class RowsAt:
    """The row that each record finds. `columns`, `timestamp` (ms): of all versions of these rows.

    Versions are the stored rows, one for each distinct key, then the changes of the epoch. `index`: for each record,
    the version at its moment; meaningless where `exists` is False.
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
        """Look up the keys of `records`. A null key has no row.

        `store`: of the table, as of the start of the epoch. `table`: changes of the epoch. `names`: the value columns
        to return. `expired`: the store of rows that had expired before the epoch.
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
        return taken(self.columns, self.index, ~rows)


def _also_expired(store: Store, expired: Store, keys: pa.BinaryArray, epoch: TaskEpoch) -> StoredRows:
    """The rows of keys (`row_keys` of `expired`) at the start of the epoch, from both stores, with visible columns."""
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


# Expiry of left rows, for a left table with windows.
#
# A row expires once lookups no longer find it: at the change that moves the clock of the table past its retention. From
# then on it sends no changes and no subscriptions. It stays in the store of expired rows until its last response came.


def unexpired(store: Store, rows: Rows, epoch: TaskEpoch) -> Rows:
    """The changes of rows that have not expired at their moment, with the rows that they replace.

    `store`: of the table. `rows`: all of its changes, in path order.
    """
    old = is_old(rows.kind)
    times = np.where(old, -1, rows.timestamp)
    clock = np.maximum(np.maximum.accumulate(times), epoch.clock_before(store.name))
    gone = has_expired(store, rows.keys, clock)
    # A replaced row is kept or dropped with its change, the next row.
    replaced = np.flatnonzero(old)
    gone[replaced] = gone[replaced + 1]
    return rows.filter(~gone)


def expiring(store: Store, rows: Rows, counting: Rows, epoch: TaskEpoch) -> Rows:
    """The rows that expire in this epoch, with the path and time of the change that moves the clock past them.

    `rows`: all changes of the table. `counting`: the `unexpired` ones. Moves the clock of the store.
    """
    assert store.kept_ms is not None
    assert not isinstance(store.window, JoinWindow | None)
    length = 0 if isinstance(store.window, SessionWindow) else store.window.length_ms
    closing = Closing.of(store, _new(rows), store.kept_ms - length, epoch)
    gone, at = closed_rows(store, _new(counting), closing, epoch.store(store))
    if len(closing.clock):
        # Time without a record moves the clock too: a row must not expire twice.
        epoch.advance(store.name, int(closing.clock[-1]))
    return replace(gone, timestamp=closing.clock[at])


def _new(rows: Rows) -> Rows:
    return rows.filter(rows.kind <= Kind.VALUE)
