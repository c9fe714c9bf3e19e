"""The store of one side of a join during an epoch: finds the records of keys, and keeps new ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....records.arrays import Int64s, to_numpy
from ....records.keys.joins import plain_key, segment_length, side_keys, split_side_keys
from ....records.keys.windows import first_window_key, range_in_segment
from ....records.types import parse_columns
from ....state.codec import RowCodec
from ....topology import Store
from ....windows import JoinWindow
from ...keyed.codes import bytes_of
from ...task_epoch import EpochStore

_ROWS_OF_A_RANGE = 40
"""To read a range of keys takes about as long as to read so many rows of a longer one."""

_TOGETHER = 2**17
"""Rows that are looked at at once, to limit memory."""


@dataclass(frozen=True)
class Wanted:
    """The times (ms, inclusive) between which records are looked for, for each key. `keys`: encoded, distinct."""

    keys: pa.BinaryArray
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
    def of(cls, parts: Sequence[StoredRecords]) -> StoredRecords:
        """All of them, by key and time, equal ones as they came."""
        key, time, number = (
            np.concatenate([np.zeros(0, np.int64), *(getattr(part, name) for part in parts)])
            for name in ("key", "time", "number")
        )
        order = np.lexsort((number, time, key))
        values = [value for part in parts for value in part.value]
        return cls(key[order], time[order], number[order], [values[place] for place in order.tolist()])


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
        ranges = int(counts.sum())
        if not ranges:
            return StoredRecords.of([])
        asked = counts > 0
        start, end = int(first[asked].min()) * length, (int(last[asked].max()) + 1) * length
        rows = self._opened.range(first_window_key(start), first_window_key(end))
        found, most = [], ranges * _ROWS_OF_A_RANGE
        while most > 0 and (some := list(islice(rows, min(_TOGETHER, most)))):
            most -= len(some)
            found.append(_of_those(wanted, some))
        if next(rows, None) is not None:
            found = [_of_those(wanted, list(self._read(wanted, first, counts)))]
        return StoredRecords.of(found)

    def _read(self, wanted: Wanted, first: Int64s, counts: Int64s) -> Iterator[tuple[bytes, bytes]]:
        """The records of one key after another."""
        length, keys = segment_length(self._window), bytes_of(wanted.keys)
        for number in np.flatnonzero(counts).tolist():
            key, since, until = keys[number], int(wanted.first[number]), int(wanted.last[number])
            for segment in range(int(first[number]), int(first[number] + counts[number])):
                for at, value in self._opened.range(*range_in_segment(segment * length, key, since, until)):
                    if plain_key(at) == key:
                        yield at, value

    def decode(self, values: Sequence[bytes]) -> dict[str, pa.Array]:
        """The value columns of encoded rows."""
        return dict(zip(self._codec.types, self._codec.decode(values)[0], strict=True))

    def put(self, keys: pa.BinaryArray, values: Sequence[pa.Array], times: Int64s, numbers: Int64s) -> None:
        """Keep records. `keys`: encoded; `values`: their columns."""
        at = side_keys(self._window, keys, times, numbers)
        self._opened.put_many(bytes_of(at), self._codec.encode(values, times), times)


def _of_those(wanted: Wanted, rows: Sequence[tuple[bytes, bytes]]) -> StoredRecords:
    """The rows that are wanted."""
    keys, times, numbers = split_side_keys(pa.array([at for at, _ in rows], pa.binary()))
    key = to_numpy(pc.index_in(keys, value_set=wanted.keys).fill_null(-1)).astype(np.int64)
    fits = np.flatnonzero((key >= 0) & (times >= wanted.first[key]) & (times <= wanted.last[key]))
    return StoredRecords(key[fits], times[fits], numbers[fits], [rows[place][1] for place in fits.tolist()])
