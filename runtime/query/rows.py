"""Rows that queries and reads return."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from ...errors import HeadwaterError
from ..ir.topology import GlobalTable, Store
from ..ir.windows import JoinWindow
from ..log.log import Log
from ..records.arrays import BadValueError, Int64s, to_numpy
from ..records.keys import encode_keys
from ..records.record_json import key_to_json, to_json
from ..records.schema import WINDOW_COLUMNS
from ..records.types import TIMESTAMP, column_names, columns_ddl, parse_columns
from ..records.values import from_json, parse_text
from .topics import TopicReader, read_table, table_names

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession


# The rows of a store for its readers: one by one in JSON's forms, or as a table of typed columns.

_TIMESTAMP = "timestamp"


@dataclass(frozen=True)
class Row:
    """One row, with values as in the record form's JSON.

    The `key` of a window store includes its bounds, in ms. `timestamp`: in ms.
    """

    key: Mapping[str, Any]
    value: Mapping[str, Any]
    timestamp: int


def key_types(store: Store) -> dict[str, pa.DataType]:
    """The declared key columns of a store, without the bounds of its own windows.

    A key-value store may have window bounds, too: those of a windowed input key.
    """
    own = WINDOW_COLUMNS if store.is_windowed else ()
    return {name: kind for name, kind in parse_columns(store.key).items() if name not in own}


def table_schema(store: Store) -> pa.Schema:
    """The columns of the table: the key's, with window bounds; the value's; `timestamp`."""
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
    """Rows as columns: those of the key with the window's bounds, those of the value, and timestamps in ms."""

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
        """The rows with these values of key columns, given in JSON's forms."""
        if not wanted:
            return self
        columns = zip(*(to_json(self.key[name]) for name in wanted), strict=True)
        values = tuple(wanted.values())
        return self.take(np.flatnonzero([row == values for row in columns]))

    def take(self, numbers: Int64s) -> FoundRows:
        """The rows at these positions, in their order."""
        rows = pa.array(numbers, pa.int64())
        return FoundRows(
            {name: column.take(rows) for name, column in self.key.items()},
            {name: column.take(rows) for name, column in self.value.items()},
            self.timestamps[numbers],
        )

    def table(self, schema: pa.Schema) -> pa.Table:
        """The rows as a table with the columns of `table_schema`."""
        columns = [*self.key.values(), *self.value.values(), to_timestamps(self.timestamps)]
        return pa.table([column.cast(kind) for column, kind in zip(columns, schema.types, strict=True)], schema=schema)


def to_timestamps(milliseconds: Int64s) -> pa.Array:
    """Milliseconds since 1970 as timestamps."""
    return pa.array(milliseconds).cast(pa.timestamp("ms", "UTC")).cast(TIMESTAMP)


# The results of `Project.read` and `query`: rows to iterate over, or the same rows as a table of typed columns.

AnyRow = TypeVar("AnyRow")

_SHOWN = 8
"""The most columns that `repr` lists."""


class Rows(Generic[AnyRow]):
    """Rows that are read on demand, each time anew from the log or the store.

    Iterate over them for Python objects, or convert all of them to a table. `schema`: the table's columns.
    """

    def __init__(
        self,
        source: str,
        schema: pa.Schema,
        rows: Callable[[], Iterator[AnyRow]],
        table: Callable[[], pa.Table],
        session: Callable[[], SparkSession],
    ) -> None:
        self.schema = schema
        self._source = source
        self._rows = rows
        self._table = table
        self._session = session

    def __iter__(self) -> Iterator[AnyRow]:
        return self._rows()

    def __repr__(self) -> str:
        names = self.schema.names
        return f"<Rows of {self._source}: {', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}>"

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table, in the order of iteration. Timestamps are in UTC."""
        return self._table()

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas frame.

        Integers and booleans have the nullable types of pandas (`Int64`, `boolean`), so that a null changes no number.
        Maps are dicts, or lists of pairs if the frame has a map with nested keys.
        """
        import pandas as pd

        nullable: Mapping[pa.DataType, object] = {
            pa.int8(): pd.Int8Dtype(),
            pa.int16(): pd.Int16Dtype(),
            pa.int32(): pd.Int32Dtype(),
            pa.int64(): pd.Int64Dtype(),
            pa.bool_(): pd.BooleanDtype(),
        }
        maps = None if any(map(_has_nested_keys, self.schema.types)) else "strict"
        frame: pd.DataFrame = self.to_arrow().to_pandas(types_mapper=nullable.get, maps_as_pydicts=maps)
        return frame

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """The rows as a Spark frame, sent through this process.

        Without `session` it belongs to the project's session, which is started if needed and ends with the project.
        """
        columns = dict(zip(self.schema.names, self.schema.types, strict=True))
        return (session or self._session()).createDataFrame(self.to_arrow(), schema=columns_ddl(columns))


