"""Which executors there are: those that Spark has, without those that are silent."""

from __future__ import annotations

import time
from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING

from ...placing.client import Client, Executor
from ..placed_rows import executors
from .silence import FEWEST_HEARTBEATS, DeadlineError, Heartbeats, Silence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WATCH_SECONDS = 0.1


class ExecutorWatch:
    """Knows which executors there are; asks Spark ten times a second at most.

    `deadline_s`: an executor that has been silent for so long does not count as there, until it is heard again. Raises
    DeadlineError.
    """

    def __init__(self, session: SparkSession, deadline_s: float) -> None:
        self._session = session
        self._heartbeats = Heartbeats(session)
        self._silence = Silence()
        self._asked = float("-inf")
        self._asking = Lock()  # the loop asks, and each link while it waits
        self._there: Mapping[str, Executor] = {}
        self._silent: Mapping[str, float] = {}
        self._deadline_s = deadline_s
        if deadline_s < FEWEST_HEARTBEATS * self._heartbeats.interval_s:
            raise DeadlineError(deadline_s, self._heartbeats.interval_s)

    def lost(self, client: Client) -> bool:
        """Whether the client's executor has ended, or is silent."""
        return client.executor is not None and client.executor.id not in self._executors()

    def silent(self, client: Client) -> float | None:
        """For how many seconds the client's executor has been silent, if that is too long."""
        self._executors()
        return None if client.executor is None else self._silent.get(client.executor.id)

    def present(self) -> tuple[Client, ...]:
        """The clients of the executors that are there."""
        return clients(self._executors())

    def _executors(self) -> Mapping[str, Executor]:
        with self._asking:
            if time.monotonic() - self._asked > WATCH_SECONDS:
                alive = executors(self._session)
                silent = self._silence.listen(self._heartbeats.last(alive))
                self._silent = {each: seconds for each, seconds in silent.items() if seconds > self._deadline_s}
                self._there = {each: executor for each, executor in alive.items() if each not in self._silent}
                self._asked = time.monotonic()
            return self._there


def clients(found: Mapping[str, Executor]) -> tuple[Client, ...]:
    """The clients of executors, by name."""
    return tuple(Client(f"executor-{each.id}", each.cores, each) for _, each in sorted(found.items()))
