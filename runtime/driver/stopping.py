"""Stops a run on Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SAME_SECONDS = 0.2
"""Signals within this time count as one: `timeout` sends its signal to its child, and then to the child's group."""


@contextmanager
def stopping(seconds: Callable[[], float] = time.monotonic) -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets, so that a run can finish its epoch, commit and close cleanly.

    Enter it on the main thread and after Spark has started, because Spark installs a handler of its own. A second
    signal ends the process at once. `seconds`: a clock that never goes back.
    """
    stop = threading.Event()
    first: float | None = None
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal first
        stop.set()
        if first is None:
            first = seconds()
        elif seconds() - first > SAME_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    for number in previous:
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
