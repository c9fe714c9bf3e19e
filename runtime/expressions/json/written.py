"""What is no text as a text: JSON of a value, written as Spark writes it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from .lost import LostError
from .tokens import Kind, Tokens

_ESCAPED = re.compile('["\\\\\x00-\x1f\ud800-\udfff]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_WORDS = {Kind.TRUE: "true", Kind.FALSE: "false", Kind.NULL: "null"}
_BEGINS = {Kind.OBJECT: "{", Kind.ARRAY: "["}
_ENDS = {Kind.OBJECT_END: "}", Kind.ARRAY_END: "]"}
_NOT_FINITE: Mapping[str, float] = {
    "NaN": math.nan,
    **dict.fromkeys(("Infinity", "+Infinity", "+INF"), math.inf),
    **dict.fromkeys(("-Infinity", "-INF"), -math.inf),
}


def written(tokens: Tokens) -> str:
    """The value that the tokens are at, which is no text. Leaves them at its end. Raises LostError."""
    parts: list[str] = []
    opened: list[int] = []
    named = False
    while True:
        kind = tokens.kind
        if kind in _ENDS:
            if not opened:
                raise LostError
            opened.pop()
            parts.append(_ENDS[kind])
        else:
            if opened and not named:
                parts.append("," if opened[-1] else "")
                opened[-1] += 1
            named = kind is Kind.NAME
            parts.append(_BEGINS.get(kind) or _scalar(tokens))  # type: ignore[arg-type]
            if kind in _BEGINS:
                opened.append(0)
        if not opened:
            return "".join(parts)
        tokens.next()


def double(number: str) -> float:
    """A number as it is written, as a double."""
    found = _NOT_FINITE.get(number)
    return float(number) if found is None else found


def _scalar(tokens: Tokens) -> str:
    match tokens.kind:
        case Kind.NAME:
            return f"{_quoted(tokens.name or '')}:"
        case Kind.TEXT:
            return _quoted(tokens.text())
        case Kind.WHOLE:
            return str(int(tokens.number))
        case Kind.FRACTION:
            return of_double(double(tokens.number))
        case Kind.TRUE | Kind.FALSE | Kind.NULL as kind:
            return _WORDS[kind]
    raise LostError


def of_double(number: float) -> str:
    """A double with as few digits as tell it from all others, as Java writes it; one that is not finite in quotes."""
    if not math.isfinite(number):
        return '"NaN"' if math.isnan(number) else '"Infinity"' if number > 0 else '"-Infinity"'
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    digits, place = _digits(abs(number))
    return f"{'-' if number < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{place}"


def _digits(number: float) -> tuple[str, int]:
    """The digits of a double, and the power of ten of the first one."""
    mantissa, _, exponent = repr(number).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = f"{whole}{fraction}"
    begin = len(digits) - len(digits.lstrip("0"))
    return digits[begin:].rstrip("0") or "0", len(whole) - 1 - begin + int(exponent or 0)


def _quoted(units: str) -> str:
    return f'"{_ESCAPED.sub(_escaped, units)}"'


def _escaped(found: re.Match[str]) -> str:
    char = found.group()
    return _ESCAPES.get(char) or f"\\u{ord(char):04X}"
