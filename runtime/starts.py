"""Where a new reader of a topic begins, as `start` of a flow says it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

Begin = Literal["earliest", "latest"] | int
"""At the first record, after the last, or at a time in ms since 1970."""


def parse_start(text: str) -> Begin:
    """`earliest`, `latest`, or an ISO 8601 time, in UTC if it has no zone. Raises ValueError for any other text."""
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    moment = datetime.fromisoformat(text)
    if moment.year < 1970:
        raise ValueError(f"'{text}' lies before 1970")
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
