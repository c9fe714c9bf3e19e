"""How a run is stopped or paused, and records are purged."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from ...errors import HeadwaterError
from ..ir.topology import Topology
from ..log.commit.records import Purged
from ..log.log import Log
from ..progress.committed import Committed
from ..task_id import TaskId
from .epochs import EpochCommits
from .event_texts import moment
from .events import ApplicationPaused, ApplicationResumed, Observer

# Stops a run on Ctrl-C, on SIGTERM, or when its terminal is closed.

SAME_SECONDS = 0.2
"""Signals within this time count as one: `timeout` sends its signal to its child, and then to the child's group."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stopping(seconds: Callable[[], float] = time.monotonic) -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM or SIGHUP sets, so that a run can finish its epoch, commit and close cleanly.

    Enter it on the main thread and after Spark has started, because Spark installs a handler of its own. A second
    signal ends the process at once, but for SIGHUP: who closes a terminal sends it, and its shell does so, too. One
    that is ignored, as below `nohup`, still is. `seconds`: a clock that never goes back.

    A thread of its own hears of signals, through the socket that the interpreter writes their numbers to. A handler
    would not do. The kernel may give a signal to any thread, as it does to a process that has just been resumed, but
    Python runs handlers on the main thread alone, once that thread no longer waits: for a lasting run, never. And a
    handler that sets the event would wait for ever if it interrupts the main thread while that holds the event's lock.
    """
    stop = threading.Event()
    hearing, told = socket.socketpair()
    told.setblocking(False)
    listener = _Listener(hearing, stop, threading.get_ident(), seconds)
    thread = threading.Thread(target=listener.listen, name="signals", daemon=True)
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    if before[signal.SIGHUP] == signal.SIG_IGN:
        del before[signal.SIGHUP]
    told_before = signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
    for number in before:
        signal.signal(number, listener.end_if_again)
    thread.start()
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(told_before)
        told.close()  # the listener reads the end of what it is told
        thread.join()
        hearing.close()


class _Listener:
    """Sets `stop` for the first signal, and has the main thread end the process for a second one."""

    def __init__(
        self, hearing: socket.socket, stop: threading.Event, main_thread: int, seconds: Callable[[], float]
    ) -> None:
        self._hearing = hearing
        self._stop = stop
        self._main_thread = main_thread
        self._seconds = seconds
        self._again = False

    def listen(self) -> None:
        """On a thread of its own, until there is nobody left who could tell of signals."""
        first: float | None = None
        while told := self._hearing.recv(1):
            number = told[0]
            if number not in _SIGNALS:
                continue
            self._stop.set()
            if first is None:
                first = self._seconds()
            elif not self._again and number != signal.SIGHUP and self._seconds() - first > SAME_SECONDS:
                self._again = True
                signal.pthread_kill(self._main_thread, number)  # wakes it, whatever it waits for

    def end_if_again(self, number: int, _: FrameType | None) -> None:
        """The handler of the main thread, which alone may put the default one in its place."""
        if self._again:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)


# Whether an application is paused (KIP-834): it begins no epoch and no slice of a restore, and keeps its claim.
#
# The pause is kept in the log, because who asks for it is another process, often on another machine. So it also
# outlasts the driver: one that starts later finds the application paused.

EVERY_SECONDS = 0.5
"""The least time between two looks into the log."""


class PausedError(HeadwaterError):
    """A run until all is caught up cannot begin, because the application is paused: `application`, `since` in ms."""

    def __init__(self, topology: Topology, since: int) -> None:
        super().__init__(
            f"{topology.application} is paused since {moment(since)}, and so would never catch up",
            f"`headwater resume --select {topology.name}` ends the pause",
        )
        self.application = topology.application
        self.since = since


class Pause:
    """Used from the loop's thread. `seconds`: a clock that never goes back."""

    def __init__(
        self, log: Log, application: str, observer: Observer, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._application = application
        self._observer = observer
        self._seconds = seconds
        self._every = max(EVERY_SECONDS, log.look_seconds())
        self._due = float("-inf")
        self.since: int | None = None

    def asked_for(self) -> bool:
        """Whether the application is to be left as it is. Looks at most twice a second, or as often as the log says.

        Raises LogError.
        """
        if self._seconds() >= self._due:
            self._due = self._seconds() + self._every
            before, self.since = self.since, self._log.paused_since(self._application)
            if before is None and self.since is not None:
                self._observer.on(ApplicationPaused(self._application, self.since))
            elif before is not None and self.since is None:
                self._observer.on(ApplicationResumed(self._application))
        return self.since is not None


def check_not_paused(topology: Topology, log: Log) -> None:
    """Raises PausedError, LogError."""
    since = log.paused_since(topology.application)
    if since is not None:
        raise PausedError(topology, since)


# Removes records of repartition topics that their readers have consumed: nobody else reads these.
#
# Source: `TaskManager.maybePurgeCommittedRecords` of Kafka Streams, with its `repartition.purge.interval.ms`. There
# each client deletes what its tasks have committed. Here the driver knows the positions of all tasks, so it is one
# commit.

PURGE_SECONDS = 30.0
"""How often. Kafka Streams' default."""


class RepartitionPurge:
    """Used from the loop's thread. `seconds`: a clock that never goes back."""

    def __init__(
        self,
        topology: Topology,
        committed: Committed,
        commits: EpochCommits,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._committed = committed
        self._commits = commits
        self._seconds = seconds
        self._due = seconds() + PURGE_SECONDS
        self._seen = 0
        written = {name for part in topology.subtopologies for name in part.repartition_topics}
        self._readers = [
            (TaskId(part.number, partition, part.name), topic)
            for part in topology.subtopologies
            for topic in (topic.name for topic in part.sources if topic.name in written)
            for partition in range(part.partitions)
        ]

    def advance(self) -> None:
        """Commit what may go, if the time has come and there is something. Raises FencedError."""
        if not self._readers or self._seconds() < self._due:
            return
        self._due = self._seconds() + PURGE_SECONDS
        if self._seen == self._committed.own.number:
            return
        self._seen = self._committed.own.number
        purged = tuple(self._consumed())
        if purged:
            self._commits.purge(purged)

    def _consumed(self) -> Iterator[Purged]:
        """What the readers have consumed, where at least a whole segment can go."""
        own = self._committed.own
        for task, topic in self._readers:
            lanes: Mapping[int, int] = own.tasks.of(task.key(self._committed.application)).positions.get(topic, {})
            if whole := {lane: end for lane, end in lanes.items() if own.can_forget(topic, task.partition, lane, end)}:
                yield Purged(topic, task.partition, whole)
