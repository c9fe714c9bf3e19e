"""Executors, watched."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from ....errors import HeadwaterError
from ...placing.place import Client, Executor
from .engine import executors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# How long an executor has been silent: Spark's executors send a heartbeat every few seconds, whatever they work on.
#
# Silence is measured, and not how long an epoch takes: the first epoch of a large backlog, or a slow function of a
# user, may take any time, and the executor goes on sending heartbeats meanwhile. Spark itself gives an executor up
# after two minutes of silence (`spark.network.timeout`), and looks once a minute.

DEAF_SECONDS = 1.0
"""A pause between two looks of this process that counts as silence of nobody: this process itself was suspended."""

FEWEST_HEARTBEATS = 3
"""A deadline is at least so many intervals: one heartbeat may come late."""

INTERVAL = "spark.executor.heartbeatInterval"


class DeadlineError(HeadwaterError):
    """A profile's deadline is too short for the session's heartbeats: `deadline_s`, `interval_s`, in seconds."""

    def __init__(self, deadline_s: float, interval_s: float) -> None:
        needed = FEWEST_HEARTBEATS * interval_s
        super().__init__(
            f"the profile's epoch has a deadline of {deadline_s:g} s, but executors send a heartbeat every "
            f"{interval_s:g} s only: it takes {FEWEST_HEARTBEATS} of them to tell a silent one from a late one",
            f"give it {needed:g}s or more, or set `executor.heartbeatInterval: {int(deadline_s * 250)}ms` in the "
            "`spark:` section",
        )
        self.deadline_s = deadline_s
        self.interval_s = interval_s


class Silence:
    """Notes when each executor was heard. `seconds`: a clock that never goes back.

    Whoever asks is to do so several times a second.
    """

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._looked: float | None = None
        self._heard: dict[str, tuple[int, float]] = {}

    def listen(self, last: Mapping[str, int]) -> Mapping[str, float]:
        """How long each executor has been silent, in seconds. `last`: when each was heard last, in any unit."""
        now = self._seconds()
        passed = 0.0 if self._looked is None else now - self._looked
        deaf = passed if passed > DEAF_SECONDS else 0.0
        self._looked = now
        before, self._heard = self._heard, {}
        for executor, sent in last.items():
            known = before.get(executor)
            since = now if known is None or known[0] != sent else known[1] + deaf
            self._heard[executor] = (sent, since)
        return {executor: now - since for executor, (_, since) in self._heard.items()}


class Heartbeats:
    """The last heartbeat of each executor, from Spark's driver."""

    def __init__(self, session: SparkSession) -> None:
        context: Any = session.sparkContext
        jvm, scala = context._jvm, context._jsc.sc()
        receiver = jvm.java.lang.Class.forName("org.apache.spark.HeartbeatReceiver")
        (found,) = _each(scala.listenerBus().findListenersByClass(jvm.scala.reflect.ClassTag.apply(receiver)))
        # Public in the class file. Spark has no other way to ask; its listeners are told of running tasks only.
        self._last = getattr(found, "org$apache$spark$HeartbeatReceiver$$executorLastSeen")()
        self.interval_s: float = scala.conf().getTimeAsMs(INTERVAL, "10s") / 1000

    def last(self) -> dict[str, int]:
        """When Spark heard each executor last, in ms since 1970; those that it has not are left out."""
        lines = self._last.mkString("\n").splitlines()  # one call: `3 -> 1760000000000`
        return {executor: int(sent) for executor, _, sent in (line.partition(" -> ") for line in lines)}


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]


# Which executors there are: those that Spark has, without those that are silent.

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


# What Spark knows of its executors, in as few calls of its JVM as possible: it is asked several times a second.


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
