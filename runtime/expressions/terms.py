"""Type rules of numbers, times and structs: what the rules of operators and functions are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp

from ...errors import HeadwaterError
from ..records.cast_texts import never_casts
from .types import canonical, fields


class UntypedError(HeadwaterError):
    """Only Spark knows the type of an expression.

    `reason`: why, as a sentence without its full stop. `instead`: what to write so that it is known without Spark.
    """

    def __init__(self, reason: str, instead: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.instead = instead


OPAQUE = "?"
"""The type of a part if no rule gives it."""


@dataclass(frozen=True)
class Term:
    """A part of an expression, with what is known of it without Spark.

    `type`: canonical, `void` for null, or OPAQUE. `constant`: it reads no column. `text`: of a string or a whole number
    as a literal. `tree`: without parentheses. `parts`: its operands. `safe`: it cannot fail for any row. `not_zero`: a
    literal other than 0, or a column without 0 and null. `doubt`: why only Spark can say that it is right and has this
    type; None if the rules can.
    """

    type: str
    constant: bool = False
    text: str | None = None
    tree: exp.Expr | None = None
    parts: tuple[Term, ...] = ()
    safe: bool = False
    not_zero: bool = False
    doubt: UntypedError | None = None

    def walk(self) -> Iterator[Term]:
        """The part and those below it."""
        yield self
        for part in self.parts:
            yield from part.walk()


USE_OTHERS = "use functions that are typed without Spark, or a Python function"
LITERAL = "write a literal of that type, such as `1`, `1.5` or `date'2024-05-01'`"
LITERAL_NULL = "write `if(false, c, null)` with a column `c` of the type"
"""What to write instead of expressions whose types only Spark knows."""


def untyped(reason: str, instead: str = USE_OTHERS) -> NoReturn:
    """Raise UntypedError."""
    raise UntypedError(reason, instead)


# Types of numbers, by Spark's ANSI rules.

WHOLE = ("tinyint", "smallint", "int", "bigint")
"""Types of whole numbers, from the narrowest to the widest."""

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
MAX_DIGITS, _MIN_SCALE = 38, 6

Size = tuple[int, int]
"""Precision and scale: all digits of a decimal, and those behind the point."""


def is_number(type_: str) -> bool:
    """Whether a canonical type is a numeric one."""
    return type_ in _DIGITS or type_ in ("float", "double") or type_.startswith("decimal(")


def is_decimal(type_: str) -> bool:
    """Whether a canonical type is a decimal."""
    return type_.startswith("decimal(")


def size(type_: str) -> Size:
    """The size of a decimal, or of the decimal that a type of whole numbers is cast to."""
    match = _DECIMAL.fullmatch(type_)
    return (int(match[1]), int(match[2])) if match else (_DIGITS[type_], 0)


def decimal(digits: int, scale: int) -> str:
    """The decimal type of this size, limited to 38 digits."""
    return f"decimal({min(digits, MAX_DIGITS)},{min(scale, MAX_DIGITS)})"


def widest(types: Sequence[str]) -> str:
    """The type that Spark casts numbers of these types to. Raises UntypedError where digits would be lost."""
    result = types[0]
    for other in types[1:]:
        result = _wider(result, other)
    return result


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
    if digits > MAX_DIGITS:
        untyped(
            f"the type of a decimal with more than {MAX_DIGITS} digits is only known to Spark",
            "cast an operand to a decimal of fewer digits",
        )
    return decimal(digits, scale)


def calculated(sign: str, left: Term, right: Term) -> str:
    """The type of `left sign right`. `sign`: +, -, *, /, % or div."""
    types = (left.type, right.type)
    if sign == "div":
        if not all(type_ in WHOLE for type_ in types):
            untyped("the type of `div` of other than whole numbers is only known to Spark", "cast both to bigint")
        return "bigint"
    if {*types} & {"float", "double"}:
        return "double" if sign == "/" else widest(types)
    if any(map(is_decimal, types)):
        return _of_decimals(sign, _operand_size(left), _operand_size(right))
    return "double" if sign == "/" else widest(types)


def _operand_size(term: Term) -> Size:
    """The size of an operand beside a decimal. A literal has exactly its written digits."""
    if term.type in WHOLE and term.text is not None:
        return len(term.text.lstrip("0")) or 1, 0
    return size(term.type)


def _of_decimals(sign: str, left: Size, right: Size) -> str:
    """The type of a calculation with decimals, in which digits behind the point give way to those before it."""
    digits, scale = exact_size(sign, left, right)
    if digits <= MAX_DIGITS:
        return decimal(digits, scale)
    return decimal(MAX_DIGITS, max(MAX_DIGITS - (digits - scale), min(scale, _MIN_SCALE)))


def exact_size(sign: str, left: Size, right: Size) -> Size:
    """The size of a calculation with decimals, of any number of digits: (9, 3) of `decimal(5,2) * decimal(3,1)`."""
    (first, first_scale), (second, second_scale) = left, right
    before, other_before = first - first_scale, second - second_scale
    scale = max(first_scale, second_scale)
    match sign:
        case "*":
            return first + second + 1, first_scale + second_scale
        case "/":
            scale = max(_MIN_SCALE, first_scale + second + 1)
            return before + second_scale + scale, scale
        case "%":
            return min(before, other_before) + scale, scale
        case _:
            return max(before, other_before) + scale + 1, scale


_WITH_EXPONENT = re.compile(r"(\d+\.?\d*|\.\d+)e[+-]?\d+", re.IGNORECASE | re.ASCII)


def type_of_number(text: str) -> str:
    """The type of a number as a literal: int or bigint, a decimal with a point, or double with an exponent."""
    whole, point, fraction = text.partition(".")
    if not whole.isdecimal() or not text.isascii() or (fraction and not fraction.isdecimal()):
        return "double" if _WITH_EXPONENT.fullmatch(text) else OPAQUE
    if point:
        digits = max(len(whole.lstrip("0")) + len(fraction), 1)
        return f"decimal({digits},{len(fraction)})" if digits <= MAX_DIGITS else OPAQUE
    return "int" if int(text) < 2**31 else "bigint" if int(text) < 2**63 else OPAQUE


# String literals of dates and timestamps.

TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})

_DATE = r"\d{4}-\d{2}-\d{2}"
_TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?"
_WRITTEN = {
    "date": re.compile(_DATE),
    "timestamp": re.compile(f"{_DATE}([ T]{_TIME}Z?)?"),
    "timestamp_ntz": re.compile(f"{_DATE}([ T]{_TIME})?"),
}


def is_written_out(text: str | None, type_: str) -> bool:
    """Whether a string is a complete value of a time type, without a part that Spark takes from the clock."""
    if text is None or type_ not in _WRITTEN:
        return False
    return bool(_WRITTEN[type_].fullmatch(text)) and not never_casts(text, type_)


# Struct types given as a string: `from_json(s, 'a int, b string')`.

_WORD = r"[A-Za-z_][A-Za-z0-9_]*"
_COLUMNS = re.compile(rf"\s*(?:struct\s*<.*>\s*|{_WORD}\s+{_WORD}\b.*)", re.IGNORECASE | re.DOTALL)
_PARTS = re.compile(rf"(?:{_WORD}|[0-9]+|[\s,:<>()])*")
_OTHER_SYNTAX = re.compile(r"\b(?:not|null|comment|collate|default|generated|char|varchar|map)\b", re.IGNORECASE)
_CORRUPT_RECORD = "_corrupt_record"


def columns_type(text: str) -> str:
    """The struct type of columns, given as `a int, b string` or as `struct<...>`. Raises UntypedError."""
    if not _COLUMNS.fullmatch(text) or not _PARTS.fullmatch(text) or _OTHER_SYNTAX.search(text):
        untyped(f"the type '{text}' is only known to Spark")
    is_struct = re.match(r"\s*struct\s*<", text, re.IGNORECASE)
    try:
        type_ = canonical(text if is_struct else f"struct<{text}>")
    except ValueError:
        untyped(f"the type '{text}' is only known to Spark")
    _check_ambiguous(type_)
    if _CORRUPT_RECORD in type_.lower() or (not is_struct and _has_colon(text)):
        untyped(f"the type '{text}' is only known to Spark")
    return type_


def field_type(type_: str, name: str) -> str:
    """The type of a field of a struct. Raises UntypedError."""
    field = fields(type_).get(name) if type_.startswith("struct<") else None
    if field is None:
        untyped(f"the field `{name}` of {type_} is only known to Spark")
    _check_ambiguous(type_)
    return field


def _check_ambiguous(type_: str) -> None:
    """Raise UntypedError for a struct with two fields of the same name, in upper or lower case."""
    inner = fields(type_)
    if len({name.casefold() for name in inner}) < len(inner):
        untyped(f"only Spark knows which of two fields of {type_} is meant", "rename one of them")
    for field in inner.values():
        element = field
        while element.startswith("array<"):
            element = element[len("array<") : -1]
        _check_ambiguous(element)


def _has_colon(text: str) -> bool:
    """Whether a text has a colon outside of structs."""
    depth = 0
    for char in text:
        depth += (char == "<") - (char == ">")
        if char == ":" and not depth:
            return True
    return False
