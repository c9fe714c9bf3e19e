"""The rows of a global table, read from its topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..log.log import Log
from ..records.arrays import Int64s, to_numpy
from ..records.keys.encoding import encode_keys
from ..topology import GlobalTable
from .rows import FoundRows, Row, table_schema
from .topic_table import read_table, table_names
from .topics import TopicReader
from .wanted import wanted_columns


@dataclass(frozen=True)
class GlobalQuery:
    """Reads a global table from its topic: the last value of each key. `writer`: the application that feeds it."""

    table: GlobalTable
    writer: str
    log: Log

    def rows(self, key: Mapping[str, Any] | None = None) -> Iterator[Row]:
        """Rows in the order in which their keys came first. Raises StoreKeyError."""
        yield from self._found_rows(key).rows()

    def to_table(self, key: Mapping[str, Any] | None = None) -> pa.Table:
        """The same rows as one table, see `rows.table_schema`."""
        return self._found_rows(key).table(table_schema(self.table.store))

    def _found_rows(self, key: Mapping[str, Any] | None) -> FoundRows:
        wanted = wanted_columns(self.table.store, key or {})
        records = read_table(self.table.topic, TopicReader(self.log, self.writer, self.table.topic))
        keys, values = table_names(self.table.topic)
        found = FoundRows(
            {name: records.column(column).combine_chunks() for name, column in keys.items()},
            {name: records.column(column).combine_chunks() for name, column in values.items()},
            records.column("timestamp").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy(),
        )
        return found.take(_last(found.key, records.column("tombstone").to_pylist())).where(wanted)


def _last(key: Mapping[str, pa.Array], deleted: Sequence[bool]) -> Int64s:
    """The last row of each key that is not deleted, by its key's first."""
    rows: dict[bytes, int] = {}
    known = np.logical_or.reduce([to_numpy(column.is_valid()) for column in key.values()])
    encoded = encode_keys(list(key.values())).to_pylist()
    for number in np.flatnonzero(known).tolist():
        if deleted[number]:
            rows.pop(encoded[number], None)
        else:
            rows[encoded[number]] = number
    return np.array(list(rows.values()), np.int64)
