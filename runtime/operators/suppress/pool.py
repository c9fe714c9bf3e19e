"""The changes that an epoch looks at: those that have waited, then those that arrive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ...records.arrays import Int64s, choose, typed
from ...records.kinds import Kind
from ...records.types import parse_columns
from ...topology import Store
from ..keyed.codes import by_key, group_by, group_codes
from ..rows import Rows, after_old, is_old
from .buffer import Waiting
from .entries import Changes, Replaced, decoded_keys, encoded_keys, window_ends


@dataclass(frozen=True)
class Pool:
    """The first `waiting` of the `changes` have waited since before.

    `code`: the number of each one's key, in the order of the `keys`, which are encoded. `columns`: each one's key.
    """

    code: Int64s
    keys: pa.BinaryArray
    columns: Mapping[str, pa.Array]
    changes: Changes
    waiting: int

    def keys_of(self, index: Int64s) -> pa.BinaryArray:
        """The encoded keys of the changes at `index`."""
        return self.keys.take(pa.array(self.code[index]))

    def entries(self, first: Int64s, last: Int64s) -> Changes:
        """Changes that became one each: its place and the row that it replaces are the `first` one's."""
        found = self.changes.take(last)
        old = None if self.changes.old is None else self.changes.old.take(first)
        return replace(found, time=self.changes.time[first], old=old)

    def changed(self, at: Rows, first: Int64s, last: Int64s, old: bool) -> Rows:
        """Entries as rows, with the rows that they replace if `old`. `at`: the records with which they go on."""
        entries = self.entries(first, last)
        count = len(last)
        entry, is_new = np.arange(count), np.ones(count, np.bool_)
        values, timestamp = entries.values, entries.timestamp
        if old and entries.old is not None:
            replaced = entries.old
            both = np.stack([replaced.exists, np.ones(count, np.bool_)], axis=1).ravel()
            entry, is_new = np.repeat(entry, 2)[both], np.tile([False, True], count)[both]
            take = pa.array(entry)
            values = {
                name: choose(is_new, column.take(take), replaced.values[name].take(take))
                for name, column in values.items()
            }
            timestamp = np.where(is_new, timestamp[entry], replaced.timestamp[entry])
        exists = np.where(entries.exists[entry], Kind.VALUE, Kind.TOMBSTONE)
        take = pa.array(last[entry])
        rows = replace(
            at.take(entry),
            kind=np.where(is_new, exists, Kind.OLD).astype(np.int8),
            timestamp=timestamp,
            headers=None if entries.headers is None else entries.headers.take(pa.array(entry)),
        )
        return rows.with_columns({name: column.take(take) for name, column in self.columns.items()}, values)


@dataclass(frozen=True)
class Arriving:
    """The changes of an epoch. `rows`: without those that they replace, which `everything` has.

    `code`: the number of each one's key. `first`: the first change of each key. `keys`: encoded, of each key. `time`:
    by which they wait, ms.
    """

    everything: Rows
    rows: Rows
    code: Int64s
    first: Int64s
    keys: pa.BinaryArray
    time: Int64s

    @classmethod
    def of(cls, store: Store, everything: Rows) -> Arriving:
        """The changes that arrive at a buffer."""
        rows = everything.filter(~is_old(everything.kind))
        code, first = group_by([*rows.keys.values()])
        distinct = {name: column.take(pa.array(first)) for name, column in rows.keys.items()}
        time = window_ends(rows.keys) if store.type == "window_changes" else rows.timestamp
        return cls(everything, rows, code, first, encoded_keys(store, distinct), time)


def pooled(store: Store, waiting: Waiting, arriving: Arriving) -> Pool:
    """Those that wait, and those that arrive."""
    count, rows = len(waiting.keys), arriving.rows
    both = pa.concat_arrays([waiting.keys, arriving.keys])
    of_both, first = group_codes(both)
    of_both, _, keys = by_key(of_both, first, both.take(pa.array(first)))
    code = np.concatenate([of_both[:count], of_both[count:][arriving.code]])
    changes = _changes(store, arriving)
    if not count:
        return Pool(code, keys, rows.keys, changes, 0)
    before, have = decoded_keys(store, waiting.keys), rows.keys
    columns = {name: pa.concat_arrays([typed(before[name], have[name].type), have[name]]) for name in have}
    return Pool(code, keys, columns, waiting.changes.then(changes), count)


def _changes(store: Store, arriving: Arriving) -> Changes:
    everything, rows = arriving.everything, arriving.rows
    types, have = parse_columns(store.value), rows.values
    values = {name: typed(have[name], kind) for name, kind in types.items()}
    old = None
    if store.type == "changes":
        follows = after_old(everything.kind)[~is_old(everything.kind)]
        place = np.flatnonzero(~is_old(everything.kind)) - 1
        replaced = pa.array(place, mask=~follows)
        columns = everything.values
        old = Replaced(
            {name: typed(columns[name], kind).take(replaced) for name, kind in types.items()},
            follows,
            everything.timestamp[np.maximum(place, 0)],
        )
    return Changes(values, rows.kind == Kind.VALUE, rows.timestamp, rows.headers, arriving.time, old)
