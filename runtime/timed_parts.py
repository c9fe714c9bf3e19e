"""Parts of a piece of work with their times, for traces of runs.

Whoever works names what it does (`with timed("fsync"):`), whoever wants to know listens around it. Between the two are
protocols that others implement (logs, stores), and pure functions. So the listener is a context variable, which is of
one thread and one piece of work only, and no argument of all of these. Where nobody listens, a part costs less than a
microsecond; no part is as small as a record.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import NamedTuple

MOST_SPANS = 2_000
"""The most parts that are kept of one piece of work: the newest. A task's epoch has some dozens."""


def now() -> float:
    """Seconds of a clock that never goes back, and that all processes of a machine share."""
    return time.monotonic()


class Span(NamedTuple):
    """A part of some work, from `start` to `end` in seconds of `now`. Two of a thread are nested or apart."""

    part: str
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.start


class Spans:
    """Listens to the parts of one thread's work.

    `least`, `gap`: seconds. Parts that take less are left out, with all within them, and two by the same name with less
    between them become one. So a loop that mostly waits has few.
    """

    def __init__(self, least: float = 0.0, gap: float = 0.0, clock: Callable[[], float] = now) -> None:
        self._least = least
        self._gap = gap
        self._clock = clock
        self._ended: deque[Span] = deque(maxlen=MOST_SPANS)
        self._around = 0

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """What happens within is this part, also if it fails."""
        start = self._clock()
        self._around += 1
        try:
            yield
        finally:
            self._around -= 1
            self.add(Span(name, start, self._clock()))

    def add(self, span: Span) -> None:
        """A part that has ended just now."""
        ended = self._ended
        if not self._around and span.seconds < self._least:
            while ended and ended[-1].start >= span.start:
                ended.pop()
        elif ended and ended[-1].part == span.part and 0 <= span.start - ended[-1].end < self._gap:
            ended[-1] = Span(span.part, ended[-1].start, span.end)
        else:
            ended.append(span)

    def take(self) -> tuple[Span, ...]:
        """What has ended since the last call, in the order of starts: a part before those within it."""
        found = nested(self._ended)
        self._ended.clear()
        return found


def nested(spans: Sequence[Span]) -> tuple[Span, ...]:
    """In the order of starts: a part before those within it."""
    found = list(spans)
    found.reverse()  # of two at the same time the one that ended last is around the other, and sorting keeps that order
    found.sort(key=lambda each: (each.start, -each.end))
    return tuple(found)


_LISTENER: ContextVar[Spans | None] = ContextVar("listener", default=None)


@contextmanager
def listening(spans: Spans | None) -> Iterator[None]:
    """Give the parts within this block, in this thread, to `spans`; to nobody if it is None."""
    before = _LISTENER.set(spans)
    try:
        yield
    finally:
        _LISTENER.reset(before)


def timed(name: str) -> AbstractContextManager[None]:
    """What happens within is a part by this name of the work that somebody may listen to."""
    spans = _LISTENER.get()
    return nullcontext() if spans is None else spans.timed(name)
