"""The last change of each key, out of records that follow one another: what a store has to be told of them."""

from __future__ import annotations

import pyarrow as pa

from ..records.keys.order import last_in_order
from .store import Changes

_COLUMNS = pa.schema([("key", pa.large_binary()), ("value", pa.large_binary())])
"""Large: the values of a step may take more than 2 GB together."""

FOLD_RECORDS = 131_072
FOLD_BYTES = 32 << 20


class LastChanges:
    """Takes in records in their order. What it holds grows with the keys, not with the records.

    `fold_records`: after so many, or after FOLD_BYTES, changes are left out that later ones replace.
    """

    def __init__(self, fold_records: int = FOLD_RECORDS) -> None:
        self._fold_records = fold_records
        self._folded = pa.RecordBatch.from_pylist([], _COLUMNS)
        self._folded_bytes = 0
        self._new: list[pa.RecordBatch] = []
        self._new_records = 0
        self._new_bytes = 0

    @property
    def keys(self) -> int:
        """How many keys there are, or somewhat more."""
        return int(self._folded.num_rows) + self._new_records

    @property
    def size(self) -> int:
        """Bytes that are held, about."""
        return self._folded_bytes + self._new_bytes

    def add(self, records: pa.RecordBatch) -> None:
        """Take in records with the columns `key` and `value`; a null value deletes the key."""
        self._new.append(records.cast(_COLUMNS))
        self._new_records += records.num_rows
        self._new_bytes += records.nbytes
        if self._new_records >= self._fold_records or self._new_bytes >= FOLD_BYTES:
            self._fold()

    def changes(self) -> Changes:
        """The last change of each key, in the order of the keys' bytes, in which stores write fastest."""
        self._fold()
        # Through numpy, as pyarrow's own `to_pylist` is slower for bytes.
        keys, values = (column.to_numpy(zero_copy_only=False).tolist() for column in self._folded.columns)
        return keys, values

    def _fold(self) -> None:
        if self._new:
            together = pa.concat_batches([self._folded, *self._new])
            self._folded = together.take(pa.array(last_in_order(together["key"])))
            self._folded_bytes = self._folded.nbytes
            self._new, self._new_records, self._new_bytes = [], 0, 0
