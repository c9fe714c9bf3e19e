"""Key-value stores of processors, and all stores of a processor during an epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ....ir.topology import Store
from ....python_functions.objects import Row
from ....records.keys import encode_keys
from ....records.types import parse_columns
from ..keyed.groups import bytes_of
from ..node import EpochStore, TaskEpoch
from ..order.origins import Origins
from ..rows import Rows
from .batches import KEY_VALUE, Columns, Moment, OfEpoch, WithWords
from .epoch_rows import EpochRows, Found, StoreKeys, behind
from .timed_stores import SessionStore, WindowStore

# A key-value store as a processor uses it. Reads see the changes of the current epoch.


class KeyValueStore(WithWords):
    """Rows by key. A processor passes keys and values as mappings by column, or as objects with these attributes.

    With a `retention`, a row is visible while its timestamp is later than stream time - retention.
    """

    _words = KEY_VALUE

    def __init__(self, store: Store, opened: EpochStore, moment: Moment) -> None:
        self._store = store
        self._moment = moment
        self._keys = StoreKeys(store.name, parse_columns(store.key))
        self._rows = EpochRows(store.name, parse_columns(store.value), opened, moment)

    @property
    def key_types(self) -> Mapping[str, pa.DataType]:
        """The types of the key's columns."""
        return self._keys.types

    @property
    def name(self) -> str:
        """The name in the YAML."""
        return self._store.name

    def get(self, key: Any) -> Row | None:
        """The row of a key, or None."""
        found = self._rows.get(self._keys.encoded(key))
        return None if found is None or found[1] <= self._expired() else found[0]

    def put(self, key: Any, value: Any) -> None:
        """Set the row of a key, with the timestamp of the current record or punctuation. None deletes the row."""
        encoded = self._keys.encoded(key)
        self._rows.put(encoded, self._rows.row(value), self._moment.timestamp)

    def put_all(self, rows: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Set the rows of several keys. `rows`: pairs of key and row, or a dict. None deletes a row."""
        for key, value in rows.items() if isinstance(rows, Mapping) else rows:
            self.put(key, value)

    def put_if_absent(self, key: Any, value: Any) -> Row | None:
        """Set the row of a key if none exists. Returns the existing row, or None."""
        before = self.get(key)
        if before is None:
            self.put(key, value)
        return before

    def delete(self, key: Any) -> Row | None:
        """Delete the row of a key. Returns the deleted row, or None."""
        before = self.get(key)
        self.put(key, None)
        return before

    def range(self, start: Any = None, end: Any = None, *, reverse: bool = False) -> Iterator[tuple[Row, Row]]:
        """(key, row) of keys from `start` to `end`, both included, in key order. None leaves a side open.

        `reverse`: from `end` down to `start`. Changes during the iteration are not visible.
        """
        lower = None if start is None else self._keys.encoded(start)
        # No key is a prefix of another one, so no key lies between `end` and `end` + b"\x00".
        upper = None if end is None else self._keys.encoded(end) + b"\x00"
        return self._between(lower, upper, reverse)

    def prefix(self, prefix: Any, *, reverse: bool = False) -> Iterator[tuple[Row, Row]]:
        """(key, row) of keys with these values in the first key columns, in key order or in `reverse`."""
        lower = self._keys.encoded_prefix(prefix)
        return self._between(lower, behind(lower), reverse)

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Row, Row]]:
        """(key, row) of all rows, in key order or in `reverse`."""
        return self._between(None, None, reverse)

    def count(self) -> int:
        """The number of rows. Reads the whole store."""
        return self._rows.count(self._expired())

    def get_many(self, keys: Columns) -> pa.RecordBatch:
        """The rows of keys. `keys`: the key columns.

        The result has the value columns and `_timestamp` (ms), one row for each key. All are null where no row exists.
        """
        return self._rows.get_columns(self._keys.encoded_many(keys), after=self._expired())

    def put_many(self, rows: Columns) -> None:
        """Set the rows of keys. `rows`: the columns of key and value. Of several rows with one key, the last wins.

        The column `_timestamp` (ms) is optional. Without it, rows get the timestamp of the current record.
        """
        self._rows.put_columns(self._keys.encoded_many(rows), rows, self._moment.timestamp)

    def delete_many(self, keys: Columns) -> None:
        """Delete the rows of keys. `keys`: the key columns."""
        for key in self._keys.encoded_many(keys):
            self._rows.put(key, None, self._moment.timestamp)

    def expect(self, keys: Sequence[bytes]) -> None:
        """Prefetch the rows of encoded keys that are likely to be read. One read of many keys is faster."""
        self._rows.expect(keys)

    def sweep(self, until: int) -> None:
        """Delete the rows that have expired: those with a timestamp up to `until` (ms)."""
        for key in self._rows.older(until):
            self._rows.put(key, None, self._moment.timestamp)

    def flush(self) -> None:
        """Write the epoch's changes to the store: the last change of each key."""
        self._rows.flush()

    def _between(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> Iterator[tuple[Row, Row]]:
        found = self._typed(self._rows.between(lower, upper, reverse=reverse), self._expired())
        return OfEpoch(found, self._moment)

    def _typed(self, found: Iterator[list[Found]], expired: int) -> Iterator[tuple[Row, Row]]:
        for batch in found:
            there = [(key, row) for key, row, timestamp in batch if timestamp > expired]
            yield from zip(self._keys.decoded([key for key, _ in there]), [row for _, row in there], strict=True)

    def _expired(self) -> int:
        """The timestamp (ms) up to which rows have expired now. -1 without a retention."""
        retention = self._store.retention_ms
        return -1 if retention is None else self._moment.stream_time - retention


# The class of a processor's store, by the store's type.

AnyStore = KeyValueStore | WindowStore | SessionStore


def store_of(store: Store, opened: EpochStore, moment: Moment, clock: int) -> AnyStore:
    """The store during an epoch. `moment`: the current record, updated by the caller.

    `clock`: the clock (ms) of a window or session store at the start of the epoch.
    """
    match store.type:
        case "window":
            return WindowStore(store, opened, moment, clock)
        case "session":
            return SessionStore(store, opened, moment, clock)
        case _:
            return KeyValueStore(store, opened, moment)


# The stores of a processor, or of several processors that share a store, during an epoch.


class OpenedStores:
    """The opened stores. `moment`: the current record. It gives rows their timestamps and decides on expiry."""

    def __init__(self, stores: Sequence[Store], epoch: TaskEpoch, origins: Origins, moment: Moment) -> None:
        self._declared = {store.name: store for store in stores}
        self._epoch = epoch
        self._origins = origins
        self.by_name: Mapping[str, AnyStore] = {
            name: store_of(store, epoch.store(store), moment, epoch.clock(name))
            for name, store in self._declared.items()
        }

    def sweep(self) -> None:
        """Delete expired rows of key-value stores, and advance the clocks of these stores.

        A store is swept whenever half of its retention has passed. A sweep deletes the rows that expired before this
        epoch. Window and session stores drop whole segments instead, by their clocks.
        """
        for name, declared in self._declared.items():
            retention, store = declared.retention_ms, self.by_name[name]
            if retention is None or not isinstance(store, KeyValueStore):
                continue
            until, mark = self._origins.before - retention, f"{name}.swept"
            due = until >= 0 and self._origins.before >= self._epoch.clock(mark) + max(retention // 2, 1)
            if due:
                store.sweep(until)
                self._epoch.advance(mark, self._origins.before)
            self._epoch.advance(name, self._origins.time(len(self._origins) - 1))

    def expect(self, rows: Rows) -> None:
        """Prefetch the rows with the keys of these records: processors read these most."""
        mine = {name: column.type for name, column in rows.keys.items()}
        plain = [store for store in self.by_name.values() if isinstance(store, KeyValueStore)]
        alike = [store for store in plain if store.key_types == mine]
        if not alike or not len(rows):
            return
        keys = encode_keys(list(rows.keys.values()))
        there = bytes_of(keys.filter(keys.is_valid()))
        for store in alike:
            store.expect(there)

    def flush(self, step: str) -> None:
        """Write the epoch's changes to the stores. `step`: the step that counts rows which were put after expiry."""
        for name, store in self.by_name.items():
            store.flush()
            if not isinstance(store, KeyValueStore):
                self._epoch.advance(name, store.clock)
                self._epoch.drop(step, "late", store.late)
