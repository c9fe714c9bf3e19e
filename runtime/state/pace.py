"""For how long a slice of work on stores may go on: epochs of the same client wait meanwhile."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class Pace:
    """`seconds` from now on."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._until = time.monotonic() + seconds

    def is_over(self) -> bool:
        """Whether the time is over. What is begun is still finished."""
        return time.monotonic() >= self._until

    def may_read(self) -> Callable[[], bool]:
        """Whether to read on before what was read is written: for half of the time that there is now."""
        until = (time.monotonic() + self._until) / 2
        return lambda: time.monotonic() < until
