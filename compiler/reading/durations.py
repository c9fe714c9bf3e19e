"""Durations as the language writes them: `10ms 5s 10m 1h 2d`."""

from __future__ import annotations

import re

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]{1,15})(ms|s|m|h|d)")


def parse_duration(text: str) -> int:
    """The milliseconds of a duration: one whole number and one unit. ValueError for anything else."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text}' is not a duration")
    return int(found[1]) * _UNITS_MS[found[2]]
