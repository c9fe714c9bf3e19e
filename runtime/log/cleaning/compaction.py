"""Which records of a lane stay: the last of each key, and of those the ones that have not expired."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...records.arrays import Bools, Int64s, to_numpy
from ...records.keys.encoding import encode_keys
from ..ranges import Fetched

_AT_ONCE = 1_000_000
"""Keys that are gathered before repeated ones are put together."""


@dataclass(frozen=True)
class LastPositions:
    """For each of some keys, the position of its last record."""

    keys: pa.Array
    positions: Int64s

    @classmethod
    def of(cls, pieces: Iterable[Fetched], key: Sequence[str]) -> LastPositions:
        """Those of the keys of records. `key`: the columns of the key, which the records have. Null keys are none."""
        found = cls(pa.array([], pa.binary()), np.empty(0, np.int64))
        waiting, count = [found], 0
        for piece in pieces:
            waiting.append(cls(keys_of(piece.records, key), piece.positions))
            count += len(piece)
            if count >= _AT_ONCE:
                waiting, count = [cls._joined(waiting)], 0
        return cls._joined(waiting)

    @classmethod
    def _joined(cls, parts: Sequence[LastPositions]) -> LastPositions:
        keys = pc.dictionary_encode(pa.concat_arrays([part.keys for part in parts]))
        positions = np.concatenate([part.positions for part in parts])
        there = to_numpy(keys.is_valid())
        last = np.full(len(keys.dictionary), -1, np.int64)
        np.maximum.at(last, to_numpy(keys.indices.drop_null()), positions[there])
        return cls(keys.dictionary, last)

    def stay(self, keys: pa.Array, positions: Int64s) -> Bools:
        """Which records have a key that has no later record. Null keys stay."""
        found = pc.index_in(keys, value_set=self.keys)
        known = to_numpy(found.is_valid())
        stays = np.ones(len(keys), bool)
        stays[known] = positions[known] >= self.positions[to_numpy(found.drop_null())]
        return stays


def keys_of(records: pa.RecordBatch | pa.Table, key: Sequence[str]) -> pa.Array:
    """The bytes of the records' keys. A changelog has them as such."""
    columns = [records.column(name) for name in key]
    plain = [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns]
    if len(plain) == 1 and pa.types.is_binary(plain[0].type) and key[0] == "key":
        return plain[0]
    return encode_keys(plain)
