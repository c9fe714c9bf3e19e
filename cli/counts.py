"""Numbers of things in a sentence."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, thing: str) -> str:
    """`1 record`, `2,000 records`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def waiting(records: int, writers: Sequence[str]) -> str:
    """`1 record waits for flights-fleet`."""
    return f"{counted(records, 'record')} wait{'s' if records == 1 else ''} for {', '.join(writers)}"
