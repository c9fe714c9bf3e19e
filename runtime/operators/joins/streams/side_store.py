"""The store of one side of a join during an epoch: finds the records of keys, and keeps new ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ....records.arrays import Int64s
from ....records.join_keys import plain_key, segment_length, side_keys, side_range, split_side_keys
from ....records.types import parse_columns
from ....records.window_keys import first_window_key
from ....state.codec import RowCodec
from ....topology import JoinWindow, Store
from ...keyed.codes import bytes_of
from ...task_epoch import EpochStore

_MOST_RANGES = 20_000
"""Most ranges of keys that are read in an epoch. For more keys and segments it is faster to go through all of them."""


@dataclass(frozen=True)
class Wanted:
    """The times (ms, inclusive) between which records are looked for, for each key."""

    keys: Sequence[bytes]
    first: Int64s
    last: Int64s


@dataclass(frozen=True)
class StoredRecords:
    """Stored records. `key`: the number of each key. `value`: the encoded rows."""

    key: Int64s
    time: Int64s
    number: Int64s
    value: list[bytes]

    @classmethod
    def of(cls, found: Sequence[tuple[int, bytes, bytes]]) -> StoredRecords:
        """Of (number of the key, key in the store, encoded row) each, in the order in which the records came."""
        _, times, numbers = split_side_keys([key for _, key, _ in found])
        of_keys = np.fromiter((number for number, _, _ in found), np.int64, len(found))
        return cls(of_keys, times, numbers, [value for _, _, value in found])


class SideStore:
    """The records of one side. `declared.window` is a JoinWindow."""

    def __init__(self, declared: Store, opened: EpochStore) -> None:
        assert isinstance(declared.window, JoinWindow)
        self._window = declared.window
        self._opened = opened
        self._codec = RowCodec(parse_columns(declared.value))

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The value columns."""
        return self._codec.types

    def find(self, wanted: Wanted) -> StoredRecords:
        """The records of these keys at these times, by key and time, equal ones as they came."""
        length = segment_length(self._window)
        first, last = wanted.first // length, wanted.last // length
        counts = np.where(wanted.last < wanted.first, 0, last - first + 1)
        if not counts.sum():
            return StoredRecords.of([])
        if counts.sum() > _MOST_RANGES:
            asked = counts > 0
            found = self._scanned(wanted, int(first[asked].min()) * length, (int(last[asked].max()) + 1) * length)
        else:
            found = self._read(wanted, first, counts)
        records = StoredRecords.of(list(found))
        fits = (records.time >= wanted.first[records.key]) & (records.time <= wanted.last[records.key])
        order = np.lexsort((records.number, records.time, records.key))
        order = order[fits[order]]
        values = [records.value[place] for place in order.tolist()]
        return StoredRecords(records.key[order], records.time[order], records.number[order], values)

    def _read(self, wanted: Wanted, first: Int64s, counts: Int64s) -> Iterator[tuple[int, bytes, bytes]]:
        length = segment_length(self._window)
        for number in np.flatnonzero(counts).tolist():
            key, since, until = wanted.keys[number], int(wanted.first[number]), int(wanted.last[number])
            for segment in range(int(first[number]), int(first[number] + counts[number])):
                for at, value in self._opened.range(*side_range(segment * length, key, since, until)):
                    if plain_key(at) == key:
                        yield number, at, value

    def _scanned(self, wanted: Wanted, start: int, end: int) -> Iterator[tuple[int, bytes, bytes]]:
        """The records of all segments from `start` to `end` (ms)."""
        numbers = {key: number for number, key in enumerate(wanted.keys)}
        for at, value in self._opened.range(first_window_key(start), first_window_key(end)):
            number = numbers.get(plain_key(at))
            if number is not None:
                yield number, at, value

    def decode(self, values: Sequence[bytes]) -> dict[str, pa.Array]:
        """The value columns of encoded rows."""
        return dict(zip(self._codec.types, self._codec.decode(values)[0], strict=True))

    def put(self, keys: pa.BinaryArray, values: Sequence[pa.Array], times: Int64s, numbers: Int64s) -> None:
        """Keep records. `keys`: encoded; `values`: their columns."""
        at = side_keys(self._window, keys, times, numbers)
        self._opened.put_many(bytes_of(at), self._codec.encode(values, times), times)
