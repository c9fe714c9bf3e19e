"""Types of Spark SQL in a canonical spelling, so that equal types are equal strings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from sqlglot import exp, parse_one
from sqlglot.dialects import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token, TokenType

from ...suggestions import did_you_mean
from ..records.names import quote

_NAMES = {
    exp.DataType.Type.BOOLEAN: "boolean",
    exp.DataType.Type.TINYINT: "tinyint",
    exp.DataType.Type.SMALLINT: "smallint",
    exp.DataType.Type.INT: "int",
    exp.DataType.Type.BIGINT: "bigint",
    exp.DataType.Type.FLOAT: "float",
    exp.DataType.Type.DOUBLE: "double",
    exp.DataType.Type.TEXT: "string",
    exp.DataType.Type.BINARY: "binary",
    exp.DataType.Type.DATE: "date",
    exp.DataType.Type.TIMESTAMPTZ: "timestamp",
    exp.DataType.Type.TIMESTAMPLTZ: "timestamp",
    exp.DataType.Type.TIMESTAMPNTZ: "timestamp_ntz",
}
_SIZED = frozenset({exp.DataType.Type.VARCHAR, exp.DataType.Type.CHAR})
_SPARKS = """
boolean tinyint byte smallint short int integer bigint long float real double string binary date timestamp
timestamp_ltz timestamp_ntz decimal dec numeric varchar char character array map struct not null
"""
_WORDS = frozenset(_SPARKS.split())
"""Spark's names of types. sqlglot also accepts names of other databases."""

_OF_OTHERS = {
    "text": "string",
    "str": "string",
    "varchar": "string",
    "char": "string",
    "character": "string",
    "nvarchar": "string",
    "uuid": "string",
    "json": "string",
    "jsonb": "string",
    "number": "double, or decimal(10,2) for amounts that must be exact",
    "list": "array<string>",
    "dict": "map<string,string>, or struct<name:string>",
    "object": "map<string,string>, or struct<name:string>",
    "bool": "boolean",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
    "datetime": "timestamp",
    "timestamptz": "timestamp",
    "bytes": "binary",
    "blob": "binary",
}
"""Names of types of other systems, and the types to write instead."""

_PARAMETERS = frozenset({"decimal", "dec", "numeric", "varchar", "char", "character"})
_MAX_DIGITS = 38
NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double"})
"""The numeric types without parameters: all but decimals."""


@lru_cache(maxsize=1000)  # the columns of a project have few different types
def canonical(text: str) -> str:
    """The canonical spelling of a type. Raises ValueError for other texts, and for types that columns cannot have."""
    try:
        tokens = Dialect.get_or_raise("spark").tokenize(text)
        tree = parse_one(text, into=exp.DataType, dialect="spark")
    except (ParseError, TokenError):
        raise ValueError(f"'{text}' is not a type") from None
    if not isinstance(tree, exp.DataType) or not _is_of_spark(tokens, tree):
        raise ValueError(f"'{text}' is not a type")
    return _spelled(tree, text)


def fields(type_: str) -> Mapping[str, str]:
    """The fields of a canonical struct with their canonical types; empty for other types."""
    tree = parse_one(type_, into=exp.DataType, dialect="spark")
    if not isinstance(tree, exp.DataType) or tree.this is not exp.DataType.Type.STRUCT:
        return {}
    return {field.name: _spelled(field.args["kind"], type_) for field in tree.expressions}


@lru_cache(maxsize=1000)
def inner_types(type_: str) -> tuple[str, ...]:
    """The type of the elements of a canonical array, or those of keys and values of a map."""
    tree = parse_one(type_, into=exp.DataType, dialect="spark")
    return tuple(_spelled(inner, type_) for inner in tree.expressions)


def advice(text: str) -> str:
    """A hint for a text that is not a type."""
    for word in re.findall(r"[a-z_][a-z0-9_]*(?![a-z0-9_]|\s*:)", text.lower()):
        if word in _OF_OTHERS:
            return f"Write {_OF_OTHERS[word]}."
        if word not in _WORDS and (hint := did_you_mean(word, _WORDS - _OF_OTHERS.keys())):
            return hint
    return "Write a type of Spark SQL, such as string or array<int>."


def of_others(word: str) -> str | None:
    """The type to write instead of a type of other systems, or of one with a length that Spark ignores; or None."""
    return _OF_OTHERS.get(word.lower())


def ddl(columns: Mapping[str, str]) -> str:
    """Columns and their types as Spark SQL DDL."""
    return ", ".join(f"{quote(name)} {type_}" for name, type_ in columns.items())


def holds_map(type_: str) -> bool:
    """Whether a canonical type is or contains a map. Maps have no order and no equality, so they cannot be keys."""
    return "map<" in type_


def _is_of_spark(tokens: Sequence[Token], tree: exp.DataType) -> bool:
    """Whether Spark would accept the type: it has no names of other databases, and no `(` or `[` instead of `<`."""
    words = Counter(
        token.text.lower()
        for token in tokens
        if token.token_type is not TokenType.IDENTIFIER and (token.text[:1].isalpha() or token.text[:1] == "_")
    )
    names = Counter(field.name.lower() for field in tree.find_all(exp.ColumnDef) if not field.this.args.get("quoted"))
    for token, following in pairwise(tokens):
        if following.token_type is TokenType.L_PAREN and token.text.lower() not in _PARAMETERS:
            return False
        if token.token_type is TokenType.COMMA and following.token_type is TokenType.GT:
            return False
    brackets = any(token.token_type is TokenType.L_BRACKET for token in tokens)
    return not brackets and (words - names).keys() <= _WORDS


def _spelled(node: exp.Expression | None, text: str) -> str:
    if isinstance(node, exp.DataType):
        inner = node.expressions
        match node.this, len(inner):
            case exp.DataType.Type.ARRAY, 1:
                return f"array<{_spelled(inner[0], text)}>"
            case exp.DataType.Type.MAP, 2:
                return f"map<{_spelled(inner[0], text)},{_spelled(inner[1], text)}>"
            case exp.DataType.Type.STRUCT, fields if fields:
                return f"struct<{','.join(_field(field, text) for field in inner)}>"
            case exp.DataType.Type.DECIMAL, _:
                return _decimal([parameter.name for parameter in inner], text)
            case type_, 0 if type_ in _NAMES:
                return _NAMES[type_]
            case type_, 1 if type_ in _SIZED:
                raise ValueError(f"'{text}' limits a string's length, which no step checks")
    raise ValueError(f"'{text}' is not a type")


def _field(field: exp.Expression, text: str) -> str:
    if not isinstance(field, exp.ColumnDef):
        raise ValueError(f"'{text}' is not a type")
    return f"{quote(field.name)}:{_spelled(field.args.get('kind'), text)}"


def _decimal(parameters: Sequence[str], text: str) -> str:
    if not all(parameter.isdigit() for parameter in parameters) or len(parameters) > 2:
        raise ValueError(f"'{text}' is not a type")
    precision, scale = (*map(int, parameters), *(10, 0)[len(parameters) :])
    if not 0 < precision <= _MAX_DIGITS or scale > precision:
        raise ValueError(f"'{text}' is not a type: a decimal has at most 38 digits")
    return f"decimal({precision},{scale})"
