"""Removes unused files of an application while it runs."""

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
"""How long replaced files stay, as readers may still use them."""

SEARCH_SECONDS = 600.0
"""The interval of searches for unlisted files, of failed epochs and of dead processes."""

RETRY_SECONDS = 300.0
"""The delay before another try to remove a file."""


@dataclass(frozen=True)
class Epochs:
    """The epochs of a generation at one moment: the number of the last one, and the open ones."""

    last: int = 0
    open: frozenset[int] = frozenset()

    def decided(self, epoch: int) -> bool:
        """Whether an epoch is over: its files are committed, or never will be."""
        return epoch <= self.last and epoch not in self.open


class FileRemoval:
    """The files to remove, and when. `grace`: delay for replaced files, seconds. `seconds`: a monotonic clock.

    If the process ends before, the next driver removes the files that no commit lists.
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
        """How long replaced files stay."""
        return round(self._grace * 1000)

    def now(self, paths: Iterable[str]) -> None:
        """Schedule files without readers for removal."""
        with self._lock:
            self._now.extend(paths)

    def later(self, paths: Iterable[str]) -> None:
        """Schedule replaced files for removal after the grace period."""
        due = self._seconds() + self._grace
        with self._lock:
            self._later.extend((due, path) for path in paths)

    def due(self) -> bool:
        """Whether `advance` has work to do."""
        now = self._seconds()
        with self._lock:
            replaced = bool(self._later) and now >= self._later[0][0]
            again = any(now >= at for at in self._again.values())
            return bool(self._now) or now >= self._search_at or replaced or again

    def advance(self, epochs: Epochs = Epochs()) -> None:
        """Remove due files. `epochs`: as they were when the state had all commits of the decided ones.

        Any thread may call this, one at a time. Raises OSError, MachineError, LogError: a later call removes the rest.
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
        """Remove the due files. A file that cannot be removed does not block the others, and is tried again after
        RETRY_SECONDS. Raises the first OSError, MachineError or LogError.
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
