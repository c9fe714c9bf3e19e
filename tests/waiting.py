"""Wait for facts, never for time: nothing else in the tests sleeps, or gives up after so many seconds.

What never comes is ended by the one time limit that every test has (`timeout` in `pyproject.toml`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Fact = TypeVar("Fact")

_PAUSE_SECONDS = 0.005

_PAUSES = 4
"""How many times as long as a look itself takes: what is waited for needs the processor more than who waits."""


def wait_until(fact: Callable[[], Fact], possible: Callable[[], bool] = lambda: True, why: object = "") -> Fact:
    """Ask for `fact` until it is true, and give it.

    `possible`: whether it may still come true. Once it may not, the test fails at once, and says `why` (which may be
    text or something whose text is to be made then).
    """
    while True:
        begun = time.thread_time()
        hope = possible()  # first: what ends meanwhile may have made it true before
        if found := fact():
            return found
        assert hope, str(why() if callable(why) else why) or "what the test waits for cannot come any more"
        time.sleep(max(_PAUSE_SECONDS, _PAUSES * (time.thread_time() - begun)))
