"""The text of a Protobuf schema for columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

import pyarrow as pa
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import DescriptorProto

from ...records.types import TIMESTAMP
from ..serde import Role

_IMPORTS = {
    "google.protobuf.Timestamp": "google/protobuf/timestamp.proto",
    "google.type.Date": "google/type/date.proto",
}

_INTERNAL = (19_000, 19_999)
"""The numbers that Protobuf keeps for itself."""

_TYPES: Mapping[pa.DataType, str] = {
    pa.bool_(): "bool",
    pa.int8(): "int32",
    pa.int16(): "int32",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): "google.type.Date",
    TIMESTAMP: "google.protobuf.Timestamp",
}
"""Types with a type of their own. Decimals and times without a zone are texts."""


def message_name(topic: str, role: Role) -> str:
    """The name of the message for the keys or values of a topic: `OpsOrdersValue` for those of `ops.orders`."""
    return _camel(f"{topic} {role}")


def _camel(text: str) -> str:
    name = "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", text))
    return name if name[:1].isalpha() else f"M{name}"


def proto_text(name: str, columns: Mapping[str, pa.DataType], before: Descriptor | None) -> str:
    """The .proto file of a message with a field for each column.

    `name`: of the message, with its package. `before`: the message of the version before. Its fields keep their
    numbers, and no new field gets one that it had.
    """
    package, _, own = name.rpartition(".")
    message = _Message(own, columns, before)
    body = list(message.lines(""))
    lines = ['syntax = "proto3";', *([f"package {package};"] if package else [])]
    lines += [f'import "{_IMPORTS[used]}";' for used in sorted(message.used & _IMPORTS.keys())]
    return "\n".join([*lines, *body, ""])


@dataclass(frozen=True)
class _Message:
    """`used`: the types of its fields, those of messages in it too, once `lines` is through."""

    name: str
    columns: Mapping[str, pa.DataType]
    before: Descriptor | None
    used: set[str] = field(default_factory=set)

    def lines(self, indent: str) -> Iterator[str]:
        """The lines of the message."""
        yield f"{indent}message {self.name} {{"
        old = {} if self.before is None else {each.name: each.number for each in self.before.fields}
        gone = _reserved(self.before) + [(number, number) for name, number in old.items() if name not in self.columns]
        if gone:
            yield f"{indent}  reserved {', '.join(f'{start} to {end}' for start, end in sorted(gone))};"
        taken = [*gone, *((number, number) for number in old.values()), _INTERNAL]
        free = (number for number in count(1) if not any(start <= number <= end for start, end in taken))
        for name, kind in self.columns.items():
            nested = _camel(name) + ("_" if _camel(name) in self.columns else "")
            inner = kind
            while pa.types.is_list(inner) or pa.types.is_map(inner):
                inner = inner.value_type if pa.types.is_list(inner) else inner.item_type
            if pa.types.is_struct(inner):
                yield from self._nested(nested, name, inner).lines(f"{indent}  ")
            number = old[name] if name in old else next(free)
            yield f"{indent}  {self._type(kind, nested)} {name} = {number};"
        yield f"{indent}}}"

    def _nested(self, nested: str, name: str, kind: pa.StructType) -> _Message:
        before = None if self.before is None else self.before.fields_by_name.get(name)
        message = None if before is None else before.message_type
        if message is not None and message.GetOptions().map_entry:
            message = message.fields_by_name["value"].message_type
        return _Message(nested, {each.name: each.type for each in kind}, message, self.used)

    def _type(self, kind: pa.DataType, nested: str) -> str:
        if pa.types.is_map(kind):
            return f"map<{self._value(kind.key_type, nested)}, {self._value(kind.item_type, nested)}>"
        if pa.types.is_list(kind):
            return f"repeated {self._value(kind.value_type, nested)}"
        return f"optional {self._value(kind, nested)}"

    def _value(self, kind: pa.DataType, nested: str) -> str:
        name = nested if pa.types.is_struct(kind) else _TYPES.get(kind, "string")
        self.used.add(name)
        return name


def _reserved(message: Descriptor | None) -> list[tuple[int, int]]:
    """First and last number of each range that a message has reserved."""
    proto = DescriptorProto()
    if message is not None:
        message.CopyToProto(proto)
    return [(reserved.start, reserved.end - 1) for reserved in proto.reserved_range]
