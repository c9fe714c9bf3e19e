"""When punctuations of a processor are due. The rules are Kafka Streams' (`PunctuationQueue`, `PunctuationSchedule`).

Stream time is checked after each record of the task, even if the record does not reach the processor. A due punctuation
runs once with the current time, however many intervals have passed. Wall-clock time is the time of the epoch. It is
checked after the last record. An epoch without records checks both. An epoch in which only time passes checks neither:
the rows that steps release are processed before any punctuation.

Schedules outlast an epoch, although processors do not. A schedule from `init` is created again by the next `init`, and
resumes with its time or stays cancelled. For a schedule that is created later, the name of the method is kept.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Literal

from ....environment import parse_duration
from ....log.commit.records import Scheduled
from ....python_functions.results import UnfitValueError
from ..order.origins import Origins

PunctuationType = Literal["stream_time", "wall_clock"]
Callback = Callable[[int], object]

CANCELLED = -1
"""The time of a schedule of `init` that was cancelled."""

Position = tuple[int, ...]
"""A position in the epoch: positions sort in the order of processing.

The position of a record is (its number,). A punctuation, and all that it forwards, has the number of the record that it
follows and five more levels: `BEHIND`, 0 for stream time or 1 for wall clock, the time for which it was due (ms), the
processor's turn, and the schedule's place. A punctuation that a punctuation has scheduled for the same moment has five
more levels behind these."""

MOST_CHAINED = 10_000
"""The most punctuations after one record that were scheduled by a punctuation which was itself scheduled there. They
are due immediately, so without a limit the epoch might never end."""

BEHIND = 2**62
"""The path level of rows from punctuations. It sorts them behind all rows of the record itself."""

_LEVELS = 5
"""How many levels a punctuation adds to a position."""


@dataclass(eq=False)
class Cancellable:
    """A schedule. `interval`: ms. `reject_outside`: see `Moment`.

    `method`: the name by which a later epoch finds the callback. Empty for a schedule from `init`. `number`: of a
    schedule from `init`, its place among those of the same kind and interval; otherwise its place among all later
    schedules of the processor. `place`: its place among all schedules of the processor, in the order of creation.
    `depth`: how many punctuations have scheduled one another for the same moment, up to this one.
    """

    kind: PunctuationType
    interval: int
    callback: Callback
    method: str
    number: int
    reject_outside: Callable[[], None] = field(repr=False)
    due: int = 0
    cancelled: bool = False
    place: int = 0
    depth: int = 0

    @property
    def name(self) -> str:
        """The name of the callback."""
        return getattr(self.callback, "__name__", "punctuate")

    def cancel(self) -> None:
        """Cancel the schedule: it does not run again."""
        self.reject_outside()
        self.cancelled = True

    def go_on(self, now: int) -> None:
        """Set the next due time, after a run at `now` (ms).

        Missed intervals are skipped. With an interval of 10: due at 20 and run at 45, it is next due at 50; run at 20,
        it is next due at 30.
        """
        self.due += (max(now - self.due, 0) // self.interval + 1) * self.interval
        self.depth = 0


@dataclass(frozen=True)
class Due:
    """A punctuation to run. `at`: its position in the epoch. `time`: the argument of the callback, ms."""

    schedule: Cancellable
    at: Position
    time: int


class Schedules:
    """The schedules of one processor of a task during an epoch."""

    def __init__(
        self,
        processor: str,
        turn: int,
        before: Iterable[Scheduled],
        origins: Origins,
        now: int,
        reject_outside: Callable[[], None],
        held: bool = False,
    ) -> None:
        """`turn`: the processor's place in its subtopology. `before`: the schedules that the previous epoch kept.

        `now`: the epoch's time, ms. `reject_outside`: see `Moment`. `held`: whether no punctuation runs in this epoch.
        """
        self._processor = processor
        self._turn = turn
        self._before = [each for each in before if each.processor == processor]
        self._of_init = {(each.kind, each.interval_ms, each.number): each for each in self._before if not each.callback}
        self._origins = origins
        self._now = now
        self._held = held
        self._all: list[Cancellable] = []
        self._by_method: defaultdict[str, list[Cancellable]] = defaultdict(list)
        self._queue: list[tuple[Position, Cancellable]] = []
        self._made: Counter[tuple[str, int]] = Counter()
        self._next_number = max((each.number for each in self._before if each.callback), default=-1) + 1
        self._at: Position = (-1,)
        self._reject_outside = reject_outside
        self._runs: Due | None = None
        self._chained: tuple[int, int] = (-1, 0)

    @property
    def next_record(self) -> int:
        """The number of the record after which the next punctuation is due. Beyond all records if none is due."""
        return self._queue[0][0][0] if self._queue else len(self._origins) + 1

    def of_init(self, interval: str, kind: PunctuationType, callback: Callback) -> Cancellable:
        """Create a schedule in `init`, or resume the one of an earlier epoch. Raises UnfitValueError."""
        length = _checked(interval, kind)
        number = self._made[kind, length]
        self._made[kind, length] += 1
        made = Cancellable(kind, length, callback, "", number, self._reject_outside)
        found = self._of_init.get((kind, length, number))
        made.cancelled = found is not None and found.due == CANCELLED
        self._begin(made, self._first(made) if found is None else found.due)
        return made

    def restore(self, method: Callable[[str], Callback]) -> None:
        """Resume the schedules that earlier epochs created after `init`. `method`: finds the callback by its name."""
        for each in self._before:
            if each.callback:
                kind: PunctuationType = "wall_clock" if each.kind == "wall_clock" else "stream_time"
                callback, length = method(each.callback), each.interval_ms
                made = Cancellable(kind, length, callback, each.callback, each.number, self._reject_outside)
                self._begin(made, each.due)

    def later(self, interval: str, kind: PunctuationType, callback: Callback, method: str, at: Position) -> Cancellable:
        """Create a schedule while records are processed. `at`: the current position. Raises UnfitValueError."""
        length = _checked(interval, kind)
        made = Cancellable(kind, length, callback, method, self._next_number, self._reject_outside)
        self._next_number += 1
        self._at = at
        made.depth = self._depth(made)
        self._begin(made, self._first(made))
        return made

    def _depth(self, made: Cancellable) -> int:
        """The `depth` of a new schedule. Raises UnfitValueError if too many punctuations schedule one another."""
        maker = self._runs
        if maker is None or made.kind != "stream_time":
            return 0
        record, chained = self._chained
        depth, at = maker.schedule.depth + 1, maker.at[0]
        chained = (chained if record == at else 0) + (depth > 1)
        self._chained = at, chained
        if chained > MOST_CHAINED:
            raise UnfitValueError(
                f"the punctuation `{made.name}` of {self._processor}, every {made.interval} ms of stream time, is "
                f"scheduled at {maker.time} by one that a punctuation has scheduled at this time, for the "
                f"{MOST_CHAINED + 1:,}th time: each is due at once, so the epoch would never end. One schedule runs "
                "again and again: do not make another one when it runs, or do so only for what it has not seen"
            )
        return depth

    def running(self, method: str) -> list[Cancellable]:
        """The active schedules of a method, in the order of creation."""
        found = [each for each in self._by_method[method] if not each.cancelled]
        self._by_method[method] = found  # a cancelled schedule never becomes active again
        return [*found]

    def due(self, until: Position | None = None) -> Iterator[Due]:
        """The punctuations that run before position `until`. None: up to the end of the epoch.

        The caller runs each punctuation before it takes the next one.
        """
        while (at := self.next_at()) is not None and (until is None or at < until):
            due = self.take()
            yield due
            self.ran(due)

    def next_at(self) -> Position | None:
        """The position of the next punctuation. None if none is left."""
        while self._queue and self._queue[0][1].cancelled:
            heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def take(self) -> Due:
        """Remove the next punctuation from the queue, to run it now. The queue must not be empty (`next_at`)."""
        at, schedule = heappop(self._queue)
        self._at = at
        self._runs = Due(schedule, at, self._now if schedule.kind == "wall_clock" else self._origins.time(at[0]))
        return self._runs

    def ran(self, due: Due) -> None:
        """Enter the schedule of a finished punctuation into the queue again, unless it was cancelled."""
        self._runs = None
        if not due.schedule.cancelled:
            due.schedule.go_on(due.time)
            self._enter(due.schedule)

    def left(self) -> Iterator[Scheduled]:
        """The schedules as the next epoch needs them."""
        for each in self._all:
            due = CANCELLED if each.cancelled else each.due
            if not each.cancelled or not each.method:
                yield Scheduled(self._processor, each.kind, each.interval, each.number, due, each.method)

    def _first(self, schedule: Cancellable) -> int:
        return 0 if schedule.kind == "stream_time" else self._now + schedule.interval

    def _begin(self, schedule: Cancellable, due: int) -> None:
        schedule.due = due
        # Places are stable: `init` creates its schedules in the same order in every epoch, the others follow by number.
        schedule.place = len(self._all)
        self._all.append(schedule)
        self._by_method[getattr(schedule.callback, "__name__", "")].append(schedule)
        if not schedule.cancelled:
            self._enter(schedule)

    def _enter(self, schedule: Cancellable) -> None:
        """Put a schedule into the queue if it is due in this epoch."""
        if self._held:
            return
        last = len(self._origins) - 1
        if schedule.kind == "wall_clock":
            if schedule.due <= self._now:
                self._push(schedule, max(last, 0), 1)
            return
        if last < 0:
            if schedule.due <= self._origins.before:
                self._push(schedule, 0, 0)
            return
        number = max(self._at[0], self._origins.reached(schedule.due))
        if number <= last and (number, BEHIND, 1) > self._at:
            self._push(schedule, number, 0)

    def _push(self, schedule: Cancellable, number: int, clock: int) -> None:
        punctuation = (BEHIND, clock, schedule.due, self._turn, schedule.place)
        at: Position = (number, *punctuation)
        # A punctuation that was due before the running one comes directly behind it: positions never decrease.
        for depth in range(1, len(self._at) + 1, _LEVELS):
            at = (*self._at[:depth], *punctuation) if number == self._at[0] else at
            if at > self._at:
                break
        heappush(self._queue, (at, schedule))


def position_of(number: int, path: Iterable[int]) -> Position:
    """The position of a row in the epoch. `number`: of its record. `path`: the levels of its path behind the first.

    Example: levels of punctuations are kept, levels behind them are not.

        number 3, path (-1, -1)                        -> (3,)
        number 3, path (BEHIND, 0, 60_000, 1, 0, 2)    -> (3, BEHIND, 0, 60_000, 1, 0)
    """
    levels, end = tuple(path), 0
    while levels[end : end + 1] == (BEHIND,):
        end += _LEVELS
    return (number, *levels[:end])


def _checked(interval: str, kind: str) -> int:
    """The interval of a schedule in ms. Raises UnfitValueError for a wrong interval or kind."""
    if kind not in ("stream_time", "wall_clock"):
        raise UnfitValueError(f'a punctuation goes by "stream_time" or "wall_clock", not by {kind!r}')
    try:
        length = parse_duration(interval)
    except (TypeError, ValueError):
        raise UnfitValueError(f'the interval of a punctuation is a duration such as "30s", not {interval!r}') from None
    if not length:
        raise UnfitValueError("the interval of a punctuation must be longer than 0")
    return length
