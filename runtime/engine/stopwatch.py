"""Measures the time and the volume of a task's epoch in one stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Literal

from ..log.errors import OffsetRange
from ..state.store import StateStore, size_of
from ..tasks.measured import Measured, Seconds, StoreSize, Volume
from ..tasks.plan import TaskPlan
from ..timed_parts import Span, Spans, listening, now, timed
from .execution.node import CommittedRows

Phase = Literal["read", "operators", "state", "write"]


class Stopwatch:
    """Adds up the seconds of one task in one stage, by phase. A nested phase interrupts the outer one.

    `waited`: how long the stage waited for the task's rows, seconds. `clock`: see `now`. `traced`: whether it also
    records the start and end of each phase, and of each part within `tracing`.
    """

    def __init__(self, waited: float = 0.0, clock: Callable[[], float] = now, *, traced: bool = False) -> None:
        self._spans = Spans(clock=clock) if traced else None
        if self._spans is not None and waited:
            at = clock()
            self._spans.add(Span("sql", at - waited, at))
        self._clock = clock
        self._seconds: dict[Phase, float] = {}
        self._waited = waited
        self._phase: Phase | None = None
        self._since = 0.0
        self._stores: dict[str, StoreSize] = {}
        self.volume = Volume()

    def tracing(self) -> AbstractContextManager[None]:
        """A context that records the parts of phases, if the stopwatch is `traced`."""
        return listening(self._spans)

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """A context. Its time counts as this phase."""
        before = self._switch(phase)
        try:
            with timed(phase):
                yield
        finally:
            self._switch(before)

    def opened(self, name: str, opening: Callable[[], StateStore]) -> CommittedRows:
        """A store for operators. Opening and reading it counts as `state`. Records its size."""
        with self.phase("state"):
            store = opening()
            with timed("size of store"):
                size = size_of(store)
            if size is not None:
                self._stores[name] = size
            return TimedRows(store, self)

    def added_to(self, before: Measured) -> Measured:
        """The measurements of the stages so far, including this one. Called when this stage hands over its rows."""
        seconds = Seconds(sql=self._waited, **self._seconds)
        spans = () if self._spans is None else self._spans.take()
        return before.then(seconds, self.volume, self._clock(), self._stores, spans)

    def added_at_the_end_to(self, before: Measured) -> Measured:
        """The measurements of a task, plus the work that its last stage did at the end for all tasks."""
        spans = () if self._spans is None else self._spans.take()
        return before.ending(Seconds(**self._seconds), spans)

    def _switch(self, phase: Phase | None) -> Phase | None:
        at = self._clock()
        if self._phase is not None:
            self._seconds[self._phase] = self._seconds.get(self._phase, 0.0) + at - self._since
        before, self._phase, self._since = self._phase, phase, at
        return before


class TimedRows:
    """A store's rows. Reading them counts as `state`."""

    def __init__(self, store: CommittedRows, stopwatch: Stopwatch) -> None:
        self._store = store
        self._stopwatch = stopwatch

    @property
    def position(self) -> int:
        """The number of changelog records that the store contains."""
        return self._store.position

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `StateStore.get_many`."""
        with self._stopwatch.phase("state"), timed("read rows"):
            return self._store.get_many(keys)

    def range(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """See `StateStore.range`. The work of the caller with each row counts, too."""
        with self._stopwatch.phase("state"), timed("read rows"):
            yield from self._store.range(start, end, reverse=reverse)


def bytes_taken(plan: TaskPlan, positions: Mapping[str, Mapping[int, int]]) -> int:
    """The approximate size in the log of the records that a task consumed. `positions`: topic -> lane -> end.

    A partly consumed range counts in proportion.

    Example: a lane starts at position 5 and is consumed up to 15. Its ranges are 0 to 10 (1,000 bytes) and 10 to 20
    (400 bytes). The result is 1000 * 5 / 10 + 400 * 5 / 10 = 700.
    """
    found = 0.0
    for topic in plan.inputs:
        ends = positions.get(topic.topic, {})
        for lane in topic.lanes:
            end = ends.get(lane.lane, lane.position)
            for each in lane.ranges:
                taken = min(end, each.end) - max(lane.position, each.start)
                if taken > 0:
                    found += each.size * taken / (each.end - each.start)
    return round(found)


def places_taken(plan: TaskPlan, positions: Mapping[str, Mapping[int, int]]) -> tuple[OffsetRange, ...]:
    """The offsets of the records that a task consumed: one range for each lane, from the first to the last record.

    Example: as in `bytes_taken`, with the offsets of the ranges starting at 100 and 110. The result is the range of
    offsets from 105 to 115.
    """
    found = []
    for topic in plan.inputs:
        for lane in topic.lanes:
            end = positions.get(topic.topic, {}).get(lane.lane, lane.position)
            within = [each for each in lane.ranges if each.start < end and each.end > lane.position]
            if within:
                first, last = within[0], within[-1]
                start = first.start_offset + max(0, lane.position - first.start)
                behind = last.start_offset + min(end, last.end) - last.start
                found.append(OffsetRange(topic.topic, plan.key.partition, start, behind))
    return tuple(found)
