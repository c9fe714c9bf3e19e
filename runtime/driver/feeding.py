"""Records that a run is given while it goes on, and the time that it is told: for tests of a project."""

from __future__ import annotations

import time
from typing import Protocol


class Feed(Protocol):
    """Asked by the loop's thread of a run until caught up."""

    def more(self) -> bool:
        """All that there was is consumed and committed. Append what comes next; whether there was anything more."""

    def now(self) -> int:
        """The time that the next epoch gets, in ms: `current_timestamp()` of its records."""


def wall_clock() -> int:
    """The time, in ms."""
    return time.time_ns() // 1_000_000
