"""What a serde is: it turns the bytes of keys or values into columns of declared types, and columns into bytes.

Bytes and columns are arrays of Arrow with a row for each record. No client of Kafka is known here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import HeadwaterError
from ..ir.topology import SchemaRegistry
from ..records.arrays import BadValueError, Bools, Int64s, to_numpy
from ..records.keys import partition_of

T = TypeVar("T")


class Role(StrEnum):
    """Which payload of a record: its key or its value."""

    KEY = "key"
    VALUE = "value"


class Direction(StrEnum):
    """Whether payloads are read from Kafka or written to it."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True)
class PayloadSpec:
    """The keys, or the values, of a topic in Kafka, as they are declared.

    `topic`: its name in Kafka. `columns`: the declared columns in order; those of a windowed key end with
    `window_start` and `window_end` (see `schema.key_columns`), unless `windows.Windowed` has taken them off.
    `registry`: the cluster's schema registry, None without one.
    """

    topic: str
    role: Role
    columns: Mapping[str, pa.DataType]
    registry: SchemaRegistry | None = None

    @property
    def schema(self) -> pa.Schema:
        """The schema of the columns."""
        return pa.schema(list(self.columns.items()))


@dataclass(frozen=True)
class Problem:
    """Why a serde cannot hold what is declared, as a sentence with a way out. `column`: the one that it is about."""

    message: str
    column: str | None = None


class SerdeError(HeadwaterError):
    """What no single record is to blame for: a registry does not answer, a schema does not fit the columns."""


@dataclass(frozen=True)
class Decoded:
    """Columns from payloads. Null keys and tombstones, and rows with an error, are null in all columns.

    `errors`: row -> why its payload cannot be read: a sentence without the record's position, which the caller knows.
    `deleted`: values that delete the row of their key though they have a payload, None if there are none.
    """

    columns: pa.RecordBatch
    errors: Mapping[int, str] = field(default_factory=dict)
    deleted: Bools | None = None


@dataclass(frozen=True)
class Encoded:
    """Payloads from columns. They are null for null keys and tombstones, and for rows with an error.

    `errors`: row -> what the format cannot hold. `partitioned_by`: the bytes whose hash decides the partition, None:
    the payloads. They differ for Java's windowed keys only, which have the partition of the key without its window.
    """

    payloads: pa.BinaryArray
    errors: Mapping[int, str] = field(default_factory=dict)
    partitioned_by: pa.BinaryArray | None = None

    def partitions(self, count: int) -> Int64s:
        """The partition of each key among `count`, as Java's default partitioner says; -1 for a null key."""
        return partition_of(self.payloads if self.partitioned_by is None else self.partitioned_by, count)


class Deserializer(Protocol):
    """Makes columns of payloads."""

    def read(self, payloads: pa.BinaryArray) -> Decoded:
        """The columns that the payloads hold, with exactly the declared names and types.

        A null payload is a null key or a tombstone; an empty one is not. A bad payload is an error of its row and
        affects no other row. Raises SerdeError if no record is to blame.
        """
        ...


class Serializer(Protocol):
    """Makes payloads of columns."""

    def write(self, columns: pa.RecordBatch, absent: Bools) -> Encoded:
        """The payloads of the declared columns. `absent`: rows that are null keys (`null_keys`) or tombstones.

        Equal keys have equal payloads. A value that the format cannot hold is an error of its row. Raises SerdeError
        if no record is to blame.
        """
        ...


class Serde(Protocol):
    """A format, made by a factory with the options from the YAML. Its methods do no I/O; what it makes may."""

    def check(self, spec: PayloadSpec, direction: Direction) -> Sequence[Problem]:
        """Why the format cannot hold what is declared; empty if it can. `compile` reports it without any network."""
        ...

    def deserializer(self, spec: PayloadSpec) -> Deserializer:
        """The deserializer of payloads for which `check` has found no problem."""
        ...

    def serializer(self, spec: PayloadSpec) -> Serializer:
        """The serializer of payloads for which `check` has found no problem."""
        ...


