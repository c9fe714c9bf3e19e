"""Avro's schemas: from their JSON, and for declared columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ..records.types import TIMESTAMP, ddl

NO_DEFAULT = object()
"""In place of the default of a field that has none."""

ZONED = "text-with-zone"
"""In place of a logical type: a time as a text with its zone, as Debezium writes it."""

_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_FULL_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


class AvroSchemaError(Exception):
    """A text is no Avro schema, or columns have none."""


@dataclass(frozen=True, eq=False)
class AvroType:
    """A type of a schema. `name`: `null` to `string`, `array`, `map`, `union`, or `fixed`, `enum` and `record`.

    - `full_name`: with the namespace, of a `fixed`, `enum` or `record`.
    - `logical`: the logical type; `precision` and `scale` of a decimal.
    - `items`: the types of a union, or the one type of an array's items or of a map's values.
    - `fields`: of a record, which may contain itself.
    - `symbols`: of an enum. `size`: of a fixed.
    """

    name: str
    full_name: str = ""
    logical: str = ""
    precision: int = 0
    scale: int = 0
    items: tuple[AvroType, ...] = ()
    fields: list[AvroField] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    size: int = 0

    def __str__(self) -> str:
        """For messages: `long (timestamp-millis)`, `union of null and string`, `record shop.Order`."""
        if self.name == "union":
            return f"union of {' and '.join(map(str, self.items))}"
        text = f"{self.name} {self.full_name}" if self.full_name else self.name
        if self.logical == "decimal":
            return f"{text} (decimal({self.precision},{self.scale}))"
        return f"{text} ({self.logical})" if self.logical else text


@dataclass(frozen=True, eq=False)
class AvroField:
    """A field of a record. `aliases`: its former names. `default`: in JSON, or NO_DEFAULT."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    default: Any = NO_DEFAULT


def parse_schema(text: str, imported: Iterable[str] = ()) -> AvroType:
    """The type of a schema. `imported`: the texts of schemas whose names it uses. Raises AvroSchemaError."""
    names: dict[str, AvroType] = {}
    try:
        for each in imported:
            _Parser(names).type(json.loads(each), "")
        return _Parser(names).type(json.loads(text), "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise AvroSchemaError(f"it is no Avro schema: {error!r}") from None


class _Parser:
    def __init__(self, names: dict[str, AvroType]) -> None:
        self._names = names

    def type(self, written: Any, space: str) -> AvroType:
        """The type as it is written in a namespace."""
        if isinstance(written, list):
            return AvroType("union", items=tuple(self.type(each, space) for each in written))
        if isinstance(written, str):
            return AvroType(written) if written in _PRIMITIVES else self._named(written, space)
        kind = written["type"]
        if not isinstance(kind, str):
            return self.type(kind, space)  # {"type": {"type": "string"}}
        match kind:
            case "array" | "map":
                return AvroType(kind, items=(self.type(written["items" if kind == "array" else "values"], space),))
            case "record" | "error" | "enum" | "fixed":
                return self._define(written, "record" if kind == "error" else kind, space)
        if kind not in _PRIMITIVES:
            return self._named(kind, space)
        logical, precision, scale = _logical(written, kind, None)
        return AvroType(kind, logical=logical, precision=precision, scale=scale)

    def _named(self, name: str, space: str) -> AvroType:
        full = name if "." in name or not space else f"{space}.{name}"
        found = self._names.get(full) or self._names.get(name)
        if found is None:
            raise AvroSchemaError(f"it names a type {name}, which it does not define")
        return found

    def _define(self, written: Mapping[str, Any], kind: str, space: str) -> AvroType:
        space, _, name = (
            written["name"].rpartition(".")
            if "." in written["name"]
            else (written.get("namespace", space), "", written["name"])
        )
        full = f"{space}.{name}" if space else name
        if kind == "fixed":
            logical, precision, scale = _logical(written, kind, int(written["size"]))
            made = AvroType(kind, full, logical, precision, scale, size=int(written["size"]))
        else:
            made = AvroType(kind, full, symbols=tuple(map(str, written["symbols"])) if kind == "enum" else ())
        self._names[full] = made
        for alias in written.get("aliases", ()):
            self._names.setdefault(alias if "." in alias or not space else f"{space}.{alias}", made)
        for each in written["fields"] if kind == "record" else ():
            aliases = tuple(each.get("aliases", ()))
            default = each.get("default", NO_DEFAULT)
            made.fields.append(AvroField(each["name"], self.type(each["type"], space), aliases, default))
        return made


_LOGICAL: Mapping[str, frozenset[str]] = {
    "int": frozenset({"date", "time-millis"}),
    "long": frozenset(
        {
            "time-micros",
            *(f"{local}timestamp-{unit}" for local in ("", "local-") for unit in ("millis", "micros", "nanos")),
        }
    ),
    "bytes": frozenset({"decimal"}),
    "string": frozenset({"uuid", ZONED}),
    "fixed": frozenset({"decimal", "uuid"}),
}
"""The logical types that are known, by the types that they are written as. Others are ignored, as Avro says."""


_CONNECT = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.Timestamp": "timestamp-millis",
    "io.debezium.time.MicroTimestamp": "timestamp-micros",
    "io.debezium.time.NanoTimestamp": "timestamp-nanos",
    "io.debezium.time.ZonedTimestamp": ZONED,
}
"""Names of types of Kafka Connect that have no logical type -> what they are."""


