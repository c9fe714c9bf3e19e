"""How long an executor has been silent: Spark's executors send a heartbeat every few seconds, whatever they work on.

Silence is measured, and not how long an epoch takes: the first epoch of a large backlog, or a slow function of a user,
may take any time, and the executor goes on sending heartbeats meanwhile. Spark itself gives an executor up after two
minutes of silence (`spark.network.timeout`), and looks once a minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ....errors import HeadwaterError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
