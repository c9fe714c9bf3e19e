"""Values of records and rows as the cells of a table."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

_BOUNDS = ("window_start", "window_end")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(milliseconds: int) -> str:
    """`2024-05-01T08:00:00Z`, with a fraction if there is one. A time that no calendar has stays a number."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    precision = "milliseconds" if milliseconds % 1000 else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def cell(name: str, value: Any) -> str:
    """A column's value: text as it is, bounds of windows as times, everything else as JSON."""
    if name in _BOUNDS and isinstance(value, int):
        return time_text(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def size_text(size: int) -> str:
    """`512 B`, `3.4 kB`, `12 MB`: bytes, in powers of 1,000, with two digits at least."""
    amount, units = float(size), iter(("kB", "MB", "GB", "TB"))
    unit = "B"
    while amount >= 999.5 and (larger := next(units, None)):
        amount, unit = amount / 1000, larger
    return f"{amount:,.1f} {unit}" if unit != "B" and amount < 9.95 else f"{amount:,.0f} {unit}"
