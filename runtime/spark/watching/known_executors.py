"""What Spark knows of its executors, in as few calls of its JVM as possible: it is asked several times a second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...placing.client import Executor
from ..placed_rows import executors
from .silence import Heartbeats

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class KnownExecutors:
    """The executors of a session. Used by one thread at a time. `interval_s`: the time between two heartbeats."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._context: Any = session.sparkContext._jsc.sc()
        self._heartbeats = Heartbeats(session)
        self._known: Mapping[str, Executor] = {}
        self.interval_s = self._heartbeats.interval_s

    def look(self) -> tuple[Mapping[str, Executor], Mapping[str, int]]:
        """The executors that there are, by id, and when Spark heard each of them last, in ms since 1970.

        However many there are, these are three calls, unless executors have come or gone.
        """
        ids = frozenset(self._context.getExecutorIds().mkString("\n").split())
        if ids != self._known.keys():
            self._known = executors(self._session)  # this list is updated later than the ids
        there = {each: executor for each, executor in self._known.items() if each in ids}
        last = self._heartbeats.last()
        return there, {each: last[each] for each in there if each in last}
