"""Stores the rows of a table that SQL has computed: expressions over aggregates, filtered or projected tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from ..records.arrays import Bools, Int64s, typed
from ..records.keys.row_steps import row_step
from ..records.keys.session_segments import has_segments
from ..records.kinds import Kind
from ..state.codec import RowCodec
from ..topology import Store
from . import declarations
from .hidden_state import decoded_state
from .keyed.codes import by_key, bytes_of, group_codes, last_rows
from .keyed.lookups import row_keys
from .keyed.session_changes import ChangedSessions
from .keyed.session_store import SessionStore
from .keyed.stored_rows import RowStore, session_keys, store_keys, stored_columns
from .node import Edges
from .rows import Rows
from .task_epoch import TaskEpoch


@dataclass(frozen=True)
class Materialize(declarations.Materialize):
    """Keeps the last row of each key of a table's changes, which go on unchanged.

    In a store of aggregates the row also has their hidden state, which arrived in `Rows.state` and goes no further. The
    clock of another store with windows is the greatest time of these changes.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        everything = edges[self.flow]
        edges[self.flow] = replace(everything, state=None)
        rows = everything.filter(everything.kind <= Kind.VALUE)
        if self.store.is_windowed and not self.store.aggregates and len(rows):
            epoch.advance(self.store.name, int(rows.timestamp.max()))
        last = _last_changes(self.store, rows)
        rows = rows.take(last)
        columns = decoded_state(self.store, [None] * len(rows) if rows.state is None else rows.state.to_pylist())
        types = stored_columns(self.store)
        have = rows.values
        columns |= {name: typed(have[name], kind) for name, kind in types.items() if name not in columns}
        exists = rows.kind == Kind.VALUE
        if has_segments(self.store):
            self._put_in_segments(rows, columns, exists, SessionStore(epoch.store(self.store), row_step(self.store)))
            return
        store = RowStore(epoch.store(self.store), types)
        store.put(store_keys(self.store, rows.keys).to_pylist(), columns, rows.timestamp, exists, ~exists)

    def _put_in_segments(self, rows: Rows, columns: Mapping[str, pa.Array], exists: Bools, store: SessionStore) -> None:
        keys, starts, ends = session_keys(rows.keys)
        code, first = group_codes(keys)
        code, _, distinct = by_key(code, first, keys.take(pa.array(first)))
        codec = RowCodec(stored_columns(self.store))
        encoded = codec.encode([columns[name] for name in codec.types], rows.timestamp)
        there = [row if kept else None for row, kept in zip(encoded, exists.tolist(), strict=True)]
        store.change(bytes_of(distinct), ChangedSessions(code, starts, ends, there))


def _last_changes(store: Store, rows: Rows) -> Int64s:
    """The last change of each key, or key and window."""
    code, first = group_codes(row_keys(store, rows.keys))
    return last_rows(code, len(first))
