"""Stores the rows of a table that SQL has computed: expressions over aggregates, filtered or projected tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from ..records.arrays import typed
from ..records.kinds import Kind
from ..state.codec import RowCodec
from . import declarations
from .aggregates.registry import state_columns
from .keyed.codes import group_codes, last_rows
from .keyed.stored_rows import RowStore, store_keys, stored_columns
from .node import Edges
from .task_epoch import TaskEpoch


@dataclass(frozen=True)
class Materialize(declarations.Materialize):
    """Keeps the last row of each key of a table's changes, which go on unchanged.

    In a store of aggregates the row also has their hidden state, which arrived in `Rows.state` and goes no further.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        everything = edges[self.flow]
        edges[self.flow] = replace(everything, state=None)
        rows = everything.filter(everything.kind <= Kind.VALUE)
        keys = store_keys(self.store, rows.keys)
        code, first = group_codes(keys)
        last = last_rows(code, len(first))
        rows, keys = rows.take(last), keys.take(pa.array(last))
        exists = rows.kind == Kind.VALUE
        hidden = RowCodec(state_columns(self.store.aggregates))
        states = [None] * len(rows) if rows.state is None else rows.state.to_pylist()
        columns = dict(zip(hidden.types, hidden.decode(states)[0], strict=True))
        types = stored_columns(self.store)
        have = rows.values
        columns |= {name: typed(have[name], kind) for name, kind in types.items() if name not in columns}
        store = RowStore(epoch.store(self.store), types)
        store.put(keys.to_pylist(), columns, rows.timestamp, exists, ~exists)
