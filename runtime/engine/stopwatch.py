"""Measures what a task's epoch costs in one stage."""

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
    """Adds up the seconds of one task in one stage. A phase within another one interrupts that.

    `waited`: how long the stage has waited for the task's rows. `clock`: as `now`. `traced`: whether it also notes when
    each phase, and each part within `tracing`, began and ended.
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
        """Parts of phases that end within are noted, if the stopwatch is `traced`."""
        return listening(self._spans)

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """What happens within is of this phase."""
        before = self._switch(phase)
        try:
            with timed(phase):
                yield
        finally:
            self._switch(before)

    def opened(self, name: str, opening: Callable[[], StateStore]) -> CommittedRows:
        """A store as the operators use it: opening it and reading from it is `state`. Its size is noted."""
        with self.phase("state"):
            store = opening()
            with timed("size of store"):
                size = size_of(store)
            if size is not None:
                self._stores[name] = size
            return TimedRows(store, self)

    def added_to(self, before: Measured) -> Measured:
        """What the stages before have measured, together with this one, which hands over its rows now."""
        seconds = Seconds(sql=self._waited, **self._seconds)
        spans = () if self._spans is None else self._spans.take()
        return before.then(seconds, self.volume, self._clock(), self._stores, spans)

    def added_at_the_end_to(self, before: Measured) -> Measured:
        """What a task has measured up to its last stage, with what that stage has done since for all tasks."""
        spans = () if self._spans is None else self._spans.take()
        return before.ending(Seconds(**self._seconds), spans)

    def _switch(self, phase: Phase | None) -> Phase | None:
        at = self._clock()
        if self._phase is not None:
            self._seconds[self._phase] = self._seconds.get(self._phase, 0.0) + at - self._since
        before, self._phase, self._since = self._phase, phase, at
        return before


class TimedRows:
    """A store's rows, reading of which counts as `state`."""

    def __init__(self, store: CommittedRows, stopwatch: Stopwatch) -> None:
        self._store = store
        self._stopwatch = stopwatch

    @property
    def position(self) -> int:
        """Changelog records that the store holds."""
        return self._store.position

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `StateStore.get_many`."""
        with self._stopwatch.phase("state"), timed("read rows"):
            return self._store.get_many(keys)

    def range(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """See `StateStore.range`. What is done with each row counts too."""
        with self._stopwatch.phase("state"), timed("read rows"):
            yield from self._store.range(start, end, reverse=reverse)


def bytes_taken(plan: TaskPlan, positions: Mapping[str, Mapping[int, int]]) -> int:
    """About how many bytes the records take in the log that a task has consumed: up to `positions`, by topic and lane.

    Of a range that is consumed in part, the bytes are those of the same part.
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
    """Where the records lie that a task has consumed: of each lane of a topic, from the first to the last."""
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
