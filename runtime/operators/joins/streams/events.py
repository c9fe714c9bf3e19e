"""The records of both sides of a join in the order in which they come, and the clocks that they move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ....records.arrays import Bools, Int64s, typed
from ....records.keys.encoding import encode_keys
from ....records.kinds import Kind
from ...rows import Rows, concat, null_keys, path_order

_LOWEST = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Events:
    """The epoch's records of both sides in order.

    `row`: of each event its place in `rows`, which has the records of this side, then those of the other, without
    columns; `key`: their key columns, under the names of this side. `of_this`: which are of this side. `no_value`,
    `no_key`: which lack it. `clock`: stream time with this record, which records that are dropped move too. `bare`: the
    events at which time passes without a record; they are of neither side.
    """

    rows: Rows
    key: dict[str, pa.Array]
    row: Int64s
    of_this: Bools
    time: Int64s
    no_value: Bools
    no_key: Bools
    clock: Int64s
    bare: Bools

    @classmethod
    def of(cls, this: Rows, other: Rows, clock: int, passing: Sequence[Rows] = ()) -> Events:
        """`clock`: stream time before. `passing`: where time passes without a record."""
        sides = [replace(each, columns={}, key=(), value=(), state=None, collapsed=False) for each in (this, other)]
        parts = [*sides, *passing]
        rows, row = concat(parts), path_order(parts)
        columns = zip(this.keys.items(), other.keys.values(), strict=True)
        nobody = sum(map(len, passing))
        key = {
            name: pa.concat_arrays([mine, typed(theirs, mine.type), pa.nulls(nobody, mine.type)])
            for (name, mine), theirs in columns
        }
        time, bare = rows.timestamp[row], row >= len(this) + len(other)
        return cls(
            rows,
            key,
            row,
            row < len(this),
            time,
            (rows.kind != Kind.VALUE)[row] & ~bare,
            null_keys(list(key.values()), len(rows))[row] & ~bare,
            np.maximum.accumulate(np.maximum(time, clock)),
            bare,
        )

    @property
    def joins(self) -> Bools:
        """The records that can be joined."""
        return ~self.no_value & ~self.no_key & ~self.bare

    @property
    def encoded(self) -> pa.BinaryArray:
        """The encoded key of each event; null for one without a key."""
        return encode_keys([column.take(pa.array(self.row)) for column in self.key.values()])

    def clock_of(self, puts: Bools, clock: int) -> Int64s:
        """The clock of a store before each event, and after the last. `puts`: the records that go into the store."""
        times = np.where(puts, self.time, _LOWEST)
        return np.maximum.accumulate(np.concatenate([np.array([clock], np.int64), times]))
