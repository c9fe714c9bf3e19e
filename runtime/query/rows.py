"""The rows of a store for its readers: one by one in JSON's forms, or as a table of typed columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..records.arrays import Int64s
from ..records.schema import WINDOW_COLUMNS
from ..records.texts.json_values import to_json
from ..records.texts.record_json import key_to_json
from ..records.types import TIMESTAMP, column_names, parse_columns
from ..topology import Store
from ..windows import JoinWindow

_TIMESTAMP = "timestamp"


@dataclass(frozen=True)
class Row:
    """One row, with values as in the record form's JSON.

    The `key` of a window store has its bounds, in ms. `timestamp`: ms.
    """

    key: Mapping[str, Any]
    value: Mapping[str, Any]
    timestamp: int


def key_types(store: Store) -> dict[str, pa.DataType]:
    """The key columns that a store declares, without those of its own windows.

    A key-value store may have the bounds of a window too: of rows that came with a windowed key.
    """
    own = WINDOW_COLUMNS if store.is_windowed else ()
    return {name: kind for name, kind in parse_columns(store.key).items() if name not in own}


def table_schema(store: Store) -> pa.Schema:
    """The columns of the table: the key's with the window's bounds, the value's, `timestamp`."""
    key = key_types(store)
    if store.is_buffer:
        key = parse_columns(store.key)
    elif store.is_windowed:
        only_start = isinstance(store.window, JoinWindow) or (store.keeps_given_windows and store.type == "window")
        bounds = 1 if only_start else 2
        key |= dict.fromkeys(WINDOW_COLUMNS[:bounds], TIMESTAMP)
    value = parse_columns(store.value)
    keys, values = column_names([_TIMESTAMP], key, value)
    columns = {keys[name]: kind for name, kind in key.items()} | {values[name]: kind for name, kind in value.items()}
    return pa.schema(list((columns | {_TIMESTAMP: TIMESTAMP}).items()))


@dataclass(frozen=True)
class FoundRows:
    """Some rows as columns: those of the key with the window's bounds, those of the value, and timestamps in ms."""

    key: Mapping[str, pa.Array]
    value: Mapping[str, pa.Array]
    timestamps: Int64s

    def rows(self) -> Iterator[Row]:
        """The rows."""
        key = {name: key_to_json(name, column) for name, column in self.key.items()}
        value = {name: to_json(column) for name, column in self.value.items()}
        for number, timestamp in enumerate(self.timestamps.tolist()):
            yield Row(
                {name: column[number] for name, column in key.items()},
                {name: column[number] for name, column in value.items()},
                timestamp,
            )

    def where(self, wanted: Mapping[str, Any]) -> FoundRows:
        """The rows whose key columns have these values, given in JSON's forms."""
        if not wanted:
            return self
        columns = zip(*(to_json(self.key[name]) for name in wanted), strict=True)
        asked = tuple(wanted.values())
        return self.take(np.flatnonzero([found == asked for found in columns]))

    def take(self, numbers: Int64s) -> FoundRows:
        """The rows with these numbers, in their order."""
        rows = pa.array(numbers, pa.int64())
        return FoundRows(
            {name: column.take(rows) for name, column in self.key.items()},
            {name: column.take(rows) for name, column in self.value.items()},
            self.timestamps[numbers],
        )

    def table(self, schema: pa.Schema) -> pa.Table:
        """The rows as a table with the columns of `table_schema`."""
        columns = [*self.key.values(), *self.value.values(), moments(self.timestamps)]
        return pa.table([column.cast(kind) for column, kind in zip(columns, schema.types, strict=True)], schema=schema)


def moments(milliseconds: Int64s) -> pa.Array:
    """Milliseconds since 1970 as timestamps."""
    return pa.array(milliseconds).cast(pa.timestamp("ms", "UTC")).cast(TIMESTAMP)
