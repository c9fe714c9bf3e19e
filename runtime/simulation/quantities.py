"""Parses and prints durations, sizes and rates: `30s`, `64MB`, `100000`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

_DURATIONS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_QUANTITY = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?([A-Za-z]*)", re.ASCII)


def duration_ms(text: str) -> int:
    """The milliseconds of `10ms 5s 10m 1h 2d`. Raises ValueError."""
    return round(_quantity(text, _DURATIONS_MS, "a duration such as 30s or 2m"))


def size_bytes(text: str) -> int:
    """The bytes of `500B 20kB 64MB 1.5GB 1TB`, or of a bare number. Raises ValueError."""
    return round(_quantity(text, {"": 1, **_SIZES}, "a size such as 64MB"))


@dataclass(frozen=True)
class Rate:
    """A number of records in a second, or of bytes; the other field is None."""

    records: float | None = None
    bytes: float | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """`100000` means records, `20MB` means bytes; `/s` may follow. Raises ValueError."""
        value = _quantity(text.removesuffix("/s"), {"": 1, **_SIZES}, "a rate such as 100000 (records) or 20MB")
        if not value:
            raise ValueError(f"{text!r} would never end")
        return cls(records=value) if text.removesuffix("/s").strip()[-1].isdigit() else cls(bytes=value)

    def seconds(self, records: float, record_bytes: float) -> float:
        """How many seconds `records` of this size take."""
        if self.records is not None:
            return records / self.records
        return records * record_bytes / (self.bytes or 1.0)


def shown_duration(milliseconds: float) -> str:
    """`0 s`, `12.5 s`, `3 min 20 s`, `2 h 5 min`."""
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "min"), (0 if hours else seconds, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def shown_size(size: float) -> str:
    """`0 B`, `64 MB`, `1.5 GB`."""
    for unit in reversed(_SIZES):
        if size >= _SIZES[unit] or unit == "B":
            return (
                f"{size / _SIZES[unit]:.3g} {unit}"
                if size < 1000 * _SIZES[unit]
                else f"{size / _SIZES[unit]:,.0f} {unit}"
            )
    raise AssertionError


def _quantity(text: str, units: dict[str, int], wanted: str) -> float:
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or found[2] not in units:
        raise ValueError(f"{text!r} is not {wanted}; units: {', '.join(filter(None, units))}")
    return float(found[1]) * units[found[2]]
