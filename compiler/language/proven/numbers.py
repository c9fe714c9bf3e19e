"""The types of numbers by Spark's ANSI rules. A decimal is its digits, and how many of them are behind the point."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .terms import Term, unproven

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
