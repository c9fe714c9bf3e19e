"""Stops a run on Ctrl-C, on SIGTERM, or when its terminal is closed."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

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
