"""Watches the executors: which are present, and which are silent."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from ....errors import HeadwaterError
from ...placing.place import Client, Executor
from .engine import executors, items

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Spark's executors send a heartbeat every few seconds, whatever they work on. Silence is measured, not the duration of
# an epoch: the first epoch of a large backlog, or a slow function of a user, may take any time, while heartbeats
# continue. Spark itself removes an executor after two minutes of silence (`spark.network.timeout`), and checks once a
# minute.

DEAF_SECONDS = 1.0
"""A longer pause between two checks is no silence of executors: this process itself was suspended."""

FEWEST_HEARTBEATS = 3
"""The fewest heartbeat intervals in a deadline, as one heartbeat may be late."""

INTERVAL = "spark.executor.heartbeatInterval"


class DeadlineError(HeadwaterError):
    """A profile's deadline is too short for the session's heartbeats: `deadline_s`, `interval_s`, in seconds."""

    def __init__(self, deadline_s: float, interval_s: float) -> None:
        needed = FEWEST_HEARTBEATS * interval_s
        super().__init__(
            f"the profile's epoch has a deadline of {deadline_s:g} s, but executors send a heartbeat every "
            f"{interval_s:g} s only: {FEWEST_HEARTBEATS} of them distinguish a silent one from a late one",
            f"give it {needed:g}s or more, or set `executor.heartbeatInterval: {int(deadline_s * 250)}ms` in the "
            "`spark:` section",
        )
        self.deadline_s = deadline_s
        self.interval_s = interval_s


class Silence:
    """Measures the silence of executors. `listen` is called several times a second. `seconds`: a monotonic clock."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._looked: float | None = None
        self._heard: dict[str, tuple[int, float]] = {}

    def listen(self, last: Mapping[str, int]) -> Mapping[str, float]:
        """Executor -> seconds of silence. `last`: executor -> time of its last heartbeat, in any unit."""
        now = self._seconds()
        passed = 0.0 if self._looked is None else now - self._looked
        deaf = passed if passed > DEAF_SECONDS else 0.0
        self._looked = now
        before, self._heard = self._heard, {}
        for executor, sent in last.items():
            heard = before.get(executor)
            since = now if heard is None or heard[0] != sent else heard[1] + deaf
            self._heard[executor] = (sent, since)
        return {executor: now - since for executor, (_, since) in self._heard.items()}


WATCH_SECONDS = 0.1
"""The least time between two looks at the executors."""


@dataclass(frozen=True)
class _Seen:
    """The result of a look: the present executors, and the seconds of silence of others."""

    at: float
    there: Mapping[str, Executor] = field(default_factory=dict)
    silent: Mapping[str, float] = field(default_factory=dict)


class ExecutorWatch:
    """Watches the executors, with at most ten looks a second.

    The loops of all applications use it, and all threads that wait for a job: one of them looks, and meanwhile the
    others use the result of the last look. `deadline_s`: after this silence an executor counts as lost, until its next
    heartbeat. Raises DeadlineError.
    """

    def __init__(self, executors: KnownExecutors, deadline_s: float) -> None:
        self._known = executors
        self._silence = Silence()
        self._looking = Lock()
        self._seen: _Seen | None = None
        self._deadline_s = deadline_s
        if deadline_s < FEWEST_HEARTBEATS * executors.interval_s:
            raise DeadlineError(deadline_s, executors.interval_s)

    def lost(self, client: Client) -> bool:
        """Whether the client's executor has ended or is silent."""
        return client.executor is not None and client.executor.id not in self._look().there

    def silent(self, client: Client) -> float | None:
        """The seconds of silence of the client's executor, if they exceed the deadline."""
        seen = self._look()
        return None if client.executor is None else seen.silent.get(client.executor.id)

    def present(self) -> tuple[Client, ...]:
        """The clients of the present executors."""
        return clients(self._look().there)

    def _look(self) -> _Seen:
        """The result of the last look; of a new one if it is due and no other thread looks. Waits for the
        first look.
        """
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
        silent = {id_: seconds for id_, seconds in self._silence.listen(last).items() if seconds > self._deadline_s}
        there = {id_: executor for id_, executor in alive.items() if id_ not in silent}
        return _Seen(time.monotonic(), there, silent)


def _is_new(seen: _Seen) -> bool:
    return time.monotonic() - seen.at <= WATCH_SECONDS


def clients(executors: Mapping[str, Executor]) -> tuple[Client, ...]:
    """The clients of executors, by name."""
    return tuple(
        Client(f"executor-{executor.id}", executor.cores, executor) for _, executor in sorted(executors.items())
    )


class KnownExecutors:
    """The executors of a session, in as few calls of its JVM as possible. Used by one thread at a time.

    `interval_s`: the time between two heartbeats.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._context: Any = session.sparkContext._jsc.sc()
        jvm: Any = session.sparkContext._jvm
        receiver = jvm.java.lang.Class.forName("org.apache.spark.HeartbeatReceiver")
        tag = jvm.scala.reflect.ClassTag.apply(receiver)
        (listener,) = items(self._context.listenerBus().findListenersByClass(tag))
        # Public in the class file. Spark has no other way: its listeners get heartbeats of running tasks only.
        self._last = getattr(listener, "org$apache$spark$HeartbeatReceiver$$executorLastSeen")()
        self._known: Mapping[str, Executor] = {}
        self.interval_s: float = self._context.conf().getTimeAsMs(INTERVAL, "10s") / 1000

    def look(self) -> tuple[Mapping[str, Executor], Mapping[str, int]]:
        """The executors by id, and the times of their last heartbeats, ms since 1970, of those that have sent one.

        It takes three calls for any number of executors, unless some have joined or left.
        """
        ids = frozenset(self._context.getExecutorIds().mkString("\n").split())
        if ids != self._known.keys():
            self._known = executors(self._session)  # this list is updated later than the ids
        there = {id_: executor for id_, executor in self._known.items() if id_ in ids}
        lines = (line.partition(" -> ") for line in self._last.mkString("\n").splitlines())  # `3 -> 1760000000000`
        return there, {id_: int(sent) for id_, _, sent in lines if id_ in there}
