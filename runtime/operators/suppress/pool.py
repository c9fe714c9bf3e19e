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
from ..rows import Rows, after_old, is_old
from .buffer import Waiting
from .entries import Changes, Replaced, decoded_keys


@dataclass(frozen=True)
class Pool:
    """The first `waiting` of the `changes` have waited since before. `keys`: encoded. `columns`: those of the keys."""

    keys: pa.BinaryArray
    columns: Mapping[str, pa.Array]
    changes: Changes
    waiting: int

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


def pooled(store: Store, waiting: Waiting, everything: Rows, rows: Rows, keys: pa.BinaryArray, times: Int64s) -> Pool:
    """Those that wait, and those that arrive. `everything`: `rows` with those that they replace.

    `keys`: of the rows, encoded. `times`: by which they wait, ms.
    """
    arriving = _arriving(store, everything, rows, times)
    count = len(waiting.keys)
    if not count:
        return Pool(keys, rows.keys, arriving, 0)
    before, have = decoded_keys(store, waiting.keys), rows.keys
    columns = {name: pa.concat_arrays([typed(before[name], have[name].type), have[name]]) for name in have}
    return Pool(pa.concat_arrays([waiting.keys, keys]), columns, waiting.changes.then(arriving), count)


def _arriving(store: Store, everything: Rows, rows: Rows, times: Int64s) -> Changes:
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
    return Changes(values, rows.kind == Kind.VALUE, rows.timestamp, rows.headers, times, old)
