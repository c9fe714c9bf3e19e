"""How a run is told to stop: by Ctrl-C, or by SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets, so that a run can finish its epoch, commit and close clean.

    Must be entered on the main thread after Spark has started, which installs a handler of its own. A second signal
    is not waited for: it ends the process as if this were not here.
    """
    stop = threading.Event()
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, _: FrameType | None) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in previous:
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
