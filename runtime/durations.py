"""Durations in the form of the language: `10ms 5s 10m 1h 2d`."""

from __future__ import annotations

import re

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]+)(ms|s|m|h|d)")
_MOST_DIGITS = {"ms": 15, "s": 12, "m": 10, "h": 8, "d": 7}
"""The same limits as in the schemas.

A time plus a duration must fit into Spark's timestamps (64 bits of microseconds).
"""


def parse_duration(text: str) -> int:
    """The milliseconds of a duration, which is one whole number and one unit. Raises ValueError for any other text."""
    found = _DURATION.fullmatch(text)
    if found is None or len(found[1]) > _MOST_DIGITS[found[2]]:
        raise ValueError(f"'{text}' is not a duration")
    return int(found[1]) * _UNITS_MS[found[2]]


def duration_text(milliseconds: int) -> str:
    """The duration in its largest unit that needs no fraction: the inverse of `parse_duration`."""
    if not milliseconds:
        return "0s"
    unit = next(unit for unit, size in reversed(_UNITS_MS.items()) if milliseconds % size == 0)
    return f"{milliseconds // _UNITS_MS[unit]}{unit}"
