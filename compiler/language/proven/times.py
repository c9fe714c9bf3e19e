"""Dates and timestamps that are written down as texts, in full."""

from __future__ import annotations

import re

from ....runtime.records.texts.casts import never_casts

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