def ask_for_schema(serde: Serde, spec: PayloadSpec) -> None:
    """Write no record. A format with a registry asks it for the schema then, or registers one. Raises SerdeError."""
    nothing = pa.RecordBatch.from_pylist([], schema=spec.schema)
    serde.serializer(spec).write(nothing, np.zeros(0, np.bool_))


def null_keys(columns: pa.RecordBatch) -> Bools:
    """The rows of key columns that are null keys: all columns are null, or there are none."""
    if not columns.num_columns:
        return np.ones(columns.num_rows, np.bool_)
    return to_numpy(reduce(pc.and_, (column.is_null() for column in columns.columns)))


def decoded(spec: PayloadSpec, columns: Sequence[pa.Array], rows: int, errors: Mapping[int, str]) -> Decoded:
    """Decoded columns, made null where a row has an error."""
    if errors:
        kept = np.ones(rows, np.bool_)
        kept[list(errors)] = False
        # Not `if_else`: it does not know all nested types.
        order = pa.array(np.arange(rows), mask=~kept)
        columns = [column.take(order) for column in columns]
    if not columns:
        return Decoded(pa.RecordBatch.from_arrays([pa.nulls(rows)], [""]).select([]), errors)
    return Decoded(pa.RecordBatch.from_arrays(list(columns), schema=spec.schema), errors)


def encoded(payloads: pa.BinaryArray, absent: Bools, errors: Mapping[int, str]) -> Encoded:
    """Encoded payloads, made null where rows are absent or have an error. Errors of absent rows are none."""
    errors = {row: error for row, error in sorted(errors.items()) if not absent[row]}
    if errors or absent.any():
        present = ~absent
        present[list(errors)] = False
        payloads = pc.if_else(pa.array(present), payloads, pa.scalar(None, pa.binary()))
    return Encoded(payloads, errors)


def by_rows(
    column: pa.Array, convert: Callable[[pa.Array], pa.Array], data_type: pa.DataType
) -> tuple[pa.Array, dict[int, str]]:
    """`convert(column)`, of the type `data_type`, with null in rows for which it raises BadValueError, and its causes.

    See `by_halves`.
    """
    return by_halves(column, convert, pa.nulls(1, data_type), lambda first, last: pa.concat_arrays([first, last]))


def by_halves(
    rows: pa.Array, convert: Callable[[pa.Array], T], bad: T, joined: Callable[[T, T], T]
) -> tuple[T, dict[int, str]]:
    """`convert(rows)`, with `bad` for each row for which it raises BadValueError, and the causes by row.

    Rows that fail are halved until single ones are left, so a few bad ones among many cost little.
    """
    try:
        return convert(rows), {}
    except BadValueError as error:
        if len(rows) == 1:
            return bad, {0: error.cause}
    middle = len(rows) // 2
    first, errors = by_halves(rows[:middle], convert, bad, joined)
    last, more = by_halves(rows[middle:], convert, bad, joined)
    return joined(first, last), errors | {middle + row: cause for row, cause in more.items()}


def as_texts(payloads: pa.BinaryArray) -> tuple[pa.StringArray, dict[int, str]]:
    """Payloads as texts, null where they are not UTF-8; and why they are not."""
    try:
        return payloads.cast(pa.string()), {}
    except pa.ArrowInvalid:
        errors = dict[int, str]()
    for row, payload in enumerate(payloads.to_pylist()):
        try:
            bytes(payload or b"").decode()
        except UnicodeDecodeError as error:
            errors[row] = f"the byte 0x{error.object[error.start]:02x} at position {error.start + 1} is not UTF-8"
    valid = to_numpy(payloads.is_valid())
    valid[list(errors)] = False
    return pc.if_else(pa.array(valid), payloads, pa.scalar(None, pa.binary())).cast(pa.string()), errors
