"""Ordered records on one edge of the topology, in columns.

Owns the meaning of the four kinds of row and of their order. Operators take and give `Rows`; nothing here knows
stores, topics or Spark.

A *change* of a table is one row, or two adjacent ones: the row that is replaced (`Kind.OLD`, only where a later step
needs it), then the new row (`Kind.VALUE`) or its deletion (`Kind.TOMBSTONE`). A stream has `VALUE` and `TOMBSTONE`
(null value) only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]
Int8s = npt.NDArray[np.int8]


class Kind(IntEnum):
    """What a row is. In SQL: `_kind > 0` has value columns, `_kind >= 0` is a record, `_kind < 0` is control."""

    CONTROL = -1
    TOMBSTONE = 0
    VALUE = 1
    OLD = 2
    OLD_SAME_GROUP = 3
    """A replaced row whose new row follows in the same group: subtract it, and emit only with the new one."""


@dataclass(frozen=True)
class Flow:
    """The columns an edge carries: key and value as Spark SQL DDL, only those that a later step needs.

    Names are unique in a batch: a key column whose name a value column of this flow has too is stored as `key.<name>`.
    A windowed key's `window_start` and `window_end` (timestamp) are part of `key`.
    """

    key: str
    value: str


@dataclass(frozen=True)
class Rows:
    """Records of one task and epoch on one edge, in the order in which the task takes them.

    `path`: int64 arrays, most significant first; their lexicographic order is Kafka Streams' depth-first order over
    all edges of the task (a fork or a step that emits several rows appends a level). `timestamp`: ms. `order`: the
    task's stream time when the source record was taken, ms, never falling along the path. `headers`: JSON strings or
    nulls; None when no row has any. `key`, `value`: names of the columns, by role.
    """

    path: tuple[Int64s, ...]
    kind: Int8s
    timestamp: Int64s
    order: Int64s
    headers: pa.Array | None
    columns: dict[str, pa.Array]
    key: tuple[str, ...]
    value: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.kind)
