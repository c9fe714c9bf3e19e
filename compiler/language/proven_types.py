"""Types of numbers, times and texts that are known without Spark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from ...errors import HeadwaterError
from ...runtime.records.cast_texts import never_casts
from ..types import canonical, fields

# What is known of a part of an expression.


class UnprovenTypeError(HeadwaterError):
    """Only Spark knows the type of an expression. `reason`: what of it, as a sentence without its full stop."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Term:
    """A part of an expression: its canonical type, `void` for null. `constant`: it reads no column. `text`: of a
    literal.
    """

    type: str
    constant: bool = False
    text: str | None = None


def unproven(reason: str) -> NoReturn:
    """Raise UnprovenTypeError."""
    raise UnprovenTypeError(reason)


# The types of numbers by Spark's ANSI rules. A decimal is its digits, and how many of them are behind the point.

WHOLE = ("tinyint", "smallint", "int", "bigint")
"""Each after those that it takes in."""

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_MOST, _LEAST_SCALE = 38, 6

Size = tuple[int, int]
"""All digits of a decimal, and those behind the point."""


def is_number(type_: str) -> bool:
    """Whether a canonical type is one of numbers."""
    return type_ in _DIGITS or type_ in ("float", "double") or type_.startswith("decimal(")


def is_decimal(type_: str) -> bool:
    """Whether a canonical type is one of decimals."""
    return type_.startswith("decimal(")


def size(type_: str) -> Size:
    """The digits of a decimal, or of the decimal that whole numbers of a type become."""
    found = _DECIMAL.fullmatch(type_)
    return (int(found[1]), int(found[2])) if found else (_DIGITS[type_], 0)


def decimal(digits: int, scale: int) -> str:
    """The type with these digits, cut at the 38 that there are."""
    return f"decimal({min(digits, _MOST)},{min(scale, _MOST)})"


def widest(types: Sequence[str]) -> str:
    """The type that numbers get beside one another. Raises UnprovenTypeError where digits would be lost."""
    found = types[0]
    for other in types[1:]:
        found = _wider(found, other)
    return found


def _wider(one: str, other: str) -> str:
    if one == other:
        return one
    if one in WHOLE and other in WHOLE:
        return max(one, other, key=WHOLE.index)
    if not (is_decimal(one) or is_decimal(other)) or {one, other} & {"float", "double"}:
        return "double"
    (first, first_scale), (second, second_scale) = size(one), size(other)
    scale = max(first_scale, second_scale)
    digits = max(first - first_scale, second - second_scale) + scale
    if digits > _MOST:
        unproven("a decimal with more digits than there are is only known to Spark")
    return decimal(digits, scale)


def calculated(word: str, left: Term, right: Term) -> str:
    """The type of `left word right`: of +, -, *, /, % or div."""
    types = (left.type, right.type)
    if word == "div":
        if not all(each in WHOLE for each in types):
            unproven("`div` of other than whole numbers is only known to Spark")
        return "bigint"
    if {*types} & {"float", "double"}:
        return "double" if word == "/" else widest(types)
    if any(map(is_decimal, types)):
        return _of_decimals(word, _size_beside(left), _size_beside(right))
    return "double" if word == "/" else widest(types)


def _size_beside(term: Term) -> Size:
    """The digits of an operand beside a decimal: of a literal exactly those that are written."""
    if term.type in WHOLE and term.text is not None:
        return len(term.text.lstrip("0")) or 1, 0
    return size(term.type)


def _of_decimals(word: str, left: Size, right: Size) -> str:
    (first, first_scale), (second, second_scale) = left, right
    before, other_before = first - first_scale, second - second_scale
    scale = max(first_scale, second_scale)
    match word:
        case "*":
            scale, digits = first_scale + second_scale, first + second + 1
        case "/":
            scale = max(_LEAST_SCALE, first_scale + second + 1)
            digits = before + second_scale + scale
        case "%":
            digits = min(before, other_before) + scale
        case _:
            digits = max(before, other_before) + scale + 1
    if digits <= _MOST:
        return decimal(digits, scale)
    return decimal(_MOST, max(_MOST - (digits - scale), min(scale, _LEAST_SCALE)))


# Dates and timestamps that are written down as texts, in full.

TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})

_DATE = r"\d{4}-\d{2}-\d{2}"
_TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?"
_WRITTEN = {
    "date": re.compile(_DATE),
    "timestamp": re.compile(f"{_DATE}([ T]{_TIME}Z?)?"),
    "timestamp_ntz": re.compile(f"{_DATE}([ T]{_TIME})?"),
}


def is_written_out(text: str | None, type_: str) -> bool:
    """Whether a text is certainly a value of a type of times, of which Spark's clock gives no part."""
    if text is None or type_ not in _WRITTEN:
        return False
    return bool(_WRITTEN[type_].fullmatch(text)) and not never_casts(text, type_)


# The types of what is read of texts, whose columns are written down: `from_json(s, 'a int, b string')`.

_WORD = r"[A-Za-z_][A-Za-z0-9_]*"
_COLUMNS = re.compile(rf"\s*(?:struct\s*<.*>\s*|{_WORD}\s+{_WORD}\b.*)", re.IGNORECASE | re.DOTALL)
_PARTS = re.compile(rf"(?:{_WORD}|[0-9]+|[\s,:<>()])*")
_OTHER_WORDS = re.compile(r"\b(?:not|null|comment|collate|default|generated|char|varchar|map)\b", re.IGNORECASE)
_WHOLE_TEXT = "_corrupt_record"


def columns_type(text: str) -> str:
    """The type of structs of columns, which are a list or a struct. Raises UnprovenTypeError."""
    if not _COLUMNS.fullmatch(text) or not _PARTS.fullmatch(text) or _OTHER_WORDS.search(text):
        unproven(f"the type '{text}' is only known to Spark")
    whole = re.match(r"\s*struct\s*<", text, re.IGNORECASE)
    try:
        found = canonical(text if whole else f"struct<{text}>")
    except ValueError:
        unproven(f"the type '{text}' is only known to Spark")
    _refuse_alike(found)
    if _WHOLE_TEXT in found.lower() or (not whole and _has_colon(text)):
        unproven(f"the type '{text}' is only known to Spark")
    return found


def field_type(type_: str, name: str) -> str:
    """The type of a field of a struct. Raises UnprovenTypeError."""
    found = fields(type_).get(name) if type_.startswith("struct<") else None
    if found is None:
        unproven(f"the field `{name}` of {type_} is only known to Spark")
    _refuse_alike(type_)
    return found


def _refuse_alike(type_: str) -> None:
    """Refuse a struct of two fields of a name: upper and lower case do not differ."""
    inner = fields(type_)
    if len({name.casefold() for name in inner}) < len(inner):
        unproven(f"which of two fields of {type_} is meant is only known to Spark")
    for each in inner.values():
        while each.startswith("array<"):
            each = each[len("array<") : -1]
        _refuse_alike(each)


def _has_colon(text: str) -> bool:
    """Whether there is a colon outside of all structs."""
    depth = 0
    for char in text:
        depth += (char == "<") - (char == ">")
        if char == ":" and not depth:
            return True
    return False