def _logical(written: Mapping[str, Any], kind: str, size: int | None) -> tuple[str, int, int]:
    """(Logical type, precision, scale). Empty for an unknown or invalid one, which is the type without it.

    The precision may be greater than that of any column: Kafka Connect writes 64 where it does not know it.
    """
    logical = written.get("logicalType", _CONNECT.get(written.get("connect.name", "")))
    if not isinstance(logical, str) or logical not in _LOGICAL.get(kind, ()):
        return "", 0, 0
    if logical == "uuid" and size not in (None, 16):
        return "", 0, 0
    if logical != "decimal":
        return logical, 0, 0
    precision, scale = written.get("precision"), written.get("scale", 0)
    if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= min(precision, 38) and precision:
        return logical, precision, scale
    return "", 0, 0


def natural_type(avro: AvroType, above: tuple[AvroType, ...] = ()) -> pa.DataType | None:
    """The type of columns that holds exactly what an Avro type holds; None if no single type does.

    `above`: the records around it, which it may contain again.
    """
    match avro.logical, avro.name:
        case "date", _:
            return pa.date32()
        case (("timestamp-millis" | "timestamp-micros" | "timestamp-nanos"), _):
            return TIMESTAMP
        case (("local-timestamp-millis" | "local-timestamp-micros" | "local-timestamp-nanos"), _):
            return pa.timestamp("us")
        case "decimal", _:
            return pa.decimal128(min(avro.precision, 38), avro.scale)
        case "uuid", _:
            return pa.string()
    return plain_type(avro, above)


def plain_type(avro: AvroType, above: tuple[AvroType, ...] = ()) -> pa.DataType | None:
    """`natural_type` without regard to the logical type."""
    match avro.name:
        case "array" | "map" | "union":
            items = [natural_type(item, above) for item in avro.items if item.name != "null"]
            if len(items) != 1 or items[0] is None:
                return None
            if avro.name == "union":
                return items[0]
            return pa.map_(pa.string(), items[0]) if avro.name == "map" else pa.list_(pa.field("element", items[0]))
        case "record":
            if avro in above:
                return None
            fields = [(each.name, natural_type(each.type, (*above, avro))) for each in avro.fields]
            return None if any(kind is None for _, kind in fields) else pa.struct(fields)
    return _PLAIN[avro.name]


_PLAIN: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}


# Schemas of columns.

_WRITTEN: Mapping[pa.DataType, Any] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    TIMESTAMP: {"type": "long", "logicalType": "timestamp-micros"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
}


def schema_text(columns: Mapping[str, pa.DataType], record: str) -> str:
    """The schema of columns: a record with a nullable field for each. `record`: its full name.

    Raises AvroSchemaError for a column that Avro cannot hold.
    """
    space, _, name = record.rpartition(".")
    named = {"type": "record", "name": name, **({"namespace": space} if space else {})}
    return json.dumps(named | {"fields": _fields(list(columns.items()), name)}, ensure_ascii=False)


def _fields(columns: Sequence[tuple[str, pa.DataType]], record: str) -> list[dict[str, Any]]:
    fields = []
    for name, kind in columns:
        if not is_name(name):
            raise AvroSchemaError(f"a field of Avro cannot be called {name}: letters, digits and _ only")
        fields.append({"name": name, "type": _nullable(kind, f"{record}_{name}"), "default": None})
    return fields


def _nullable(kind: pa.DataType, record: str) -> list[Any]:
    return ["null", _written(kind, record)]


def _written(kind: pa.DataType, record: str) -> Any:
    """A type in JSON. `record`: the name of the record that it would be."""
    if pa.types.is_decimal128(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _nullable(kind.value_type, record)}
    if pa.types.is_map(kind):
        if not pa.types.is_string(kind.key_type):
            raise AvroSchemaError(f"maps of Avro have texts as keys, and these have {ddl(kind.key_type)}")
        return {"type": "map", "values": _nullable(kind.item_type, record)}
    if pa.types.is_struct(kind):
        return {"type": "record", "name": record, "fields": _fields([(each.name, each.type) for each in kind], record)}
    if kind not in _WRITTEN:
        raise AvroSchemaError(f"Avro has no {ddl(kind)}")
    return _WRITTEN[kind]


def is_name(text: str) -> bool:
    """Whether a field can have this name."""
    return "." not in text and is_full_name(text)


def is_full_name(text: str) -> bool:
    """Whether a record can have this name with its namespace."""
    return _FULL_NAME.fullmatch(text) is not None
