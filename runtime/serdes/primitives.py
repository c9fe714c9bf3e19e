"""Serdes of one column: `string`, `binary`, `uuid` and numbers, with the bytes of Java's serializers of these names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..records.arrays import BadValueError, Bools, shown, to_numpy, valid_text
from ..records.keys import binary_array, binary_parts, normal_key
from ..records.schema import WINDOW_COLUMNS, readable, widened
from ..records.types import ddl
from .serde import (
    Decoded,
    Deserializer,
    Direction,
    Encoded,
    PayloadSpec,
    Problem,
    Role,
    Serializer,
    as_texts,
    by_rows,
    decoded,
    encoded,
)


@dataclass(frozen=True)
class Primitive:
    """A format of one column. `data_type`: what its bytes hold.

    `read`: the values of payloads, null where one has an error, and the errors. `write`: the payloads of values, or
    BadValueError; what it makes of a null does not matter.
    """

    name: str
    data_type: pa.DataType
    read: Callable[[pa.BinaryArray], tuple[pa.Array, dict[int, str]]]
    write: Callable[[pa.Array], pa.BinaryArray]


@dataclass(frozen=True)
class PrimitiveSerde:
    """See `Serde`.

    A column may have another type if nothing is lost: a wider one where it is read, a narrower one where it is
    written.
    """

    primitive: Primitive

    def check(self, spec: PayloadSpec, direction: Direction) -> Sequence[Problem]:
        name, data_type = self.primitive.name, self.primitive.data_type
        if len(spec.columns) != 1:
            columns = ", ".join(spec.columns) or "none"
            way_out = "use json, or `windows: java_time`" if WINDOW_COLUMNS[0] in spec.columns else "use json"
            return [Problem(f"the format {name} holds one column, and this {spec.role} has {columns}; {way_out}")]
        ((column, declared),) = spec.columns.items()
        reads = direction is Direction.READ
        if readable(data_type, declared) if reads else readable(declared, data_type):
            return []
        way_out = f"declare {ddl(data_type)}" if reads else f"convert it to {ddl(data_type)}"
        return [Problem(f"the format {name} holds no {ddl(declared)}; {way_out}, or use another format", column)]

    def deserializer(self, spec: PayloadSpec) -> Deserializer:
        return _Deserializer(self.primitive, spec)

    def serializer(self, spec: PayloadSpec) -> Serializer:
        return _Serializer(self.primitive, spec)


@dataclass(frozen=True)
class _Deserializer:
    primitive: Primitive
    spec: PayloadSpec

    def read(self, payloads: pa.BinaryArray) -> Decoded:
        values, errors = self.primitive.read(payloads)
        (declared,) = self.spec.columns.values()
        return decoded(self.spec, [widened(values, declared)], len(payloads), errors)


@dataclass(frozen=True)
class _Serializer:
    primitive: Primitive
    spec: PayloadSpec

    def write(self, columns: pa.RecordBatch, absent: Bools) -> Encoded:
        (column,) = columns.columns
        if self.spec.role is Role.KEY:
            column = normal_key(column)
        values = widened(column, self.primitive.data_type)
        payloads, errors = by_rows(values, self.primitive.write, pa.binary())
        # Only of values: the absent rows of keys are those with a null.
        for row in np.flatnonzero(to_numpy(column.is_null())):
            errors[int(row)] = f"the format {self.primitive.name} has no null but that of a tombstone"
        return encoded(payloads, absent, errors)


# Texts and bytes.

_UUID = r"\A[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\z"


def _read_bytes(payloads: pa.BinaryArray) -> tuple[pa.BinaryArray, dict[int, str]]:
    return payloads, {}


def _write_bytes(column: pa.BinaryArray) -> pa.BinaryArray:
    return column


def _text_bytes(column: pa.StringArray) -> pa.BinaryArray:
    return valid_text(column).cast(pa.binary())


def _read_uuids(payloads: pa.BinaryArray) -> tuple[pa.StringArray, dict[int, str]]:
    texts, errors = as_texts(payloads)
    values, more = by_rows(texts, _uuids, pa.string())
    return values, errors | more


def _write_uuids(column: pa.StringArray) -> pa.BinaryArray:
    return _text_bytes(_uuids(column))


def _uuids(texts: pa.StringArray) -> pa.StringArray:
    """UUIDs in lower case, as Java writes them. Raises BadValueError."""
    valid = pc.fill_null(pc.match_substring_regex(texts, _UUID), True)
    if not pc.all(valid, min_count=0).as_py():
        row = valid.index(False).as_py()
        raise BadValueError(row, f"{shown(texts[row].as_py())} is no UUID")
    return pc.ascii_lower(texts)


# Numbers: big-endian bytes of a fixed length.


def _read_numbers(
    payloads: pa.BinaryArray, name: str, dtype: str, data_type: pa.DataType
) -> tuple[pa.Array, dict[int, str]]:
    size = np.dtype(dtype).itemsize
    data, starts, lengths = binary_parts(payloads)
    valid = to_numpy(payloads.is_valid())
    errors = {
        int(row): f"{lengths[row]} bytes are no {name}, which has {size}"
        for row in np.flatnonzero(valid & (lengths != size))
    }
    valid &= lengths == size
    numbers = np.zeros(len(payloads), np.dtype(dtype).newbyteorder("="))
    numbers[valid] = data[starts[valid][:, None] + np.arange(size)].reshape(-1).view(dtype)
    if pa.types.is_boolean(data_type):
        bad = valid & (numbers > 1)
        errors |= {int(row): f"the byte 0x{numbers[row]:02x} is no {name}" for row in np.flatnonzero(bad)}
        return pa.array(numbers.astype(np.bool_), mask=~valid | bad), errors
    return pa.array(numbers, mask=~valid), errors


def _write_numbers(column: pa.Array, dtype: str) -> pa.BinaryArray:
    values: npt.NDArray[np.generic] = to_numpy(column.fill_null(False if pa.types.is_boolean(column.type) else 0))
    words = np.ascontiguousarray(values.astype(dtype))
    return binary_array(words.view(np.uint8), np.full(len(words), words.dtype.itemsize, np.int64))


def _number(name: str, dtype: str, data_type: pa.DataType) -> Primitive:
    read = partial(_read_numbers, name=name, dtype=dtype, data_type=data_type)
    return Primitive(name, data_type, read, partial(_write_numbers, dtype=dtype))


PRIMITIVES: Mapping[str, Primitive] = {
    primitive.name: primitive
    for primitive in (
        Primitive("string", pa.string(), as_texts, _text_bytes),
        Primitive("binary", pa.binary(), _read_bytes, _write_bytes),
        Primitive("uuid", pa.string(), _read_uuids, _write_uuids),
        _number("boolean", "u1", pa.bool_()),
        _number("smallint", ">i2", pa.int16()),
        _number("int", ">i4", pa.int32()),
        _number("bigint", ">i8", pa.int64()),
        _number("float", ">f4", pa.float32()),
        _number("double", ">f8", pa.float64()),
    )
}
"""The formats of one column by name."""
