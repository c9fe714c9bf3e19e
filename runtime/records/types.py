"""Types of columns, as Spark SQL DDL and as Arrow types, and kinds of records."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from enum import IntEnum
from functools import lru_cache
from typing import NoReturn

import pyarrow as pa

from ...errors import HeadwaterError
from .names import quote

# Only this module converts between Spark SQL column lists and Arrow types. Column lists are DDL text
# (`"carrier string, delay double"`), as in generated code. The Arrow types are those that Spark itself uses for the SQL
# types, so that nothing is cast between Python and the JVM.

TIMESTAMP = pa.timestamp("us", "UTC")
"""The Arrow type of a Spark SQL `timestamp`."""

_SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
_ALIASES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "timestamp_ltz": "timestamp",
    "dec": "decimal",
    "numeric": "decimal",
}
_NAMES = {arrow: name for name, arrow in _SIMPLE.items()}
_MAX_PRECISION = 38
_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s`<>(),:]+)|([<>(),:]))")


class TypeSyntaxError(HeadwaterError):
    """A type or column list that Spark SQL does not accept, or that a log cannot store. `position`: from 0."""

    def __init__(self, text: str, position: int, reason: str) -> None:
        super().__init__(f"cannot read {text!r} as Spark SQL columns or type: {reason} at character {position + 1}")
        self.position = position
        self.reason = reason


# Cached, also below: every task parses the same few texts in every epoch.
@lru_cache(maxsize=1024)
def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of a Spark SQL type (`array<int>`, `decimal(10,2)`). Raises TypeSyntaxError."""
    parser = _Parser(text)
    result = parser.type()
    parser.end()
    return result


def parse_columns(text: str) -> dict[str, pa.DataType]:
    """The columns of a DDL list by name, in order; empty for an empty text. Raises TypeSyntaxError."""
    return dict(_parsed(text))


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Mapping[str, pa.DataType]:
    parser = _Parser(text)
    if parser.done:
        return {}
    fields = parser.fields(end=None)
    parser.end()
    return {field.name: field.type for field in fields}


def split_columns(text: str) -> list[tuple[str, str]]:
    """The columns of a DDL list as pairs of name and canonical type. Raises TypeSyntaxError."""
    return [(name, ddl(column)) for name, column in parse_columns(text).items()]


def ddl(data_type: pa.DataType) -> str:
    """The canonical Spark SQL type of an Arrow type: the inverse of `arrow_type`.

    Raises TypeError for an Arrow type without a Spark SQL type.
    """
    if data_type in _NAMES:
        return _NAMES[data_type]
    if pa.types.is_decimal128(data_type):
        return f"decimal({data_type.precision},{data_type.scale})"
    if pa.types.is_list(data_type):
        return f"array<{ddl(data_type.value_type)}>"
    if pa.types.is_map(data_type):
        return f"map<{ddl(data_type.key_type)},{ddl(data_type.item_type)}>"
    if pa.types.is_struct(data_type):
        return f"struct<{','.join(f'{quote(field.name)}:{ddl(field.type)}' for field in data_type)}>"
    raise TypeError(f"Arrow type {data_type} has no Spark SQL type")


def columns_ddl(columns: dict[str, pa.DataType]) -> str:
    """The DDL list of columns: the inverse of `parse_columns`."""
    return ", ".join(f"{quote(name)} {ddl(data_type)}" for name, data_type in columns.items())


def column_names(
    own: Collection[str], key: Collection[str], value: Collection[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The names of key and value columns in a table that also has Headwater's columns `own`.

    Of equal names, Headwater's column has precedence, then the value column. The other column is called `key.<name>` or
    `value.<name>`, as in `append`. As in Spark, names are not case-sensitive.
    """
    taken = {name.lower() for name in own}
    values = {name: f"value.{name}" if name.lower() in taken else name for name in value}
    taken |= {name.lower() for name in value}
    return {name: f"key.{name}" if name.lower() in taken else name for name in key}, values


class _Parser:
    """A recursive-descent parser. A token is a name or a punctuation mark."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def done(self) -> bool:
        return not self._text[self._at :].strip()

    def end(self) -> None:
        if not self.done:
            self._fail("unexpected text")

    def fields(self, end: str | None) -> list[pa.Field]:
        """`name type` or `name: type`, separated by commas, up to the token `end` (None: the end of the text)."""
        fields: dict[str, pa.Field] = {}
        while True:
            at = self._at
            name = self._word("a name")
            if name in fields:
                self._at = at
                self._fail(f"{name!r} is there twice")
            self._take(":")
            fields[name] = pa.field(name, self.type())
            if not self._take(","):
                break
        if end is not None:
            self._need(end)
        return list(fields.values())

    def type(self) -> pa.DataType:
        at = self._at
        word = self._word("a type").lower()
        name = _ALIASES.get(word, word)
        if name in _SIMPLE:
            return _SIMPLE[name]
        nested: dict[str, Callable[[], pa.DataType]] = {
            "array": self._array,
            "map": self._map,
            "struct": self._struct,
            "decimal": self._decimal,
            "varchar": self._sized_string,
            "char": self._sized_string,
        }
        if name not in nested:
            self._at = at
            self._fail(f"{word!r} is no type")
        return nested[name]()

    def _array(self) -> pa.DataType:
        self._need("<")
        element = self.type()
        self._need(">")
        return pa.list_(pa.field("element", element))

    def _map(self) -> pa.DataType:
        self._need("<")
        key = self.type()
        self._need(",")
        item = self.type()
        self._need(">")
        return pa.map_(key, item)

    def _struct(self) -> pa.DataType:
        self._need("<")
        return pa.struct([] if self._take(">") else self.fields(end=">"))

    def _decimal(self) -> pa.DataType:
        precision, scale = 10, 0
        at = self._at
        if self._take("("):
            precision = self._number()
            scale = self._number() if self._take(",") else 0
            self._need(")")
        if not 0 < precision <= _MAX_PRECISION or scale > precision:
            self._at = at
            self._fail(f"decimal({precision},{scale}) is out of range")
        return pa.decimal128(precision, scale)

    def _sized_string(self) -> pa.DataType:
        self._need("(")
        self._number()
        self._need(")")
        return pa.string()

    def _word(self, wanted: str) -> str:
        match = _TOKEN.match(self._text, self._at)
        if match is None or match[3] is not None:
            self._fail(f"expected {wanted}")
        self._at = match.end()
        return match[1].replace("``", "`") if match[1] is not None else match[2]

    def _number(self) -> int:
        at = self._at
        word = self._word("a number")
        if not word.isdigit():
            self._at = at
            self._fail("expected a number")
        return int(word)

    def _take(self, token: str) -> bool:
        match = _TOKEN.match(self._text, self._at)
        if match is None or match[3] != token:
            return False
        self._at = match.end()
        return True

    def _need(self, token: str) -> None:
        if not self._take(token):
            self._fail(f"expected {token!r}")

    def _fail(self, reason: str) -> NoReturn:
        raise TypeSyntaxError(self._text, self._at, reason)


class Kind(IntEnum):
    """The kind of a row.

    In SQL: `_kind > 0` has value columns, `_kind >= 0` is a record, `_kind < 0` passes every step unchanged.
    """

    FAILED = -2
    """A row that a step could not process. The next stage skips its record."""
    CONTROL = -1
    """The row after all rows of a task, with its results: see `pipe.send`."""
    TOMBSTONE = 0
    VALUE = 1
    OLD = 2
    OLD_SAME_GROUP = 3
    """A replaced row; its new row follows in the same group. Aggregates subtract it, and emit with the new row only."""
