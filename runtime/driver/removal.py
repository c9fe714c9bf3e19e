"""Removes superfluous files of an application while it runs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from threading import Lock

from ..log.commit.records import DELAY_MS
from ..log.durable_files import collect_garbage, remove_all
from ..log.log import Log
from ..log.state import LogState

GRACE_SECONDS = DELAY_MS / 1000
"""For so long files stay that others have taken the place of: somebody may just be reading them."""

SEARCH_SECONDS = 600.0
"""How often files are looked for that nobody has told of: those of epochs that failed, and of dead processes."""

RETRY_SECONDS = 300.0
"""So long after a file could not be removed it is tried again."""


@dataclass(frozen=True)
class Epochs:
    """The epochs of a generation at one moment: the number of the last one, and those that are not decided."""

    last: int = 0
    open: frozenset[int] = frozenset()

    def decided(self, epoch: int) -> bool:
        """Whether an epoch is over: what it wrote is committed, or never will be."""
        return epoch <= self.last and epoch not in self.open


class FileRemoval:
    """What is to be removed, and when. `seconds`: a clock that never goes back.

    If the process ends before, nothing is lost: the next driver removes what no commit lists.
    """

    def __init__(
        self,
        log: Log,
        state: LogState,
        grace: float = GRACE_SECONDS,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._state = state
        self._grace = grace
        self._seconds = seconds
        self._lock = Lock()
        self._now: deque[str] = deque()
        self._later: deque[tuple[float, str]] = deque()
        self._again: dict[str, float] = {}
        self._search_at = seconds()

    @property
    def delay_ms(self) -> int:
        """For so long files stay that others have taken the place of."""
        return round(self._grace * 1000)

    def now(self, paths: Iterable[str]) -> None:
        """Have files removed that nobody reads."""
        with self._lock:
            self._now.extend(paths)

    def later(self, paths: Iterable[str]) -> None:
        """Have files removed that others have taken the place of."""
        due = self._seconds() + self._grace
        with self._lock:
            self._later.extend((due, path) for path in paths)

    def due(self) -> bool:
        """Whether there is something for `advance` to do."""
        now = self._seconds()
        with self._lock:
            replaced = bool(self._later) and now >= self._later[0][0]
            again = any(now >= at for at in self._again.values())
            return bool(self._now) or now >= self._search_at or replaced or again

    def advance(self, epochs: Epochs = Epochs()) -> None:
        """Remove what is due. `epochs`: as they were when the state had all commits of the decided ones.

        Any thread may do this, one at a time. Raises OSError, MachineError, LogError: then the rest is removed by a
        later call.
        """
        try:
            self.remove()
        finally:
            self._search(epochs)

    def _search(self, epochs: Epochs) -> None:
        if self._seconds() >= self._search_at:
            self._search_at = self._seconds() + SEARCH_SECONDS
            self._log.remove_leftovers()
            collect_garbage(
                self._log, self._state.application, self._state, decided=epochs.decided, spared=self._waiting
            )

    def remove(self) -> None:
        """Remove the files that are due. One that cannot be removed holds no other up, and is tried again some minutes
        later. Raises the first OSError, MachineError or LogError of all.
        """
        with self._lock:
            due = list(self._now)
            self._now.clear()
            while self._later and self._seconds() >= self._later[0][0]:
                due.append(self._later.popleft()[1])
            again = [path for path, at in self._again.items() if self._seconds() >= at]
            for path in again:
                del self._again[path]
        left, error = remove_all(self._log, due + again)
        with self._lock:
            self._again.update(dict.fromkeys(left, self._seconds() + RETRY_SECONDS))
        if error is not None:
            raise error

    def _waiting(self) -> Collection[str]:
        with self._lock:
            return {path for _, path in self._later}
