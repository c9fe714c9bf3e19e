"""Has copies of stores removed that one client has had no task of for some time (`state_cleanup_delay`).

Source: the cleaner of `StateDirectory` of Kafka Streams 4.0. A copy that was moved away is kept for a while: it may be
needed again, and is then nearly caught up. Only copies are removed that a changelog can make again. The work is done
where the stores are, beside epochs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Protocol

from ...errors import HeadwaterError
from ..placing.client import ClientLostError
from ..task_id import StoreId, TaskId
from .linked_stores import LinkedStores

_LOOKS = 10
"""How often the copies are looked at within the delay."""


class SubmitCleaning(Protocol):
    """Runs work somewhere else."""

    def __call__(self, work: Callable[[], Sequence[StoreId]], /) -> Future[Sequence[StoreId]]:
        """Begin with it."""
        ...


class StoreCleaner:
    """Used by the loop's thread. `report` is called with what was removed, and with why no more was, if that failed.

    `seconds`: a clock that nobody sets.
    """

    def __init__(
        self,
        stores: LinkedStores,
        delay_s: float,
        submit: SubmitCleaning,
        report: Callable[[Sequence[StoreId], str], None] = lambda *_: None,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stores = stores
        self._delay = delay_s
        self._submit = submit
        self._report = report
        self._seconds = seconds
        self._unused: dict[StoreId, float] = {}
        self._look_at = seconds()
        self._working: Future[Sequence[StoreId]] | None = None

    def advance(self, tasks: Callable[[], Collection[TaskId]]) -> None:
        """Take up what was removed, and begin to remove what is due. `tasks`: those that the client has."""
        if self._working is not None:
            if self._working.done():
                self.finish()
            return
        now = self._seconds()
        if now < self._look_at:
            return
        self._look_at = now + self._delay / _LOOKS
        self._unused = {store: self._unused.get(store, now) for store in self._stores.unused(tasks())}
        due = [store for store, since in self._unused.items() if now - since >= self._delay]
        if due:
            held = self._stores.forget(due)
            self._working = self._submit(lambda: self._stores.clean(held, self._delay))

    def finish(self) -> None:
        """Wait until what is being removed is."""
        if self._working is None:
            return
        working, self._working, self._unused = self._working, None, {}
        try:
            if removed := working.result():
                self._report(removed, "")
        except ClientLostError:
            pass  # with all that it has
        except HeadwaterError as error:
            self._report((), error.message)
