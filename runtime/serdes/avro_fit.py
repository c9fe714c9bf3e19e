"""Which columns an Avro schema can hold, and the writers for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa

from ..records.schema import readable
from ..records.types import ddl
from .avro_defaults import default_bytes, number_bytes
from .avro_resolve import AvroMismatchError
from .avro_schema import NO_DEFAULT, AvroField, AvroSchemaError, AvroType, natural_type, plain_type
from .avro_write import (
    AvroWriter,
    ConstantWriter,
    ItemsWriter,
    RecordWriter,
    UnionWriter,
    ValueWriter,
    decimals,
    fixed,
    numbers,
    sized,
    symbols,
    times,
    uuids,
    words,
)


def columns_writer(avro: AvroType, columns: Mapping[str, pa.DataType]) -> AvroWriter:
    """The writer of all columns, as structs. A schema of another type than a record is that of the only column.

    Raises AvroMismatchError.
    """
    if avro.name == "record" or (avro.name == "union" and any(item.name == "record" for item in avro.items)):
        return writer_of(avro, pa.struct(list(columns.items())), "")
    if len(columns) != 1:
        raise AvroMismatchError(f"the schema is one {avro}, and the columns are {', '.join(columns) or 'none'}")
    ((name, kind),) = columns.items()
    return RecordWriter([(name, 0, writer_of(avro, kind, name))])


def writer_of(avro: AvroType, kind: pa.DataType, place: str) -> AvroWriter:
    """The writer of a column, or a part of one. Raises AvroMismatchError. `place`: for errors."""
    match avro.name:
        case "union":
            return _union(avro, kind, place)
        case "array" if pa.types.is_list(kind):
            return ItemsWriter(writer_of(avro.items[0], kind.value_type, f"{place}[]"))
        case "map" if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
            item = writer_of(avro.items[0], kind.item_type, f"{place}[]")
            return ItemsWriter(item, writer_of(AvroType("string"), pa.string(), place))
        case "record" if pa.types.is_struct(kind):
            return _record(avro, kind, place)
        case "array" | "map" | "record" | "null":
            raise _mismatch(avro, kind, place)
    natural, plain = natural_type(avro), plain_type(avro)
    if natural is not None and readable(kind, natural):
        return ValueWriter(natural, _encoding(avro))
    if avro.logical and plain is not None and readable(kind, plain):
        return ValueWriter(plain, _encoding(AvroType(avro.name, size=avro.size)))
    raise _mismatch(avro, kind, place)


def _mismatch(avro: AvroType, kind: pa.DataType, place: str) -> AvroMismatchError:
    return AvroMismatchError(f"column {place} is {ddl(kind)}, and the schema has {avro} for it")


def _encoding(avro: AvroType) -> Callable[[pa.Array], pa.BinaryArray]:
    match avro.logical, avro.name:
        case "decimal", _:
            return partial(decimals, size=avro.size if avro.name == "fixed" else None)
        case "uuid", "fixed":
            return uuids
        case "date", _:
            return _days
        case logical, _ if "timestamp" in logical:
            return partial(times, unit=logical.rpartition("-")[2])
        case _, "boolean" | "float" | "double":
            return partial(words, dtype={"boolean": "u1", "float": "<f4", "double": "<f8"}[avro.name])
        case _, "int" | "long":
            return numbers
        case _, "enum":
            return partial(symbols, known=avro.symbols)
        case _, "fixed":
            return partial(fixed, size=avro.size)
    return sized


def _days(column: pa.Array) -> pa.BinaryArray:
    return numbers(column.cast(pa.int32()))


def _union(avro: AvroType, kind: pa.DataType, place: str) -> AvroWriter:
    """The writer of the branch that has exactly the column's type, else of the first one that holds its values.

    So the branch follows from the type, and not from the value: a bigint never becomes a double of the same union.
    """
    null = next((number_bytes(number) for number, item in enumerate(avro.items) if item.name == "null"), None)
    others = [(number, item) for number, item in enumerate(avro.items) if item.name != "null"]
    for number, item in sorted(others, key=lambda other: natural_type(other[1]) != kind):
        try:
            return UnionWriter(writer_of(item, kind, place), number_bytes(number), null)
        except AvroMismatchError:
            if len(others) == 1:
                raise
    raise _mismatch(avro, kind, place)


def _record(avro: AvroType, kind: pa.StructType, place: str) -> AvroWriter:
    numbers_of = {each.name: number for number, each in enumerate(kind)}
    fields: list[tuple[str, int, AvroWriter]] = []
    used = set[str]()
    for each in avro.fields:
        name = next((name for name in (each.name, *each.aliases) if name in numbers_of), None)
        if name is None:
            fields.append((each.name, 0, ConstantWriter(_default(each, place))))
            continue
        used.add(name)
        below = f"{place}.{name}" if place else name
        fields.append((name, numbers_of[name], writer_of(each.type, kind.field(name).type, below)))
    for name in numbers_of:
        if name not in used:
            raise AvroMismatchError(f"the schema's {avro} has no field for column {f'{place}.' if place else ''}{name}")
    return RecordWriter(fields)


def _default(field: AvroField, place: str) -> bytes:
    try:
        if field.default is not NO_DEFAULT:
            return default_bytes(field.type, field.default)
    except AvroSchemaError as error:
        raise AvroMismatchError(f"the default of field {field.name} cannot be used: {error}") from None
    where = f"{place}.{field.name}" if place else field.name
    raise AvroMismatchError(f"the schema's field {where} has no default, and there is no column for it")
