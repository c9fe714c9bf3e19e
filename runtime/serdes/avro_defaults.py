"""Defaults of fields, which a schema has in JSON, as Avro's bytes."""

from __future__ import annotations

import struct
from typing import Any

from .avro_schema import NO_DEFAULT, AvroSchemaError, AvroType


def default_bytes(avro: AvroType, value: Any) -> bytes:
    """The bytes of a default. Raises AvroSchemaError if it is no value of the type."""
    try:
        return _bytes(avro, value)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, struct.error) as error:
        raise AvroSchemaError(f"{value!r} is no {avro}") from error


def number_bytes(value: int) -> bytes:
    """A number of variable length."""
    word, written = (value << 1) ^ (value >> 63), bytearray()
    while word > 0x7F:
        written.append(word & 0x7F | 0x80)
        word >>= 7
    return bytes([*written, word])


def _bytes(avro: AvroType, value: Any) -> bytes:
    match avro.name:
        case "null" if value is None:
            return b""
        case "boolean" if isinstance(value, bool):
            return bytes([value])
        case "int" | "long" if type(value) is int and -(2**63) <= value < 2**63:
            return number_bytes(value)
        case "float" | "double":
            return struct.pack("<f" if avro.name == "float" else "<d", float(value))
        case "string":
            return _sized(value.encode())
        case "bytes":
            return _sized(value.encode("latin-1"))  # each character is a byte
        case "fixed":
            return bytes(value.encode("latin-1"))
        case "enum":
            return number_bytes(avro.symbols.index(value))
        case "array":
            return _items([_bytes(avro.items[0], each) for each in value])
        case "map":
            return _items([_sized(key.encode()) + _bytes(avro.items[0], each) for key, each in value.items()])
        case "record":
            return b"".join(_bytes(each.type, _of(value, each.name, each.default)) for each in avro.fields)
        case "union":
            return _of_union(avro, value)
    raise ValueError(value)


def _of(record: dict[str, Any], name: str, default: Any) -> Any:
    value = record.get(name, default)
    if value is NO_DEFAULT:
        raise KeyError(name)
    return value


def _of_union(avro: AvroType, value: Any) -> bytes:
    """Of the first branch that has the value. Before Avro 1.12 it had to be the first of all."""
    for number, branch in enumerate(avro.items):
        try:
            return number_bytes(number) + default_bytes(branch, value)
        except AvroSchemaError:
            continue
    raise ValueError(value)


def _sized(value: bytes) -> bytes:
    return number_bytes(len(value)) + value


def _items(items: list[bytes]) -> bytes:
    return number_bytes(len(items)) + b"".join(items) + b"\0" if items else b"\0"
