"""`from_json`: JSON strings to Arrow structs, with Arrow's reader where it agrees with Spark, otherwise one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ...records.arrays import Bools, Int64s, check_overflow, to_numpy
from ..kernels import Batch, Value
from ..nodes import Node
from .tokens import MOST_LEVELS, Kind, LostError, PartlyError, Tokens, characters, double, written

# The slow path: typed values from the tokens of one string, as in Spark.
#
# A value that does not fit its type becomes null alone. Spark continues after it and returns the other values.

Convert = Callable[[Tokens], Any]
"""Converts the current value of the tokens to Python. Raises LostError or PartlyError."""

_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
_TEXTS_OF_DOUBLES = frozenset({"NaN", "+INF", "+Infinity", "Infinity", "-INF", "-Infinity"})
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_FAR = 2000
"""The magnitude of exponents beyond which a number is 0 in any decimal type, or does not fit into one."""


@dataclass(frozen=True)
class Struct:
    """Converts a JSON object to a struct, as a dict. `fields`: name -> conversion of its value."""

    fields: Mapping[str, Convert]

    def __call__(self, tokens: Tokens) -> dict[str, Any]:
        """See `Convert`."""
        if tokens.kind is not Kind.OBJECT:
            raise _lost(tokens)
        found: dict[str, Any] = dict.fromkeys(self.fields)
        partly = False
        while tokens.next() not in (None, Kind.OBJECT_END):
            name = tokens.name
            convert = None if name is None else self.fields.get(name)
            if name is None or convert is None:
                tokens.leave()
                continue
            try:
                found[name] = convert(tokens)
            except PartlyError as error:
                partly = True
                found[name] = error.value
            except LostError:
                partly = True
                tokens.leave()
        if partly:
            raise PartlyError(found)
        return found


def conversion(data_type: pa.DataType) -> Convert | None:
    """The conversion to a type; None if the type is not supported."""
    made = _made(data_type)
    return None if made is None else partial(_unless_null, made)


def struct(data_type: pa.StructType) -> Struct | None:
    """The conversion to a struct type; None if the type is not supported."""
    fields = {each.name: conversion(each.type) for each in data_type}
    known = {name: convert for name, convert in fields.items() if convert is not None}
    return Struct(known) if known and len(known) == data_type.num_fields else None


def _made(data_type: pa.DataType) -> Convert | None:
    if data_type in _BITS:
        return partial(_whole, bits=_BITS[data_type])
    if data_type == pa.float64():
        return _double
    if data_type == pa.string():
        return _text
    if data_type == pa.bool_():
        return _boolean
    if pa.types.is_decimal128(data_type):
        return partial(_decimal, precision=data_type.precision, scale=data_type.scale)
    if pa.types.is_struct(data_type):
        return struct(data_type)
    if pa.types.is_list(data_type):
        element = conversion(data_type.value_type)
        return None if element is None else partial(_array, element)
    return None


def _unless_null(convert: Convert, tokens: Tokens) -> Any:
    while tokens.kind is Kind.NAME:
        tokens.next()
    return None if tokens.kind is None or tokens.kind is Kind.NULL else convert(tokens)


def _array(element: Convert, tokens: Tokens) -> list[Any]:
    if tokens.kind is not Kind.ARRAY:
        raise _lost(tokens)
    found, partly = [], False
    while tokens.next() not in (None, Kind.ARRAY_END):
        try:
            found.append(element(tokens))
        except PartlyError as error:
            partly = True
            found.append(error.value)
    if partly:
        raise PartlyError(found)
    return found


def _whole(tokens: Tokens, bits: int) -> int:
    if tokens.kind is not Kind.WHOLE:
        raise _lost(tokens)
    number, edge = int(tokens.number), 1 << (bits - 1)
    if bits == 8 and edge <= number < 2 * edge:  # Spark's reader also accepts 128 to 255 for a byte
        return number - 2 * edge
    if not -edge <= number < edge:
        raise LostError
    return number


def _double(tokens: Tokens) -> float:
    if tokens.kind is Kind.WHOLE:
        return double(tokens.number) + 0.0  # turns -0.0 into 0.0
    if tokens.kind is Kind.FRACTION:
        return double(tokens.number)
    if tokens.kind is Kind.TEXT and tokens.text() in _TEXTS_OF_DOUBLES:
        return double(tokens.text())
    raise _lost(tokens)


def _text(tokens: Tokens) -> str:
    return characters(tokens.text()) if tokens.kind is Kind.TEXT else written(tokens)


def _boolean(tokens: Tokens) -> bool:
    if tokens.kind is Kind.TRUE or tokens.kind is Kind.FALSE:
        return tokens.kind is Kind.TRUE
    raise _lost(tokens)


def _decimal(tokens: Tokens, precision: int, scale: int) -> Decimal:
    if tokens.kind is Kind.TEXT:
        number = tokens.text().replace(",", "")
    elif tokens.kind is Kind.WHOLE or tokens.kind is Kind.FRACTION:
        number = tokens.number
    else:
        raise LostError
    if not _DECIMAL.fullmatch(number):
        raise LostError
    with localcontext(Context(prec=2 * _FAR)):
        value = Decimal(number)
        if value and value.adjusted() > precision:
            raise LostError
        rounded = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP) if value.adjusted() > -_FAR else Decimal(0)
        if rounded.adjusted() >= precision - scale and rounded:
            raise LostError
        return rounded


def _lost(tokens: Tokens) -> LostError:
    """The error for a value of the wrong kind. Like Spark, reads a string first, which may raise its own LostError."""
    if tokens.kind is Kind.TEXT:
        tokens.text()
    return LostError()


# The fast path, part 1: a regular expression that matches only strings with the same result in Arrow and in Spark.
#
# A match begins with `{` and ends with `}`. Between them are numbers, strings, `true`, `false`, `null`, braces,
# brackets, commas and colons. They are in an order that is valid locally, and in a spelling that both readers accept.
# A regular expression cannot check that brackets are balanced. Arrow does this when it parses all strings joined by
# newlines. An object that is not closed in its own string would continue with the `{` of the next string, directly
# after the final `}` of its own, which is an error. An object that is closed too early is followed by a character with
# which no object begins, which is an error too. So if Arrow accepts the joined strings, each is exactly one object.
#
# Wherever the name of a requested field occurs, its value must have the type of the field: Arrow rejects the whole
# input for one value of another type.

_SPACE = r"[ \t\n\r]*"
_NO_QUOTE = r"[^\"\\\x00-\x1f]"
_HEX = "[0-9a-fA-F]"
_ESCAPE = (
    rf"\\(?:[\"\\/bfnrt]|u(?:[0-9a-ce-fA-CE-F]{_HEX}{{3}}|[dD][0-7]{_HEX}{{2}}"
    rf"|[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}))"
)
_TEXT = rf"\"(?:{_NO_QUOTE}|{_ESCAPE})*\""
_FRACTION = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17}(?:[eE][+-]?[0-9]{1,2})?|[eE][+-]?[0-9]{1,2})"
_WHOLE = "(?:0|-?[1-9][0-9]{0,17})"
_SCALAR = f"(?:{_TEXT}|{_FRACTION}|{_WHOLE}|true|false|null)"
_TENTHS = "(?:[0-9]{0,7}[1-9])"
_SHORT_FRACTION = rf"-?(?:[1-9][0-9]{{0,6}}\.(?:0|{_TENTHS})|0\.(?:0|0{{0,2}}[1-9]{_TENTHS}?))"
"""Fractions whose text is also the one that Spark writes for the double."""

_WORD = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_DIGITS = {pa.int8(): 2, pa.int16(): 4, pa.int32(): 9, pa.int64(): 18}


# Cached, because every task needs the patterns of the same few types in every epoch.
@lru_cache(maxsize=256)
def pattern_of(data_type: pa.StructType) -> str:
    """A regular expression (RE2) for the strings that Arrow parses to the same structs as Spark.

    `data_type`: a struct type that `struct` supports. The regular expression is built from these parts:

        opened  zero or more names with `{` or `[`
        values  one scalar, or an empty object or array, with or without a name
        entry   opened* values, then zero or more `}` or `]`
        all     `{` entry, entry, ... `}`
    """
    fields = list(_fields(data_type))
    other = rf"\"{_other(each.name for each in fields)}\"{_SPACE}:{_SPACE}"
    opened = [rf"(?:{other})?[\[{{]{_SPACE}"]
    values = [rf"(?:{other})?(?:{_SCALAR}|\[{_SPACE}\]|{{{_SPACE}}})"]
    for each in fields:
        name = rf"\"{re.escape(each.name)}\"{_SPACE}:{_SPACE}"
        if not pa.types.is_nested(each.type):
            values.append(f"{name}(?:{_scalar(each.type)}|null)")
        else:
            begin, end = ("{", "}") if pa.types.is_struct(each.type) else (r"\[", r"\]")
            opened.append(f"{name}{begin}{_SPACE}")
            values.append(f"{name}(?:{begin}{_SPACE}{end}|null)")
    entry = rf"(?:{'|'.join(opened)})*(?:{'|'.join(values)}){_SPACE}(?:[\]}}]{_SPACE})*"
    return rf"\A{_SPACE}{{{_SPACE}(?:{entry}(?:,{_SPACE}{entry})*)?}}{_SPACE}\z"


@lru_cache(maxsize=256)
def unquoted_of(data_type: pa.StructType) -> str | None:
    """A regular expression (RE2) for numbers and booleans as values of string fields; None without string fields.

    Spark converts `7` in `{"s":7}` to the string "7". Arrow rejects it, but accepts `{"s":"7"}`. So `_completed` puts
    quotes around the second group, and tries the fast path again. A match may also begin with the closing quote of
    another string. This does no harm: a letter of the name follows that quote, so `pattern_of` does not match.
    """
    texts = {each.name for each in _fields(data_type) if each.type == pa.string() and _WORD.fullmatch(each.name)}
    if not texts:
        return None
    names = "|".join(sorted(texts))
    return rf"(\"(?:{names})\"{_SPACE}:{_SPACE})({_WHOLE}|{_SHORT_FRACTION}|true|false)([,\]}} \t\n\r])"


def _fields(data_type: pa.DataType) -> Iterator[pa.Field]:
    """All fields of a type, at any depth."""
    if pa.types.is_list(data_type):
        yield from _fields(data_type.value_type)
    elif pa.types.is_struct(data_type):
        for each in data_type:
            yield each
            yield from _fields(each.type)


def _scalar(data_type: pa.DataType) -> str:
    if data_type in _DIGITS:
        return f"0|-?[1-9][0-9]{{0,{_DIGITS[data_type] - 1}}}"
    if data_type == pa.float64():
        return f"{_FRACTION}|{_WHOLE}"
    if data_type == pa.bool_():
        return "true|false"
    if data_type == pa.string():
        return _TEXT
    before, behind = data_type.precision - data_type.scale, data_type.scale
    whole = f"(?:0|[1-9][0-9]{{0,{before - 1}}})" if before else "0"
    return rf"-?{whole}(?:\.[0-9]{{1,{behind}}})?" if behind else f"-?{whole}"


def _other(names: Iterable[str]) -> str:
    """A regular expression for the content of a JSON string that is none of `names`.

    RE2 has no lookahead, so the expression follows the names letter by letter. For the names "v" and "vs" it matches
    "", "x", "vt" and "vsx", but neither "v" nor "vs".
    """
    left = set(names)
    heads: dict[str, set[str]] = {}
    for each in left:
        if each:
            heads.setdefault(each[0], set()).add(each[1:])
    begins = "".join(map(re.escape, sorted(heads)))
    ways = [f"{re.escape(head)}{_other(tails)}" for head, tails in sorted(heads.items())]
    ways.append(rf"[^\"\\\x00-\x1f{begins}]{_NO_QUOTE}*")
    return f"(?:{'|'.join(ways)}){'' if '' in left else '?'}"


# The fast path, part 2: Arrow parses all matching strings in one call.

_PART_BYTES = 1 << 26
"""The number of bytes that Arrow parses at once. This limits the memory that it needs."""

_FEW = 16
"""A group of at most this many strings that Arrow rejects is left to the slow path."""

_MOST_REFUSED = 16
"""After this many such groups, every rejected group is left to the slow path: smaller ones would cost more calls."""


@dataclass(frozen=True)
class Plain:
    """The result of the fast path: one struct per string.

    `places`: the sorted rows that Arrow could not parse. The values in these rows are meaningless.
    """

    values: pa.Array
    places: Int64s


def matching(texts: pa.Array, pattern: str) -> Bools:
    """A mask of the strings that match a regular expression; False for a null."""
    return to_numpy(pc.fill_null(pc.match_substring_regex(texts, pattern=pattern), False))


def read_plain(texts: pa.Array, fits: Bools, data_type: pa.StructType) -> Plain:
    """Parse the strings of the mask `fits` with Arrow. Null strings count as parsed.

    The caller knows of each string of the mask that it begins with `{` and ends with `}`, apart from whitespace, and
    that Arrow reads it as wanted or rejects it. Example for the type struct<v: bigint, s: string>:

        row 0   {"v":1,"s":"x"}     parsed
        row 1   {"v":2,"s":7}       not parsed: 7 is no string
        row 2   null                parsed
        row 3   {'v':3}             not parsed: single quotes
        places  [1, 3]
    """
    fits = (fits | to_numpy(texts.is_null())) & ~_deep(texts)
    if not fits.all():
        texts = pc.if_else(pa.array(fits), texts, pa.scalar(None, texts.type))
    found: list[pa.Array] = []
    refused: list[Int64s] = [np.flatnonzero(~fits)]
    start = 0
    for rows in _parts(texts):
        _read(texts.slice(start, rows), start, data_type, found, refused)
        start += rows
    return Plain(pa.concat_arrays(found), np.unique(np.concatenate(refused)))


def _deep(texts: pa.Array) -> Bools:
    """A mask of strings that may be nested more deeply than Spark's reader allows."""
    long = to_numpy(pc.fill_null(pc.greater_equal(pc.binary_length(texts), MOST_LEVELS), False))
    if not long.any():
        return long
    places = np.flatnonzero(long)
    opened = pc.count_substring_regex(texts.take(pa.array(places)), pattern=r"[\[{]")
    long[places] = to_numpy(pc.greater_equal(opened, MOST_LEVELS // 2))
    return long


def _parts(texts: pa.Array) -> list[int]:
    """The numbers of strings to parse together, about `_PART_BYTES` in each part.

    A string belongs to the part in which its last byte is. With 8 bytes per part:

        lengths  [4, 4, 4, 2, null, 8]
        cumsum   [4, 8, 12, 14, 14, 22]
        // 8     [0, 1, 1, 1, 1, 2]
        result   [1, 4, 1]
    """
    if not len(texts):
        return [0]
    ends = np.cumsum(to_numpy(pc.fill_null(pc.binary_length(texts), 0)).astype(np.int64)) // _PART_BYTES
    return [int(rows) for rows in np.unique(ends, return_counts=True)[1]]


def _read(texts: pa.Array, start: int, data_type: pa.StructType, found: list[pa.Array], refused: list[Int64s]) -> None:
    """Parse strings, and halve the group if Arrow rejects it because of one string. `start`: the first row."""
    try:
        found.append(_together(texts, data_type))
    except pa.ArrowInvalid:
        if len(texts) <= _FEW or len(refused) > _MOST_REFUSED:
            found.append(pa.nulls(len(texts), data_type))
            refused.append(np.arange(start, start + len(texts)))
            return
        half = len(texts) // 2
        _read(texts.slice(0, half), start, data_type, found, refused)
        _read(texts.slice(half), start + half, data_type, found, refused)


def _together(texts: pa.Array, data_type: pa.StructType) -> pa.Array:
    """Parse strings that contain exactly one object each, joined by newlines. Raises ArrowInvalid."""
    if not len(texts):
        return pa.array([], data_type)
    # The empty string at the end makes the input end with a newline. Arrow would parse a last line without newline as
    # a separate block.
    lines = pa.concat_arrays([pc.fill_null(texts, "{}"), pa.array([""])])
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines), "\n")
    buffer = joined[0].as_buffer()
    table = pj.read_json(
        pa.BufferReader(buffer),
        read_options=pj.ReadOptions(use_threads=False, block_size=buffer.size + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema(list(data_type)), newlines_in_values=False, unexpected_field_behavior="ignore"
        ),
    )
    if len(table) != len(texts):
        raise pa.ArrowInvalid("texts are not one object each")
    columns = [each.combine_chunks().cast(field.type) for each, field in zip(table.columns, data_type, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=list(data_type))


# `from_json` of a column: the fast path first, then the slow path for the remaining rows.


def from_json(texts: pa.Array, data_type: pa.StructType) -> pa.Array:
    """Structs from JSON strings. Null where a string is null or blank. An invalid value is a null field.

    For the type struct<v: bigint, s: string>:

        {"v":1,"s":"x"}    {v: 1, s: "x"}        Arrow
        {"v":2,"s":7}      {v: 2, s: "7"}        Arrow, after quotes are put around 7
        null               null
        {'v':3}            {v: 3, s: null}       slow path
        {"v":"x","s":"y"}  {v: null, s: "y"}     slow path: "x" is no bigint
        (empty)            null
    """
    read = read_plain(texts, matching(texts, pattern_of(data_type)), data_type)
    values = _completed(read, texts, data_type)
    if texts.null_count:
        values = pc.if_else(texts.is_valid(), values, pa.scalar(None, data_type))
    return values


def _completed(read: Plain, texts: pa.Array, data_type: pa.StructType) -> pa.Array:
    """The values of the fast path, with the remaining rows parsed: first with quotes added, then one by one."""
    if not len(read.places):
        return read.values
    others = texts.take(pa.array(read.places))
    unquoted = unquoted_of(data_type)
    if unquoted is None:
        found = one_by_one(others, data_type)
    else:
        quoted = check_overflow(pc.replace_substring_regex(others, pattern=unquoted, replacement=r'\1"\2"\3'))
        again = read_plain(quoted, matching(quoted, pattern_of(data_type)), data_type)
        left = one_by_one(others.take(pa.array(again.places)), data_type)
        found = put(again.values, again.places, left)
    return put(read.values, read.places, found)


def one_by_one(texts: pa.Array, data_type: pa.StructType) -> pa.Array:
    """The slow path: structs from strings without null. Raises TypeError for a type that is not supported."""
    convert = struct(data_type)
    if convert is None:
        raise TypeError(f"no values of {data_type} are made of JSON")
    return pa.array([_one(text, convert) for text in texts.to_pylist()], data_type)


def _one(text: str, convert: Struct) -> dict[str, Any] | None:
    tokens = Tokens(text)
    try:
        return None if tokens.next() is None else convert(tokens)
    except PartlyError as error:
        value: dict[str, Any] = error.value
        return value
    except LostError:
        return dict.fromkeys(convert.fields)


def put(values: pa.Array, places: Int64s, others: pa.Array) -> pa.Array:
    """`values` with `others` in the rows `places`.

    Example:

        values  [10, 11, 12, 13]
        places  [1, 3]
        others  [91, 93]
        order   [0, 4, 2, 5]          positions in values + others
        result  [10, 91, 12, 93]
    """
    if not len(places):
        return values
    order = np.arange(len(values))
    order[places] = len(values) + np.arange(len(places))
    return pa.concat_arrays([values, others]).take(pa.array(order))


# The node of `from_json`.


@dataclass(frozen=True)
class FromJson(Node):
    """Structs from JSON strings. It never fails itself: invalid JSON gives a struct of nulls."""

    text: Node
    data_type: pa.StructType

    def of(self, batch: Batch) -> Value:
        """See `Node`."""
        text = self.text.of(batch)
        return Value(from_json(text.array(batch.rows), self.data_type), text.failed)

    def only(self, name: str) -> FromJson:
        """The same with one field only, as Spark's optimizer prunes the schema if no other field is used."""
        return FromJson(self.text, pa.struct([self.data_type.field(name)]))
