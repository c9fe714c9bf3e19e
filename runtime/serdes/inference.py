"""Guesses formats and columns from payloads, conservatively: what samples do not tell for sure is omitted, and told.

A payload is given with its place, such as `orders[0]@12`, so that each conflict names two places.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ..records.types import TIMESTAMP

Payload = tuple[str, bytes]
"""The place of a record, and the bytes of its key or value. Null keys and tombstones have none."""

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_UUID = re.compile(rb"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_COLUMN = re.compile(r"[^\s.`@][^.`]*")
_BIGGEST, _LARGEST = 1 << 63, 10**38

_PLAIN: Mapping[str, tuple[str, pa.DataType]] = {
    "boolean": ("a boolean", pa.bool_()),
    "bigint": ("a whole number", pa.int64()),
    "decimal": ("a large number", pa.decimal128(38, 0)),
    "double": ("a fraction", pa.float64()),
    "string": ("a text", pa.string()),
    "timestamp": ("a time", TIMESTAMP),
    "date": ("a date", pa.date32()),
}
"""Kinds of values in JSON, the words for them, and their types."""

_WORDS = {**{kind: word for kind, (word, _) in _PLAIN.items()}, "object": "an object", "list": "a list"}
_COLUMNS = {
    **dict.fromkeys(("string", "uuid"), pa.string()),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}
"""Formats of one column, and its type."""


@dataclass(frozen=True)
class Column:
    """A column. `type`: None for a field that becomes none, of which `note` says why. `note`: empty if all is clear."""

    name: str
    type: pa.DataType | None
    note: str = ""


@dataclass(frozen=True)
class Inferred:
    """The format of payloads with their columns. `why`: what told it. `certain`: whether other formats are unlikely.

    `options`: of the format.
    """

    format: str
    columns: tuple[Column, ...]
    why: str
    certain: bool = True
    options: Mapping[str, str] = field(default_factory=dict)


def inferred(payloads: Sequence[Payload], column: str, wanted: str | None = None) -> Inferred | None:
    """The format of some payloads, or their columns in a `wanted` format. None without payloads.

    `column`: the name of the column of formats that have just one.
    """
    if not payloads:
        return None
    objects = [(place, _object(payload)) for place, payload in payloads]
    if wanted == "json" or (wanted is None and all(value is not None for _, value in objects)):
        found = _Seen()
        for place, value in objects:
            if value is not None:
                found.see(value, place)
        bad = [place for place, value in objects if value is None]
        why = f"JSON objects, but for {', '.join(bad[:3])}" if bad else "JSON objects"
        return Inferred("json", tuple(found.columns()), why)
    if wanted is not None:
        kind = _COLUMNS.get(wanted)
        return Inferred(
            wanted, (Column(column, kind, "" if kind else "declare the columns of the schema"),), "as given"
        )
    plain, why, certain = _of_one_column([payload for _, payload in payloads])
    return Inferred(plain, (Column(column, _COLUMNS[plain]),), why, certain)


def _of_one_column(payloads: Sequence[bytes]) -> tuple[str, str, bool]:
    """(Format, what told it, whether it is certain) of payloads that are no JSON objects."""
    if all(_UUID.fullmatch(payload) for payload in payloads):
        return "uuid", "texts of UUIDs", True
    if all(map(_is_text, payloads)):
        return "string", "texts", True
    sizes = {len(payload) for payload in payloads}
    if sizes == {8}:
        return "bigint", "8 bytes each; a `double` has as many", False
    if sizes == {4}:
        return "int", "4 bytes each; a `float` has as many", False
    return "binary", "neither texts nor numbers of one size", False


def _is_text(payload: bytes) -> bool:
    try:
        return _CONTROL.search(payload.decode()) is None
    except UnicodeDecodeError:
        return False


def _object(payload: bytes) -> Mapping[str, Any] | None:
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@dataclass
class _Seen:
    """What was seen of one field: kinds of values, each with its first place."""

    kinds: dict[str, str] = field(default_factory=dict)
    fields: dict[str, _Seen] = field(default_factory=dict)
    items: _Seen | None = None

    def see(self, value: Any, place: str) -> None:
        """Note one value."""
        if value is None:
            return
        self.kinds.setdefault(_kind(value), place)
        if isinstance(value, dict):
            for name, part in value.items():
                self.fields.setdefault(name, _Seen()).see(part, place)
        elif isinstance(value, list):
            self.items = self.items or _Seen()
            for item in value:
                self.items.see(item, place)

    def columns(self) -> Iterable[Column]:
        """The fields of an object as columns."""
        taken: set[str] = set()
        for name, part in self.fields.items():
            type_, note = part.type()
            if not _COLUMN.fullmatch(name) or len(name) > 200:
                type_, note = None, "no column can have this name"
            elif name.casefold() in taken:
                type_, note = None, "another field has the same name in other letters"
            taken.add(name.casefold())
            yield Column(name, type_, note)

    def type(self) -> tuple[pa.DataType | None, str]:
        """The type of a column that holds all values, None if there is none; and what to say of it."""
        kinds = dict(self.kinds)
        if kinds.keys() == {"bigint", "double"}:
            del kinds["bigint"]
        if kinds.keys() == {"bigint", "decimal"}:
            del kinds["bigint"]
        if len(kinds) > 1 and kinds.keys() <= {"string", "timestamp", "date"}:
            kinds = {"string": ""}
        match list(kinds.items()):
            case []:
                return None, "always null"
            case [("object", _)]:
                return self._object_type()
            case [("list", _)]:
                assert self.items is not None
                item, note = self.items.type()
                return (None, f"its items: {note}") if item is None else (pa.list_(item), note)
            case [(kind, _)]:
                return _PLAIN[kind][1], ""
            case [(one, first), (other, second), *_]:
                return None, f"{_WORDS[one]} at {first}, {_WORDS[other]} at {second}"
        raise AssertionError(kinds)

    def _object_type(self) -> tuple[pa.DataType | None, str]:
        parts = list(self.columns())
        named = [pa.field(part.name, part.type) for part in parts if part.type is not None]
        left_out = "; ".join(f"without {_one_line(part.name)}: {part.note}" for part in parts if part.type is None)
        return (pa.struct(named), left_out) if named else (None, left_out or "an object without fields")


def _one_line(name: str) -> str:
    """A name for a comment, which ends with its line."""
    return name if name.isprintable() else json.dumps(name)


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "bigint" if -_BIGGEST <= value < _BIGGEST else "decimal" if abs(value) < _LARGEST else "double"
        case float():
            return "double"
        case str():
            return "timestamp" if _TIMESTAMP.fullmatch(value) else "date" if _DATE.fullmatch(value) else "string"
        case dict():
            return "object"
        case _:
            return "list"
