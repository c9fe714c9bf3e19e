"""Readers of Avro values: from the type in which they were written to the declared type of a column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..records.arrays import Int64s, repeat
from .avro_cursor import Cursor


class AvroReader(Protocol):
    """Reads a value of each row, as an array of `type`. In all readers `place` is that of the value, for errors."""

    @property
    def type(self) -> pa.DataType | None:
        """The type of the column; None for a value that no column has."""
        ...

    def read(self, cursor: Cursor, rows: Int64s) -> pa.Array | None:
        """The values of some rows."""
        ...


Numbers = npt.NDArray[Any]
Conversion = Callable[[pa.Array], tuple[pa.Array, Mapping[int, str]]]
"""Values in the type of a column, null where one has none, and why."""


@dataclass(frozen=True)
class NullReader:
    """Reads `null`, which has no bytes."""

    type: pa.DataType | None

    def read(self, cursor: Cursor, rows: Int64s) -> pa.Array | None:
        return None if self.type is None else pa.nulls(len(rows), self.type)


@dataclass(frozen=True)
class NumberReader:
    """Reads a `boolean`, `int`, `long`, `float` or `double`. `convert`: from what it holds to the type."""

    name: str
    place: str
    type: pa.DataType | None = None
    convert: Conversion | None = None

    def read(self, cursor: Cursor, rows: Int64s) -> pa.Array | None:
        values = self._numbers(cursor, rows)
        return None if self.type is None else _converted(pa.array(values), self.convert, cursor, rows, self.place)

    def _numbers(self, cursor: Cursor, rows: Int64s) -> Numbers:
        match self.name:
            case "float":
                return cursor.words(rows, "<f4", self.place)
            case "double":
                return cursor.words(rows, "<f8", self.place)
            case "boolean":
                values = cursor.words(rows, "u1", self.place)
                _report(cursor, rows, np.flatnonzero(values.view(np.uint8) > 1), f"{self.place} is no boolean")
                truths: Numbers = values.view(np.uint8) == 1
                return truths
        longs = cursor.longs(rows, self.place)
        if self.name == "long":
            return longs
        ints = longs.astype(np.int32)
        _report(cursor, rows, np.flatnonzero(ints != longs), f"{self.place} has more than the 4 bytes of an int")
        return ints


@dataclass(frozen=True)
class BytesReader:
    """Reads `bytes`, a `string` or a `fixed` of `size` bytes. `convert`: from bytes to the type."""

    place: str
    type: pa.DataType | None = None
    convert: Conversion | None = None
    size: int | None = None

    def read(self, cursor: Cursor, rows: Int64s) -> pa.Array | None:
        if self.size is None:
            lengths = cursor.longs(rows, f"the length of {self.place}")
        else:
            lengths = np.full(len(rows), self.size, np.int64)
        values = cursor.slices(rows, lengths, self.place, wanted=self.type is not None)
        return None if values is None else _converted(values, self.convert, cursor, rows, self.place)


@dataclass(frozen=True)
class EnumReader:
    """Reads an `enum`, as its symbol."""

    symbols: Sequence[str]
    place: str
    type: pa.DataType | None = None

    def read(self, cursor: Cursor, rows: Int64s) -> pa.Array | None:
        numbers = cursor.longs(rows, self.place)
        unknown = (numbers < 0) | (numbers >= len(self.symbols))
        _report(cursor, rows, np.flatnonzero(unknown), f"{self.place} is no symbol of its enum")
        if self.type is None:
            return None
        return pa.array(self.symbols, pa.string()).take(pa.array(numbers, mask=unknown))


@dataclass(frozen=True)
class UnionReader:
    """Reads a `union`: the number of a branch, then its value."""

    branches: Sequence[AvroReader]
    place: str
    type: pa.DataType | None = None

    def read(self, cursor: Cursor, rows: Int64s) -> pa.Array | None:
        numbers = cursor.longs(rows, self.place)
        unknown = np.flatnonzero((numbers < 0) | (numbers >= len(self.branches)))
        _report(cursor, rows, unknown, f"{self.place} is no branch of its union")
        if cursor.errors:  # of no branch: that could be the record around it, again and again
            numbers[cursor.failed[rows]] = -1
        parts: list[pa.Array] = []
        # In the result: the number of the value among those of all branches.
        at, count = np.zeros(len(rows), np.int64), 0
        missing = np.ones(len(rows), np.bool_)
        for number, branch in enumerate(self.branches):
            there = np.flatnonzero(numbers == number)
            if not len(there):
                continue
            values = branch.read(cursor, rows[there])
            if values is None or isinstance(branch, NullReader):
                continue
            if len(there) == len(rows):
                return values
            parts.append(values)
            at[there] = np.arange(count, count + len(there))
            missing[there] = False
            count += len(there)
        if self.type is None:
            return None
        return pa.concat_arrays(parts).take(pa.array(at, mask=missing)) if parts else pa.nulls(len(rows), self.type)


@dataclass(frozen=True)
class ItemsReader:
    """Reads an `array`, or a `map`, whose items have a `key`: blocks of items, of which the last one is empty."""

    item: AvroReader
    place: str
    type: pa.DataType | None = None
    key: AvroReader | None = None

    def read(self, cursor: Cursor, rows: Int64s) -> pa.Array | None:
        owners: list[Int64s] = []
        keys: list[pa.Array] = []
        items: list[pa.Array] = []
        left: Int64s = np.zeros(len(rows), np.int64)
        open_ = np.arange(len(rows))
        while len(open_):
            self._next_blocks(cursor, rows, left, open_)
            open_ = open_[left[open_] > 0]
            if not len(open_):
                break
            key = None if self.key is None else self.key.read(cursor, rows[open_])
            item = self.item.read(cursor, rows[open_])
            if item is not None:
                owners.append(open_)
                items.append(item)
                keys.extend([] if key is None else [key])
            left[open_] -= 1
            left[open_[cursor.failed[rows[open_]]]] = 0
            open_ = open_[~cursor.failed[rows[open_]]]
        return None if self.type is None else self._lists(len(rows), owners, keys, items)

    def _next_blocks(self, cursor: Cursor, rows: Int64s, left: Int64s, open_: Int64s) -> None:
        """Read how many items the next block has, where one has ended."""
        ended = open_[left[open_] == 0]
        if not len(ended):
            return
        counts = cursor.longs(rows[ended], f"the length of {self.place}")
        negative = np.flatnonzero(counts < 0)
        if len(negative):  # then the size of the block in bytes follows, for those that skip it
            cursor.longs(rows[ended[negative]], f"the length of {self.place}")
            counts[negative] = -counts[negative]
        # Also of items without bytes: a count of any size costs nothing to write.
        beyond = (counts < 0) | (counts > cursor.left(rows[ended]))
        _report(cursor, rows[ended], np.flatnonzero(beyond), f"{self.place} has more items than bytes")
        left[ended] = np.where(beyond | cursor.failed[rows[ended]], 0, counts)

    def _lists(self, rows: int, owners: list[Int64s], keys: list[pa.Array], items: list[pa.Array]) -> pa.Array:
        of_row = np.concatenate(owners) if owners else np.zeros(0, np.int64)
        offsets = np.zeros(rows + 1, np.int32)
        np.cumsum(np.bincount(of_row, minlength=rows), out=offsets[1:])
        order = pa.array(np.argsort(of_row, kind="stable"))
        assert self.item.type is not None
        values = pa.concat_arrays(items).take(order) if items else pa.nulls(0, self.item.type)
        if self.key is None:
            return pa.ListArray.from_arrays(pa.array(offsets), values, type=self.type)
        names = pa.concat_arrays(keys).take(order) if keys else pa.nulls(0, pa.string())
        return pa.MapArray.from_arrays(pa.array(offsets), names, values, type=self.type)


@dataclass
class RecordReader:
    """Reads a `record`, field by field.

    `readers`: of its fields, in the order in which they were written. `columns`: for each field of the type, the number
    of a reader, or the value of a field that was not written. A record that no column has may contain itself.
    """

    type: pa.DataType | None = None
    readers: list[AvroReader] = field(default_factory=list)
    columns: list[int | pa.Scalar] = field(default_factory=list)

    def read(self, cursor: Cursor, rows: Int64s) -> pa.Array | None:
        columns = self.read_columns(cursor, rows)
        if self.type is None:
            return None
        if not columns:
            return pa.array([{}] * len(rows), self.type)
        return pa.StructArray.from_arrays(columns, fields=list(self.type))

    def read_columns(self, cursor: Cursor, rows: Int64s) -> list[pa.Array]:
        """The fields that the type has."""
        read = [reader.read(cursor, rows) for reader in self.readers]
        return [read[each] if isinstance(each, int) else repeat(each, len(rows)) for each in self.columns]


@dataclass(frozen=True)
class OptionalRecordReader:
    """Reads a union of records and null as columns: Kafka Connect has such schemas for whole values."""

    union: UnionReader

    def read_columns(self, cursor: Cursor, rows: Int64s) -> list[pa.Array]:
        """The fields, which are null for the null of the union."""
        read = self.union.read(cursor, rows)
        assert read is not None
        return list(read.flatten())


ColumnsReader = RecordReader | OptionalRecordReader
"""Reads whole payloads."""


def _report(cursor: Cursor, rows: Int64s, bad: Int64s, cause: str) -> None:
    if len(bad):
        cursor.fail(rows[bad], cause)


def _converted(values: pa.Array, convert: Conversion | None, cursor: Cursor, rows: Int64s, place: str) -> pa.Array:
    if convert is None:
        return values
    column, errors = convert(values)
    if errors:
        bad = np.fromiter(errors, np.int64)
        causes = list(errors.values())
        cursor.fail(rows[bad], lambda number: f"{place}: {causes[number]}")
    return column
