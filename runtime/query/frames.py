"""The results of `Project.read` and `query`: rows to iterate over, or the same rows as a table with typed columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa

from ..records.types import columns_ddl

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

Row = TypeVar("Row")

_SHOWN = 8
"""The most columns that `repr` names."""


class Rows(Generic[Row]):
    """Rows that are read on demand, each time from the current log or store.

    Iterate over them for Python objects, one for each row, or take all of them as a table. `schema`: the table's
    columns.
    """

    def __init__(
        self,
        source: str,
        schema: pa.Schema,
        rows: Callable[[], Iterator[Row]],
        table: Callable[[], pa.Table],
        session: Callable[[], SparkSession],
    ) -> None:
        self.schema = schema
        self._source = source
        self._rows = rows
        self._table = table
        self._session = session

    def __iter__(self) -> Iterator[Row]:
        return self._rows()

    def __repr__(self) -> str:
        names = self.schema.names
        return f"<Rows of {self._source}: {', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}>"

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table, in the order of iteration. Timestamps are in UTC."""
        return self._table()

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas frame.

        Whole numbers and booleans have the nullable types of pandas (`Int64`, `boolean`), so that a null changes no
        number. Maps are dicts, or lists of pairs in a frame that has a map with nested keys.
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

        Without `session` it belongs to the project's session, which is started if necessary and ends with the project.
        """
        columns = dict(zip(self.schema.names, self.schema.types, strict=True))
        return (session or self._session()).createDataFrame(self.to_arrow(), schema=columns_ddl(columns))


def _has_nested_keys(data_type: pa.DataType) -> bool:
    """Whether a map in a type has keys that cannot be keys of a Python dict."""
    if pa.types.is_map(data_type) and pa.types.is_nested(data_type.key_type):
        return True
    return any(_has_nested_keys(data_type.field(number).type) for number in range(data_type.num_fields))
