"""Keys and rows of stores one at a time: the same bytes as `records.keys` and `state.codec` make of columns.

Columns are far quicker for many rows, but a processor asks for one row after another.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgpack
import pyarrow as pa

from ....python_functions.values import UnfitValueError, to_column, to_python
from ....records.keys.encoding import encode_keys
from ....records.keys.reading import decode_keys
from ....state.physical import fixed_width, from_values

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_NTZ = datetime(1970, 1, 1)
_EPOCH_DAY = date(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_TIME = struct.Struct("<q")
_FORMATS = {"u1": "?", "i1": "b", "<i2": "h", "<i4": "i", "<i8": "q", "<f4": "f", "<f8": "d", "V16": "16s"}
_NULL, _VALUE, _END = b"\x00", b"\x01", b"\x00"


class SingleKeys:
    """Encodes keys with the columns `types` (name -> type). Values are as `python_functions.values` makes them."""

    def __init__(self, types: Mapping[str, pa.DataType]) -> None:
        self.types = dict(types)
        self._parts = tuple(_key_part(kind) for kind in types.values())

    def encode(self, values: Sequence[Any]) -> bytes:
        """The bytes of a key, or of its first columns, where only these are given. All null: a null key."""
        return b"".join(
            [_NULL if value is None else part(value) for part, value in zip(self._parts, values, strict=False)]
        )

    def decode(self, keys: Sequence[bytes]) -> list[tuple[Any, ...]]:
        """The values of keys. Raises UnfitValueError for a time that Python does not have."""
        columns = decode_keys(pa.array(keys, pa.binary()), list(self.types.values()))
        return list(zip(*map(to_python, columns), strict=True))


def _key_part(kind: pa.DataType) -> Callable[[Any], bytes]:
    """What encodes one column of a key, where it is not null."""
    if pa.types.is_string(kind):
        return lambda text: _VALUE + text.encode().replace(b"\x00", b"\x00\xff") + _END
    if pa.types.is_binary(kind):
        return lambda data: _VALUE + data.replace(b"\x00", b"\x00\xff") + _END
    if pa.types.is_boolean(kind):
        return lambda value: b"\x01\x01" if value else b"\x01\x00"
    if pa.types.is_integer(kind):
        return _whole_part(kind.bit_width)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        number, part = _number_of(kind), _whole_part(kind.bit_width)
        return lambda moment: part(number(moment))
    # Floats, decimals and nested values are rare in keys.
    return lambda value: bytes(encode_keys([to_column([value], kind)])[0].as_py())


def _whole_part(bits: int) -> Callable[[int], bytes]:
    lifted, size = 1 << (bits - 1), bits // 8
    return lambda number: _VALUE + (number + lifted).to_bytes(size, "big")


def _number_of(kind: pa.DataType) -> Callable[[Any], int]:
    """What makes a moment the number that stands for it."""
    if pa.types.is_date(kind):
        return lambda day: (day - _EPOCH_DAY).days
    start = _EPOCH if kind.tz else _EPOCH_NTZ
    return lambda moment: (moment - start) // _MICROSECOND


class SingleRows:
    """Decodes rows with the columns `types` (name -> type)."""

    def __init__(self, types: Mapping[str, pa.DataType]) -> None:
        kinds = list(types.values())
        widths = [fixed_width(kind) for kind in kinds]
        self._plain = tuple(_plain(kind) for kind in kinds)
        self._fixed: struct.Struct | None = None
        if all(width is not None for width in widths):
            nulls = -(-len(kinds) // 8)
            formats = "".join(_FORMATS[width] for width in widths if width is not None)
            self._fixed = struct.Struct(f"<q{nulls}s{formats}")

    def decode(self, row: bytes) -> tuple[tuple[Any, ...], int]:
        """The values of a row, and its timestamp (ms). Raises UnfitValueError for a time that Python does not have."""
        if self._fixed is None:
            (timestamp,) = _TIME.unpack_from(row)
            values = msgpack.unpackb(row[_TIME.size :], strict_map_key=False)
        else:
            timestamp, nulls, *values = self._fixed.unpack(row)
            missing = int.from_bytes(nulls, "little")
            if missing:
                values = [None if missing >> number & 1 else value for number, value in enumerate(values)]
        try:
            return tuple(
                [
                    value if value is None or plain is None else plain(value)
                    for value, plain in zip(values, self._plain, strict=True)
                ]
            ), timestamp
        except OverflowError as error:
            raise UnfitValueError("a time outside of the years 1 to 9999, which Python does not have") from error


def _plain(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """What makes a stored value one for Python; None where it is the same."""
    if pa.types.is_date(kind):
        return lambda days: _EPOCH_DAY + timedelta(days=days)
    if pa.types.is_timestamp(kind):
        start = _EPOCH if kind.tz else _EPOCH_NTZ
        return lambda micros: start + timedelta(microseconds=micros)
    if pa.types.is_decimal(kind):
        scale = -kind.scale
        return lambda data: Decimal(int.from_bytes(data, "little", signed=True)).scaleb(scale)
    if pa.types.is_nested(kind):
        return lambda value: to_python(from_values([value], kind))[0]
    return None
