"""The operator of a table: the last row of each key, kept in a store."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ..records.arrays import typed
from ..records.kinds import Kind
from . import declarations
from .keyed.changes import Versions, at_points, changes
from .keyed.codes import by_key, bytes_of, group_codes
from .keyed.groups import Groups
from .keyed.stored_rows import RowStore, store_keys, stored_columns
from .node import Edges, step_name
from .rows import null_keys
from .task_epoch import TaskEpoch


@dataclass(frozen=True)
class Table(declarations.Table):
    """Keeps the last processed row of each key, even if its timestamp is older: upserts in, changes of a table out.

    `emit`: every update, or one change for each key and epoch. `old`: with the replaced rows. Null keys are dropped and
    counted.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        rows = edges[self.flow]
        null = null_keys(list(rows.keys.values()), len(rows))
        epoch.drop(step_name(self), "null_key", int(null.sum()))
        rows = rows.filter(~null)
        keys = store_keys(self.store, rows.keys)
        code, first = group_codes(keys)
        code, first, keys = by_key(code, first, keys.take(pa.array(first)))
        encoded = bytes_of(keys)
        types = stored_columns(self.store)
        store = RowStore(epoch.store(self.store), types)
        stored = store.get(encoded)
        have = rows.values
        values = {name: typed(have[name], data_type) for name, data_type in types.items()}
        groups = Groups(code, len(first), self.emit == "each_update", stored.exists)
        exists = rows.kind == Kind.VALUE
        last = groups.last
        ends = pa.array(last)
        final = {name: column.take(ends) for name, column in values.items()}
        store.put(encoded, final, rows.timestamp[last], exists[last], stored.exists)
        before = Versions(stored.columns, stored.timestamp, stored.exists)
        after = (
            Versions(values, rows.timestamp, exists)
            if groups.each
            else Versions(final, rows.timestamp[last], exists[last])
        )
        columns = {name: column.take(pa.array(first)) for name, column in rows.keys.items()}
        edges[self.flow] = changes(groups, at_points(groups, rows, columns), before, after, self.old)
