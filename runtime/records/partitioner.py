"""Finds the partition of each record."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..topology import Topic
from .arrays import Int64s
from .keys.encoding import encode_keys, partition_of
from .schema import WINDOW_COLUMNS, key_columns


def key_partitions(topic: Topic, table: pa.Table | pa.RecordBatch) -> Int64s:
    """The partition of each record by its key, without the window; -1 for a null key."""
    names = [name for name in key_columns(topic) if name not in WINDOW_COLUMNS or not topic.windowed]
    if not names:
        return np.full(table.num_rows, -1, np.int64)
    columns = [pa.concat_arrays(_chunks(table.column(f"key.{name}"))) for name in names]
    return partition_of(encode_keys(columns), topic.partitions)


def _chunks(column: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    if isinstance(column, pa.ChunkedArray):
        return column.chunks or [pa.array([], column.type)]
    return [column]
