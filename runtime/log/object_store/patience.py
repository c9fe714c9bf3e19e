"""For how long a request is tried again while the store does not answer, or answers with errors of its own.

The client itself tries again after most of these: after a refused connection, an answer that was lost, and the statuses
408, 429 and 5xx. It gives up at once after others that pass as well: a removal or a conditional put that hangs, an
answer that ends early, Amazon's 400 RequestTimeout, 409 Conflict, an error of a single object among many to remove.
So whoever asks waits here for the rest of the time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta

from .errors import PassingError, StoreUnreachableError

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


@dataclass(frozen=True)
class Patience:
    """`silent`: while nobody answers. `failing`: while the store answers with errors of its own."""

    silent: timedelta
    failing: timedelta

    def begin(self) -> Waiting:
        """For one request, from now on."""
        return Waiting(self)


class Waiting:
    """How long a request has been tried."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._begun = time.monotonic()
        self._pause = _FIRST_PAUSE

    @property
    def seconds(self) -> float:
        """Since the first try."""
        return time.monotonic() - self._begun

    def again(self, error: PassingError) -> bool:
        """Wait a little, and say True, if it may be tried once more after this error."""
        silent = isinstance(error, StoreUnreachableError)
        allowed = self._patience.silent if silent else self._patience.failing
        if self.seconds >= allowed.total_seconds():
            return False
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return True
