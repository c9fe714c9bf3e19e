"""Messages about casts from text to other types: casts that always fail, and implicit casts.

The compiler checks simple expressions, Spark's analyzer all others. Both use this module, so that a mistake gives the
same message. The accepted forms are those of Spark SQL in ANSI mode.
"""

from __future__ import annotations

import re
from calendar import monthrange

_NOT_ALL_TEXTS = re.compile(
    r"\b(tinyint|smallint|int|bigint|float|double|decimal|boolean|date|time|timestamp(_ntz|_ltz)?|interval)\b"
)
"""Types to which some texts cannot be cast."""

_TEXT = re.compile(r"\bstring\b")
_RANGES = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_WHOLE = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?[df]?", re.IGNORECASE)
_UNUSUAL_FLOAT = re.compile(r"[+-]?(nan|inf|infinity|0x.*)", re.IGNORECASE)
_BOOLEANS = frozenset(["t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"])
_DATE = re.compile(r"[+-]?(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})([T ].*)?)?)?", re.DOTALL)
_CLOCK = re.compile(r"T?\d{1,2}:.*|(epoch|now|today|tomorrow|yesterday)\b.*", re.IGNORECASE | re.DOTALL)
_SHOWN = 40

_WRITE = {
    "boolean": "Write true or false.",
    "date": "Write a date as in '2024-12-31'.",
    "timestamp": "Write a time as in '2024-12-31 23:59:59'.",
    "timestamp_ntz": "Write a time as in '2024-12-31 23:59:59'.",
}

WRITE_OUT = "Write it with digits, or use `current_timestamp()`, the planned time of the epoch."
"""The hint for a time that is not complete."""


def may_fail(given: str, wanted: str) -> bool:
    """Whether a cast from one type to another casts texts, also nested ones, to a type that not every text has."""
    fewer = len(_TEXT.findall(wanted)) < len(_TEXT.findall(given))
    return fewer and len(_NOT_ALL_TEXTS.findall(wanted)) > len(_NOT_ALL_TEXTS.findall(given))


def never_casts(text: str, type_: str) -> bool:
    """Whether the cast of a text to a canonical type always fails; False also where only Spark knows."""
    text = text.strip()
    if type_ in _RANGES:
        return not _WHOLE.fullmatch(text) or not -(1 << _RANGES[type_]) <= int(text) < 1 << _RANGES[type_]
    if type_ in ("float", "double"):
        return not _DECIMAL.fullmatch(text) and not _UNUSUAL_FLOAT.fullmatch(text)
    if type_.startswith("decimal"):
        return not _DECIMAL.fullmatch(text)
    if type_ == "boolean":
        return text.lower() not in _BOOLEANS
    if type_ in ("date", "timestamp", "timestamp_ntz"):
        return not takes_the_clock(text) and not _is_date(text)
    return False


def takes_the_clock(text: str) -> bool:
    """Whether the timestamp from a text depends on Spark's clock: 'now', or '12:30' of today."""
    return bool(_CLOCK.fullmatch(text.strip()))


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = int(match[1]), int(match[2] or 1), int(match[3] or 1)
    # The calendar repeats itself every 400 years, and Python's has no years beyond 9999.
    return 1 <= month <= 12 and 1 <= day <= monthrange(2000 + year % 400, month)[1]


def uncast(text: str, type_: str) -> tuple[str, str]:
    """Message and hint for a text of an expression that can never be cast to a type."""
    return f"{_shown(text)} is no value of type {type_}: this always fails.", _WRITE.get(type_, "Write a number.")


def silent_cast(sql: str, given: str, wanted: str, *, added: bool) -> tuple[str, str]:
    """Message and hint for SQL that Spark would implicitly cast from one type to another.

    `added`: whether it is an operand of `+`, which concatenates texts in some languages.
    """
    shown = _shown(sql)
    message = (
        f"'{shown}' is of type {given}. Spark would cast it to {wanted} silently, and fail at a text that is none."
    )
    hint = f"Write `cast({shown} as {wanted})`, or `try_cast`, which gives null; or make all values here texts."
    return message, f"To join texts write `||`. {hint}" if added else hint


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