def _has_nested_keys(data_type: pa.DataType) -> bool:
    """Whether a map in a type has keys that cannot be keys of a Python dict."""
    if pa.types.is_map(data_type) and pa.types.is_nested(data_type.key_type):
        return True
    return any(_has_nested_keys(data_type.field(number).type) for number in range(data_type.num_fields))


# Filters of queries by key columns.


class StoreKeyError(HeadwaterError):
    """A key that the store's rows cannot have. `column`: the wrong column."""

    exit_code = 2

    def __init__(self, store: str, column: str, cause: str) -> None:
        super().__init__(f"store {store}, key column {column}: {cause}")
        self.store = store
        self.column = column


def wanted_columns(store: Store, key: Mapping[str, Any]) -> dict[str, Any]:
    """The key columns of a query, in their JSON forms. Raises StoreKeyError."""
    types = key_types(store)
    wanted = {}
    for column, value in key.items():
        if column not in types:
            raise StoreKeyError(store.name, column, f"there is no such column; the key has {', '.join(types)}")
        try:
            text = isinstance(value, str) and not pa.types.is_string(types[column])
            array = parse_text(pa.array([value]), types[column]) if text else from_json([value], types[column])
        except BadValueError as error:
            raise StoreKeyError(store.name, column, error.cause) from error
        (wanted[column],) = to_json(array)
    return wanted


# The rows of a global table, read from its topic.


@dataclass(frozen=True)
class GlobalQuery:
    """Reads a global table from its topic: the last value of each key.

    `writer`: the application that writes the topic.
    """

    table: GlobalTable
    writer: str
    log: Log

    def rows(self, key: Mapping[str, Any] | None = None) -> Iterator[Row]:
        """Rows in the order of the first record of their keys. Raises StoreKeyError."""
        yield from self._found_rows(key).rows()

    def to_table(self, key: Mapping[str, Any] | None = None) -> pa.Table:
        """The same rows as one table, see `rows.table_schema`."""
        return self._found_rows(key).table(table_schema(self.table.store))

    def _found_rows(self, key: Mapping[str, Any] | None) -> FoundRows:
        wanted = wanted_columns(self.table.store, key or {})
        records = read_table(self.table.topic, TopicReader(self.log, self.writer, self.table.topic))
        keys, values = table_names(self.table.topic)
        rows = FoundRows(
            {name: records.column(column).combine_chunks() for name, column in keys.items()},
            {name: records.column(column).combine_chunks() for name, column in values.items()},
            records.column("timestamp").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy(),
        )
        return rows.take(_last(rows.key, records.column("tombstone").to_pylist())).where(wanted)


def _last(key: Mapping[str, pa.Array], deleted: Sequence[bool]) -> Int64s:
    """Positions of the last row of each key that is not deleted, in the order of the keys' first rows."""
    rows: dict[bytes, int] = {}
    not_null = np.logical_or.reduce([to_numpy(column.is_valid()) for column in key.values()])
    encoded = encode_keys(list(key.values())).to_pylist()
    for number in np.flatnonzero(not_null).tolist():
        if deleted[number]:
            rows.pop(encoded[number], None)
        else:
            rows[encoded[number]] = number
    return np.array(list(rows.values()), np.int64)
