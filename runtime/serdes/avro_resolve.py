"""What of an Avro schema becomes which column: fields by name, former names, defaults, and wider types."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ..records.types import ddl
from .avro_conversions import conversion
from .avro_cursor import PADDING, Cursor
from .avro_defaults import default_bytes
from .avro_read import (
    AvroReader,
    BytesReader,
    ColumnsReader,
    EnumReader,
    ItemsReader,
    NullReader,
    NumberReader,
    OptionalRecordReader,
    RecordReader,
    UnionReader,
)
from .avro_schema import NO_DEFAULT, AvroField, AvroSchemaError, AvroType


class AvroMismatchError(Exception):
    """A type cannot be read as a column, or a column not be written as it."""


@dataclass
class Resolver:
    """Makes readers for columns. Raises AvroMismatchError.

    `lacking`: whether a field is not there, neither by its name nor by a former one, so that `latest` would matter: the
    schema that the subject has now. Its fields have the defaults and the former names that count.
    """

    lacking: bool = False
    _skipping: dict[int, RecordReader] = field(default_factory=dict)

    def columns(self, avro: AvroType, columns: Mapping[str, pa.DataType], latest: AvroType | None) -> ColumnsReader:
        """The reader of all columns. A schema of another type than a record is that of the only column."""
        if avro.name == "union" and any(item.name == "record" for item in avro.items):
            wanted = pa.struct(list(columns.items()))
            branches = [
                NullReader(wanted) if item.name == "null" else self._branch(item, wanted, latest) for item in avro.items
            ]
            return OptionalRecordReader(UnionReader(branches, "the value", wanted))
        if avro.name != "record":
            if len(columns) != 1:
                names = ", ".join(columns) or "none"
                raise AvroMismatchError(f"the schema is one {avro}, and the columns are {names}")
            ((name, wanted),) = columns.items()
            return RecordReader(None, [self.reader(avro, wanted, None, f"column {name}")], [0])
        return self._record(avro, pa.struct(list(columns.items())), _record_of(latest), "")

    def _branch(self, avro: AvroType, wanted: pa.StructType, latest: AvroType | None) -> AvroReader:
        """The reader of a branch of the payload's union."""
        if avro.name != "record":
            raise AvroMismatchError(f"a value is {_article(avro)}, which has no fields")
        return self._record(avro, wanted, _record_of(latest), "")

    def reader(self, avro: AvroType, wanted: pa.DataType | None, latest: AvroType | None, place: str) -> AvroReader:
        """The reader of a value. `wanted`: the type of its column, None if it has none. `place`: for errors."""
        match avro.name:
            case "null":
                return NullReader(wanted)
            case "union":
                branches = [self.reader(item, wanted, _record_of(latest), place) for item in avro.items]
                return UnionReader(branches, place, wanted)
            case "record" if wanted is None:
                return self._skipped(avro, place)
            case "record" if pa.types.is_struct(wanted):
                return self._record(avro, wanted, _record_of(latest), f"{place}.")
            case "array" if wanted is None or pa.types.is_list(wanted):
                below = wanted and wanted.value_type
                return ItemsReader(self.reader(avro.items[0], below, _item_of(latest), f"{place}[]"), place, wanted)
            case "map" if wanted is None or (pa.types.is_map(wanted) and pa.types.is_string(wanted.key_type)):
                item = self.reader(avro.items[0], wanted and wanted.item_type, _item_of(latest), f"{place}[]")
                key = self.reader(AvroType("string"), wanted and pa.string(), None, f"a key of {place}")
                return ItemsReader(item, place, wanted, key)
            case "array" | "map" | "record":
                raise AvroMismatchError(f"{place} is {_article(avro)}, which cannot be read as {ddl(wanted)}")
        return self._simple(avro, wanted, place)

    def _simple(self, avro: AvroType, wanted: pa.DataType | None, place: str) -> AvroReader:
        try:
            convert = None if wanted is None else conversion(avro, wanted)
        except TypeError:
            raise AvroMismatchError(f"{place} is {_article(avro)}, which cannot be read as {ddl(wanted)}") from None
        match avro.name:
            case "enum":
                return EnumReader(avro.symbols, place, wanted)
            case "bytes" | "string" | "fixed":
                return BytesReader(place, wanted, convert, avro.size if avro.name == "fixed" else None)
        return NumberReader(avro.name, place, wanted, convert)

    def _skipped(self, avro: AvroType, place: str) -> RecordReader:
        if id(avro) not in self._skipping:
            made = self._skipping[id(avro)] = RecordReader()
            made.readers.extend(self.reader(each.type, None, None, f"{place}.{each.name}") for each in avro.fields)
        return self._skipping[id(avro)]

    def _record(self, avro: AvroType, wanted: pa.StructType, latest: AvroType | None, place: str) -> RecordReader:
        latest = latest if latest is not None and latest.name == "record" else None
        taken = {kind.name: _written_as(kind.name, avro, latest, {each.name for each in wanted}) for kind in wanted}
        column_of = {each: name for name, each in taken.items() if each is not None}
        made = RecordReader(wanted)
        numbers = {each.name: number for number, each in enumerate(avro.fields)}
        for each in avro.fields:
            name = column_of.get(each.name)
            kind = None if name is None else wanted.field(name).type
            now = None if name is None or latest is None else _type_now(latest, name)
            below = f"{place or 'column '}{name or each.name}"
            made.readers.append(self.reader(each.type, kind, now, below))
        for kind in wanted:
            source = taken[kind.name]
            made.columns.append(self._default(kind, latest) if source is None else numbers[source])
        return made

    def _default(self, kind: pa.Field, latest: AvroType | None) -> pa.Scalar:
        """The value of a field that was not written: the default of the latest schema, or null."""
        self.lacking = True
        now = None if latest is None else _field(latest, kind.name)
        if now is None or now.default is NO_DEFAULT:
            return pa.scalar(None, kind.type)
        try:
            written = default_bytes(now.type, now.default)
        except AvroSchemaError as error:
            raise AvroMismatchError(f"the default of {now.name} cannot be used: {error}") from None
        cursor = Cursor(
            np.frombuffer(written + PADDING, np.uint8), np.zeros(1, np.int64), np.full(1, len(written), np.int64)
        )
        value = self.reader(now.type, kind.type, None, f"the default of {now.name}").read(cursor, np.zeros(1, np.int64))
        assert value is not None
        if cursor.errors:
            raise AvroMismatchError(cursor.errors[0])
        return value[0]


