"""Which executors there are: those that Spark has, without those that are silent."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from ...placing.client import Client, Executor
from .silence import FEWEST_HEARTBEATS, DeadlineError, Silence

WATCH_SECONDS = 0.1


class Known(Protocol):
    """What Spark knows of its executors: see `KnownExecutors`."""

    @property
    def interval_s(self) -> float:
        """The time between two heartbeats."""

    def look(self) -> tuple[Mapping[str, Executor], Mapping[str, int]]:
        """The executors that there are, by id, and when Spark heard each of them last."""


@dataclass(frozen=True)
class _Seen:
    """What a look has found: the executors that are there, and for how many seconds others are silent."""

    at: float
    there: Mapping[str, Executor] = field(default_factory=dict)
    silent: Mapping[str, float] = field(default_factory=dict)


class ExecutorWatch:
    """Knows which executors there are; looks ten times a second at most, whoever asks.

    Asked by the loops of all applications, and by each thread that waits for a job: one of them looks, and meanwhile
    the others have what the last look has found. `deadline_s`: an executor that has been silent for so long does not
    count as there, until it is heard again. Raises DeadlineError.
    """

    def __init__(self, known: Known, deadline_s: float) -> None:
        self._known = known
        self._silence = Silence()
        self._looking = Lock()
        self._seen: _Seen | None = None
        self._deadline_s = deadline_s
        if deadline_s < FEWEST_HEARTBEATS * known.interval_s:
            raise DeadlineError(deadline_s, known.interval_s)

    def lost(self, client: Client) -> bool:
        """Whether the client's executor has ended, or is silent."""
        return client.executor is not None and client.executor.id not in self._look().there

    def silent(self, client: Client) -> float | None:
        """For how many seconds the client's executor has been silent, if that is too long."""
        seen = self._look()
        return None if client.executor is None else seen.silent.get(client.executor.id)

    def present(self) -> tuple[Client, ...]:
        """The clients of the executors that are there."""
        return clients(self._look().there)

    def _look(self) -> _Seen:
        """What was seen last; that is now, if it is time to look and nobody else does. The first look is waited for."""
        seen = self._seen
        if seen is not None and (_is_new(seen) or not self._looking.acquire(blocking=False)):
            return seen
        if seen is None:
            self._looking.acquire()
        try:
            if self._seen is None or not _is_new(self._seen):
                self._seen = self._found()
            return self._seen
        finally:
            self._looking.release()

    def _found(self) -> _Seen:
        alive, last = self._known.look()
        silent = {each: seconds for each, seconds in self._silence.listen(last).items() if seconds > self._deadline_s}
        there = {each: executor for each, executor in alive.items() if each not in silent}
        return _Seen(time.monotonic(), there, silent)


def _is_new(seen: _Seen) -> bool:
    return time.monotonic() - seen.at <= WATCH_SECONDS


def clients(found: Mapping[str, Executor]) -> tuple[Client, ...]:
    """The clients of executors, by name."""
    return tuple(Client(f"executor-{each.id}", each.cores, each) for _, each in sorted(found.items()))
