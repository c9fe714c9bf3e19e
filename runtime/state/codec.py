"""Rows of a store as bytes: the value column of changelogs and stores.

A value is the row's timestamp (ms, 8 bytes little endian), then the body. Two bodies, chosen by the columns' types:

- *fixed*, when all columns have a fixed width: a null bitmap (a bit for each column, 1 = null, lowest first, whole
  bytes), then each column little endian without gaps. Nulls are zero bytes, so equal rows are equal bytes.
- *packed* otherwise: one msgpack array with an element for each column.

Times are stored as in Arrow (microseconds since 1970, days since 1970), decimals as 16 bytes of the unscaled number,
structs as arrays by field position, maps as arrays of pairs. Neither body names columns or types: the store's
declaration does, so a change of the declaration changes the store.

A fixed example with the columns `a: int16 = 258` and `b: bool = null`, and timestamp 1:

    01 00 00 00 00 00 00 00   timestamp
    02                        null bitmap: bit 1 is set, so `b` is null
    02 01                     a
    00                        b: a null is zero bytes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import msgpack
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..timed_parts import timed
from .physical import fixed_width, from_fixed, from_values, to_fixed, to_values

Int64s = npt.NDArray[np.int64]
NO_TIMESTAMP = -1
"""The timestamp that decoding gives for a missing row."""

_TIME = 8


def timestamp_of(value: bytes) -> int:
    """The timestamp of an encoded row (ms), without decoding its columns."""
    return int.from_bytes(value[:_TIME], "little", signed=True)


class _Body(Protocol):
    def encode(self, columns: Sequence[pa.Array], timestamps: Int64s) -> list[bytes]: ...

    def decode(self, values: Sequence[bytes | None]) -> tuple[list[pa.Array], Int64s]: ...


class RowCodec:
    """Encodes rows with the columns `types` (name -> type, in order).

    Raises TypeError for a type that Spark does not have.
    """

    def __init__(self, types: Mapping[str, pa.DataType]) -> None:
        self.types = dict(types)
        kinds = list(self.types.values())
        self._body: _Body = _Fixed(kinds) if all(fixed_width(kind) for kind in kinds) else _Packed(kinds)

    def encode(self, columns: Sequence[pa.Array], timestamps: Int64s) -> list[bytes]:
        """A value for each row. `columns` in the order of `types`; `timestamps` in ms."""
        with timed("encode rows"):
            return self._body.encode(columns, timestamps)

    def decode(self, values: Sequence[bytes | None]) -> tuple[list[pa.Array], Int64s]:
        """The columns and timestamps (ms) of `values`. A missing value (None) gives nulls and NO_TIMESTAMP."""
        with timed("decode rows"):
            return self._body.decode(values)


class _Fixed:
    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._types = types
        self._layout = np.dtype(
            [("timestamp", "<i8"), ("nulls", "u1", (-(-len(types) // 8),))]
            + [(f"c{number}", fixed_width(kind)) for number, kind in enumerate(types)]
        )
        missing = np.zeros(1, self._layout)
        missing["timestamp"] = NO_TIMESTAMP
        missing["nulls"] = 0xFF
        self._missing = missing.tobytes()

    def encode(self, columns: Sequence[pa.Array], timestamps: Int64s) -> list[bytes]:
        rows = np.zeros(len(timestamps), self._layout)
        rows["timestamp"] = timestamps
        for number, column in enumerate(columns):
            values, nulls = to_fixed(column)
            rows[f"c{number}"] = values
            if nulls is not None:
                rows["nulls"][:, number // 8] |= nulls.view(np.uint8) << number % 8
        encoded: list[bytes] = rows.view(f"V{self._layout.itemsize}").tolist()
        return encoded

    def decode(self, values: Sequence[bytes | None]) -> tuple[list[pa.Array], Int64s]:
        missing = self._missing
        if None in values:
            values = [missing if value is None else value for value in values]
        rows = np.frombuffer(b"".join(cast("Sequence[bytes]", values)), self._layout)
        columns = []
        for number, kind in enumerate(self._types):
            nulls = (rows["nulls"][:, number // 8] >> number % 8 & 1).astype(bool)
            columns.append(from_fixed(rows[f"c{number}"], nulls, kind))
        return columns, rows["timestamp"].astype(np.int64)


class _Packed:
    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._types = types
        self._first = _TIME + len(_array_head(len(types)))
        self._missing = NO_TIMESTAMP.to_bytes(_TIME, "little", signed=True) + msgpack.packb([None] * len(types))

    def encode(self, columns: Sequence[pa.Array], timestamps: Int64s) -> list[bytes]:
        heads = timestamps.astype("<i8").view("V8").tolist()
        pack = msgpack.Packer(autoreset=True).pack
        rows = zip(*(to_values(column) for column in columns), strict=True)
        return [head + pack(row) for head, row in zip(heads, rows, strict=True)]

    def decode(self, values: Sequence[bytes | None]) -> tuple[list[pa.Array], Int64s]:
        present = [self._missing if value is None else value for value in values]
        timestamps = np.frombuffer(b"".join([value[:_TIME] for value in present]), "<i8").astype(np.int64)
        # All elements of all rows as one array: one call for each row would take most of the time.
        count = len(self._types) * len(present)
        elements = [value[self._first :] for value in present]
        flat = msgpack.unpackb(b"".join([_array_head(count), *elements]), strict_map_key=False)
        columns = [from_values(flat[number :: len(self._types)], kind) for number, kind in enumerate(self._types)]
        return columns, timestamps


def _array_head(elements: int) -> bytes:
    """The header of a msgpack array."""
    head: bytes = msgpack.Packer(autoreset=True).pack_array_header(elements)
    return head