def _written_as(name: str, avro: AvroType, latest: AvroType | None, names: Collection[str]) -> str | None:
    """The field that has what a column of this name is to have: by its name, or by a former one in either schema.

    `names`: of all columns. A field with the name of another one is that one's.
    """
    written = {each.name for each in avro.fields}
    if name in written:
        return name
    free = written.difference(names)
    now = None if latest is None else _field(latest, name)
    former = () if now is None else (now.name, *now.aliases)
    return next((each for each in former if each in free), None) or next(
        (each.name for each in avro.fields if name in each.aliases and each.name in free), None
    )


def _type_now(latest: AvroType, name: str) -> AvroType | None:
    found = _field(latest, name)
    return None if found is None else found.type


def _field(avro: AvroType, name: str) -> AvroField | None:
    """The field of a record with this name, or formerly with it."""
    fields: Iterator[AvroField] = (each for each in avro.fields if each.name == name)
    former = (each for each in avro.fields if name in each.aliases)
    return next(fields, None) or next(former, None)


def _record_of(avro: AvroType | None) -> AvroType | None:
    """The only record of a union, or the type itself."""
    if avro is None or avro.name != "union":
        return avro
    others = [item for item in avro.items if item.name != "null"]
    return others[0] if len(others) == 1 else None


def _item_of(avro: AvroType | None) -> AvroType | None:
    return _record_of(avro.items[0]) if avro is not None and avro.name in ("array", "map") else None


def _article(avro: AvroType) -> str:
    return f"{'an' if avro.name[0] in 'aeiou' else 'a'} {avro}"
