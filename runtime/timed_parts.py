"""Timed spans of work, for traces of runs.

Code names a span (`with timed("fsync"):`). A caller further up collects the spans (`with listening(spans):`). Plugins
(logs, stores) and pure functions may lie between the two. So the collector is a context variable of the thread, not an
argument of all these functions. Without a collector, a span costs less than a microsecond. No span is as small as one
record.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import NamedTuple

MOST_SPANS = 2_000
"""The maximum number of spans in one collector; older ones are dropped. An epoch of a task has a few dozen."""


def now() -> float:
    """The monotonic clock in seconds, which all processes of a machine share."""
    return time.monotonic()


def wall_ms() -> int:
    """The time of this machine, ms since 1970."""
    return time.time_ns() // 1_000_000


class Span(NamedTuple):
    """A named span of work, from `start` to `end` in seconds of `now`. Spans of a thread are nested or disjoint."""

    part: str
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """The duration."""
        return self.end - self.start


class Spans:
    """Collects the spans of one thread.

    `least`: a top-level span shorter than this many seconds is dropped, with all spans in it. `gap`: two successive
    spans with the same name become one if less than this many seconds are between them. So a loop that mostly waits
    produces few spans.
    """

    def __init__(self, least: float = 0.0, gap: float = 0.0, clock: Callable[[], float] = now) -> None:
        self._least = least
        self._gap = gap
        self._clock = clock
        self._ended: deque[Span] = deque(maxlen=MOST_SPANS)
        self._around = 0

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add a span for the block, also if it raises an error."""
        start = self._clock()
        self._around += 1
        try:
            yield
        finally:
            self._around -= 1
            self.add(Span(name, start, self._clock()))

    def add(self, span: Span) -> None:
        """Add a span that has just ended."""
        ended = self._ended
        if not self._around and span.seconds < self._least:
            while ended and ended[-1].start >= span.start:
                ended.pop()
        elif ended and ended[-1].part == span.part and 0 <= span.start - ended[-1].end < self._gap:
            ended[-1] = Span(span.part, ended[-1].start, span.end)
        else:
            ended.append(span)

    def take(self) -> tuple[Span, ...]:
        """The spans that ended since the last call, ordered by start: a span comes before those inside it."""
        found = nested(self._ended)
        self._ended.clear()
        return found


def nested(spans: Sequence[Span]) -> tuple[Span, ...]:
    """The spans ordered by start: a span comes before those inside it.

    Example:

        added   fsync 1-2, write 0-3, commit 3-4
        result  write 0-3, fsync 1-2, commit 3-4
    """
    found = list(spans)
    found.reverse()  # of two spans with equal times the one added last is the outer one; sorting is stable
    found.sort(key=lambda each: (each.start, -each.end))
    return tuple(found)


_LISTENER: ContextVar[Spans | None] = ContextVar("listener", default=None)


@contextmanager
def listening(spans: Spans | None) -> Iterator[None]:
    """Collect the spans of this block and thread in `spans`. None: do not collect any."""
    before = _LISTENER.set(spans)
    try:
        yield
    finally:
        _LISTENER.reset(before)


def timed(name: str) -> AbstractContextManager[None]:
    """A span for the block, for the collector of the thread, if there is one."""
    spans = _LISTENER.get()
    return nullcontext() if spans is None else spans.timed(name)
