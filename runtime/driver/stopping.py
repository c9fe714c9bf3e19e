"""Stopping and pausing a run, and purging repartition topics."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from ...errors import HeadwaterError
from ...readable_text import moment
from ..ir.topology import Topology
from ..log.commit.records import Purged
from ..log.log import Log
from ..progress.committed import Committed
from ..task_id import TaskId
from .epochs import EpochCommits
from .events import ApplicationPaused, ApplicationResumed, Observer

SAME_SECONDS = 0.2
"""Signals within this time count as one: `timeout` signals its child, and then the child's process group."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stopping(seconds: Callable[[], float] = time.monotonic) -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM or SIGHUP sets, so that a run can finish its epoch, commit and close cleanly.

    Enter it on the main thread, after Spark has started, because Spark installs a handler of its own. A second signal
    ends the process at once. SIGHUP does not: both a closed terminal and its shell send it. An ignored SIGHUP, as under
    `nohup`, stays ignored. `seconds`: a monotonic clock.

    A separate thread receives the signals, through the socket to which the interpreter writes their numbers. A handler
    does not suffice. The kernel may deliver a signal to any thread, as it does to a process that was just resumed, but
    Python runs handlers only on the main thread, once it stops waiting: in a lasting run, never. And a handler that
    sets the event would deadlock if it interrupted the main thread while that holds the event's lock.
    """
    stop = threading.Event()
    receiving, sending = socket.socketpair()
    sending.setblocking(False)
    listener = _Listener(receiving, stop, threading.get_ident(), seconds)
    thread = threading.Thread(target=listener.listen, name="signals", daemon=True)
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    if before[signal.SIGHUP] == signal.SIG_IGN:
        del before[signal.SIGHUP]
    wakeup_before = signal.set_wakeup_fd(sending.fileno(), warn_on_full_buffer=False)
    for number in before:
        signal.signal(number, listener.end_if_again)
    thread.start()
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup_before)
        sending.close()  # the listener reads the end of the stream
        thread.join()
        receiving.close()


class _Listener:
    """Sets `stop` at the first signal, and lets the main thread end the process at a second one."""

    def __init__(
        self, receiving: socket.socket, stop: threading.Event, main_thread: int, seconds: Callable[[], float]
    ) -> None:
        self._receiving = receiving
        self._stop = stop
        self._main_thread = main_thread
        self._seconds = seconds
        self._again = False

    def listen(self) -> None:
        """Receive signals on a thread of its own, until the other end of the socket is closed."""
        first: float | None = None
        while received := self._receiving.recv(1):
            number = received[0]
            if number not in _SIGNALS:
                continue
            self._stop.set()
            if first is None:
                first = self._seconds()
            elif not self._again and number != signal.SIGHUP and self._seconds() - first > SAME_SECONDS:
                self._again = True
                signal.pthread_kill(self._main_thread, number)  # interrupts its wait

    def end_if_again(self, number: int, _: FrameType | None) -> None:
        """The handler of the main thread, the only one that may set handlers: it restores the default handler."""
        if self._again:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)


EVERY_SECONDS = 0.5
"""The least time between two reads of the pause from the log."""


class PausedError(HeadwaterError):
    """A run until caught up cannot start, because the application is paused: `application`, `since` in ms
    since 1970.
    """

    def __init__(self, topology: Topology, since: int) -> None:
        super().__init__(
            f"{topology.application} is paused since {moment(since)}, and so would never catch up",
            f"`headwater resume --select {topology.name}` ends the pause",
        )
        self.application = topology.application
        self.since = since


class Pause:
    """The pause of an application (KIP-834): it starts no epoch and no slice of a restore, and keeps its claim.

    It is kept in the log, because another process asks for it, often on another machine. So it outlasts the driver.
    Used from the loop's thread.
    """

    def __init__(self, log: Log, application: str, observer: Observer) -> None:
        self._log = log
        self._application = application
        self._observer = observer
        self._every = max(EVERY_SECONDS, log.look_seconds())
        self._due = float("-inf")
        self.since: int | None = None

    def asked_for(self) -> bool:
        """Whether the application is paused. Reads the log every EVERY_SECONDS, or at the interval that the log sets.

        Raises LogError.
        """
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self._every
            before, self.since = self.since, self._log.paused_since(self._application)
            if before is None and self.since is not None:
                self._observer.on(ApplicationPaused(self._application, self.since))
            elif before is not None and self.since is None:
                self._observer.on(ApplicationResumed(self._application))
        return self.since is not None


def check_not_paused(topology: Topology, log: Log) -> None:
    """Raise PausedError if the application is paused. Raises LogError."""
    since = log.paused_since(topology.application)
    if since is not None:
        raise PausedError(topology, since)


PURGE_SECONDS = 30.0
"""The purge interval, Kafka Streams' default."""


class RepartitionPurge:
    """Purges consumed records of repartition topics, which have no other readers. Used from the loop's thread.

    Source: `TaskManager.maybePurgeCommittedRecords` of Kafka Streams, with its `repartition.purge.interval.ms`. There
    every client deletes the records that its tasks have committed. Here the driver knows the positions of all tasks, so
    it is one commit.
    """

    def __init__(self, topology: Topology, committed: Committed, commits: EpochCommits) -> None:
        self._committed = committed
        self._commits = commits
        self._due = time.monotonic() + PURGE_SECONDS
        self._seen = 0
        written = {name for part in topology.subtopologies for name in part.repartition_topics}
        self._readers = [
            (TaskId(part.number, partition, part.name), topic)
            for part in topology.subtopologies
            for topic in (topic.name for topic in part.sources if topic.name in written)
            for partition in range(part.partitions)
        ]

    def advance(self) -> None:
        """Commit a purge, if it is due and there are consumed records. Raises FencedError."""
        if not self._readers or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + PURGE_SECONDS
        if self._seen == self._committed.own.number:
            return
        self._seen = self._committed.own.number
        purged = tuple(self._consumed())
        if purged:
            self._commits.purge(purged)

    def _consumed(self) -> Iterator[Purged]:
        """The consumed records, where they are at least a whole segment."""
        own = self._committed.own
        for task, topic in self._readers:
            lanes: Mapping[int, int] = own.tasks.last_commit(task.key(self._committed.application)).positions.get(
                topic, {}
            )
            if whole := {lane: end for lane, end in lanes.items() if own.can_forget(topic, task.partition, lane, end)}:
                yield Purged(topic, task.partition, whole)
