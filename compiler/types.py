"""Spark SQL's types as the language writes them, in one canonical spelling, so that two types compare as text."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAMES = {
    "boolean": "boolean",
    "tinyint": "tinyint",
    "byte": "tinyint",
    "smallint": "smallint",
    "short": "smallint",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "long": "bigint",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double"})
"""The numeric types without parameters: all but decimals."""

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|([A-Za-z_][A-Za-z0-9_]*)|([0-9]+)|([<>(),:]))")
_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def canonical(text: str) -> str:
    """The canonical spelling of a type. ValueError for what is not a type that columns can have."""
    reader = _Reader(text)
    name = reader.type()
    reader.end()
    return name


def quoted(name: str) -> str:
    """A column's name as SQL and DDL write it: with backticks where it needs them."""
    return name if _SIMPLE.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def ddl(columns: Mapping[str, str]) -> str:
    """Columns and their types as Spark SQL DDL."""
    return ", ".join(f"{quoted(name)} {type_}" for name, type_ in columns.items())


def holds_map(type_: str) -> bool:
    """Whether a canonical type is a map or has one inside. Maps have no order and no equality: they cannot be keys."""
    return "map<" in type_


class _Reader:
    """Reads one type by recursive descent."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        stripped = text.rstrip()
        while at < len(stripped):
            found = _TOKEN.match(stripped, at)
            if found is None:
                raise ValueError(f"'{text}' is not a type")
            self._tokens.append(found[0].strip())
            at = found.end()

    def type(self) -> str:
        word = self._take().lower()
        if word == "array":
            self._expect("<")
            inner = self.type()
            self._expect(">")
            return f"array<{inner}>"
        if word == "map":
            self._expect("<")
            key = self.type()
            self._expect(",")
            value = self.type()
            self._expect(">")
            return f"map<{key},{value}>"
        if word == "struct":
            return f"struct<{','.join(self._fields())}>"
        if word in ("decimal", "dec", "numeric"):
            return self._decimal()
        if word in _NAMES:
            return _NAMES[word]
        raise ValueError(f"'{self._text}' is not a type")

    def end(self) -> None:
        if self._tokens:
            raise ValueError(f"'{self._text}' is not a type")

    def _fields(self) -> list[str]:
        self._expect("<")
        fields = []
        while True:
            name = self._take()
            name = name[1:-1].replace("``", "`") if name.startswith("`") else name
            if self._tokens[:1] == [":"]:
                self._take()
            inner = self.type()
            if [word.lower() for word in self._tokens[:2]] == ["not", "null"]:
                del self._tokens[:2]
            fields.append(f"{quoted(name)}:{inner}")
            if self._tokens[:1] != [","]:
                break
            self._take()
        self._expect(">")
        return fields

    def _decimal(self) -> str:
        if self._tokens[:1] != ["("]:
            return "decimal(10,0)"
        self._take()
        precision, scale = self._take(), "0"
        if self._tokens[:1] == [","]:
            self._take()
            scale = self._take()
        self._expect(")")
        if not (precision.isdigit() and scale.isdigit() and 0 < int(precision) <= 38 and int(scale) <= int(precision)):
            raise ValueError(f"'{self._text}' is not a type: a decimal has at most 38 digits")
        return f"decimal({int(precision)},{int(scale)})"

    def _take(self) -> str:
        if not self._tokens:
            raise ValueError(f"'{self._text}' is not a type")
        return self._tokens.pop(0)

    def _expect(self, mark: str) -> None:
        if self._take() != mark:
            raise ValueError(f"'{self._text}' is not a type")
