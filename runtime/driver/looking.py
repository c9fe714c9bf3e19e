"""When the driver of an application looks for what others have committed: as often as its log lets it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class MadeCommits:
    """How many commits the drivers of this process have made, of all applications of a run. Any thread may use it."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def add(self) -> None:
        """One more."""
        with self._lock:
            self.count += 1


class Looking:
    """Used from the loop's thread. `every`: see `Log.look_seconds`.

    A look costs requests, so a log may want few of them. What another driver of this process commits is looked for at
    once, so topologies of one run that read from one another wait for nothing. `seconds`: a clock that never goes back.
    """

    def __init__(self, every: float, made: MadeCommits, seconds: Callable[[], float] = time.monotonic) -> None:
        self._every = every
        self._made = made
        self._seconds = seconds
        self._due = float("-inf")
        self._own = 0
        self._seen = 0

    def due(self) -> bool:
        """Whether to look now."""
        others = self._made.count - self._own
        if self._seconds() < self._due and others == self._seen:
            return False
        self._seen = others
        self._due = self._seconds() + self._every
        return True

    def soon(self) -> None:
        """Have the next look made in the next round."""
        self._due = float("-inf")

    def committed(self) -> None:
        """This driver has committed something, which others look for now."""
        self._own += 1
        self._made.add()
