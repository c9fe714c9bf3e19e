"""Updates held until a time limit or a window's close."""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

import numpy as np

from ....errors import HeadwaterError
from ...ir.topology import Store
from ...records.arrays import Bools, Int64s
from ...timed_parts import timed
from ..operators.tables import Suppress
from .keyed.groups import LOWEST, in_groups
from .node import Edges, RowFailedError, TaskEpoch
from .rows import Rows, concat
from .suppress_buffer import Arriving, Buffer, Pool, Waiting, pooled

# When changes that wait go on: which of the changes of a key become one, and at which of them it goes on.
#
# The rules are those of Kafka Streams' `KTableSuppressProcessor`, which looks at one change after another: the change
# is put into the buffer, where it takes the place of one of the same key, and then those go on that have waited long
# enough, the oldest first.


@dataclass(frozen=True)
class Arrivals:
    """Changes in the order in which they arrive. The first `waiting` ones have waited since before.

    `code`: the number of the key; numbers are in the order of keys. `time`: by which a change waits if it is the first
    of its key, ms. `passed`: changes of this time and earlier ones go on when this one has come; it may have one more,
    as time may pass without a change behind all of them.
    """

    code: Int64s
    keys: int
    time: Int64s
    passed: Int64s
    waiting: int

    def __len__(self) -> int:
        return len(self.code)


@dataclass(frozen=True)
class Schedule:
    """What waits, or has waited: for each entry its `first` and `last` change, and the change at which it goes on.

    `released` may be the number of changes, where time passes behind them. `stays`: which entries still wait.
    """

    first: Int64s
    last: Int64s
    released: Int64s
    stays: Bools

    def counts(self, arrivals: Arrivals, before: int) -> Int64s:
        """How many wait after each change. `before`: how many have waited before the first one that is new."""
        events = len(arrivals.passed)
        begun = np.bincount(self.first[self.first >= arrivals.waiting], minlength=events)
        gone = np.bincount(self.released[~self.stays], minlength=events)
        return before + np.cumsum(begun - gone)


def unlimited(arrivals: Arrivals) -> Schedule:
    """The schedule of a buffer that holds any number of changes."""
    total, events = len(arrivals), len(arrivals.passed)
    order = in_groups(arrivals.code, arrivals.keys)
    place = arrivals.code[order] * (events + 1)
    # A change that waits alone goes on with the first one that is late enough, and not before it has come itself.
    late_enough = np.maximum(np.searchsorted(arrivals.passed, arrivals.time), arrivals.waiting)
    released = np.maximum(late_enough, np.arange(total))
    # In the order of keys, the entry that begins with a change has all up to the next entry's first one.
    until = np.searchsorted(place + order, place + released[order], side="right")
    begins = np.searchsorted(arrivals.code[order], np.arange(arrivals.keys))
    ends = np.append(begins[1:], total)
    firsts = begins if (until[begins] == ends).all() else _chained(begins, ends, until)
    out = released[order[firsts]]
    return Schedule(order[firsts], order[until[firsts] - 1], out, out == events)


def _chained(begins: Int64s, ends: Int64s, until: Int64s) -> Int64s:
    """The places at which entries begin: that of each key's first change, then where the entry before has ended."""
    following = until.tolist()
    found: list[int] = []
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        place = begin
        while place < end:
            found.append(place)
            place = following[place]
    return np.array(found, np.int64)


def limited(arrivals: Arrivals, most: int, before: int) -> Schedule:
    """The schedule of a buffer from which the oldest change goes on where more than `most` wait.

    `before`: how many have waited so far. Those that are not among `arrivals` are younger than any that goes on.
    """
    total, waiting, count = len(arrivals), arrivals.waiting, before
    code, time, passed = arrivals.code.tolist(), arrivals.time.tolist(), arrivals.passed.tolist()
    events = len(passed)
    first, last, released = list(range(waiting)), list(range(waiting)), [events] * waiting
    entry = [-1] * arrivals.keys
    for number in range(waiting):
        entry[code[number]] = number
    oldest = [(time[number], code[number]) for number in range(waiting)]
    heapify(oldest)
    for number in range(waiting, events):
        key = code[number] if number < total else -1
        if number == total:
            pass  # time alone
        elif entry[key] >= 0:
            last[entry[key]] = number
        else:
            entry[key] = len(first)
            first.append(number)
            last.append(number)
            released.append(events)
            heappush(oldest, (time[number], key))
            count += 1
        while oldest and (oldest[0][0] <= passed[number] or count > most):
            _, gone = heappop(oldest)
            released[entry[gone]] = number
            entry[gone] = -1
            count -= 1
    out = np.array(released, np.int64)
    return Schedule(np.array(first, np.int64), np.array(last, np.int64), out, out == events)


def first_above(counts: Int64s, most: int) -> int | None:
    """The first change after which more than `most` wait; None if there is none."""
    above: Bools = counts > most
    return int(np.argmax(above)) if above.any() else None


# The operator of the `suppress` step: changes of a table wait in a buffer, and later ones take their place.
#
# The rules are Kafka Streams' (`KTableSuppressProcessorSupplier`), but for the old row that goes on with a change: it
# is the one that went on last, where Kafka sends the one before the last change.


class BufferFullError(HeadwaterError):
    """More changes would wait than `max_records`, and `when_full` is `fail`."""

    def __init__(self, store: Store, most: int) -> None:
        shorter = "a shorter `grace`" if store.type == "window_changes" else "a shorter `for`, `when_full: emit`"
        super().__init__(
            f"the buffer {store.name} is full: {most:,} changes wait, and this one would be one more",
            f"give `suppress` a higher `max_records`, or {shorter}; nothing of this epoch is committed",
        )
        self.store = store.name
        self.most = most


def suppress(node: Suppress, edges: Edges, epoch: TaskEpoch) -> None:
    """See `Suppress`. Raises RowFailedError."""
    arriving = Arriving.of(node.store, edges[node.flow])
    rows = arriving.rows
    bare = replace(rows, headers=None, columns={}, key=(), value=(), state=None, collapsed=False)
    places = concat([bare, *epoch.places_of_time()])
    if not len(places):
        edges[node.flow] = rows
        return
    clock = np.maximum(np.maximum.accumulate(places.timestamp), epoch.clock(node.store.name))
    epoch.advance(node.store.name, int(clock[-1]))
    buffer = Buffer(node.store, epoch.store(node.store))
    with timed("suppress"):
        scheduled = _scheduled(node, buffer, arriving, places, clock - node.wait_ms)
    scheduled.store(buffer)
    edges[node.flow] = scheduled.going_on(node.store.type == "window_changes", node.old)


def _scheduled(node: Suppress, buffer: Buffer, arriving: Arriving, places: Rows, passed: Int64s) -> _Scheduled:
    """What becomes of changes that wait and that arrive. `passed`: by the `places` where they go on."""
    # Final results replace what waits without looking at it, unless they are counted.
    looked_up = len(arriving.first) if node.store.type == "changes" or node.max_records is not None else 0
    keys, times = arriving.keys.slice(0, looked_up), arriving.time[arriving.first[:looked_up]]

    def arrivals(oldest: int) -> tuple[Pool, Arrivals]:
        pool = pooled(node.store, buffer.read(keys, times, int(passed[-1]), oldest), arriving)
        earlier = np.full(pool.waiting, LOWEST)
        found = Arrivals(pool.code, len(pool.keys), pool.changes.time, np.concatenate([earlier, passed]), pool.waiting)
        return pool, found

    pool, found = arrivals(0)
    schedule, rows = unlimited(found), arriving.rows
    if node.max_records is None:
        buffer.note_count(None)
        return _Scheduled(pool, schedule, places)
    before = buffer.count()
    full = first_above(schedule.counts(found, before), node.max_records)
    if full is not None:
        if node.when_full == "fail":
            order = int(rows.order[full - pool.waiting])
            raise RowFailedError(order, BufferFullError(node.store, node.max_records))
        # So many of the oldest may go on before their time, and no others.
        pool, found = arrivals(before + len(rows) - node.max_records)
        schedule = limited(found, node.max_records, before)
    buffer.note_count(int(schedule.counts(found, before)[-1]))
    return _Scheduled(pool, schedule, places)


@dataclass(frozen=True)
class _Scheduled:
    """What becomes of the changes of a pool. `places`: of those that arrive, and where time passes without one."""

    pool: Pool
    schedule: Schedule
    places: Rows

    def store(self, buffer: Buffer) -> None:
        """Bring the buffer to where it is after the epoch."""
        first, last, pool = self.schedule.first, self.schedule.last, self.pool
        stays = self.schedule.stays
        gone = first[~stays & (first < pool.waiting)]
        buffer.take_away(pool.keys_of(gone), pool.changes.time[gone])
        put = np.flatnonzero(stays & (last >= pool.waiting))
        put = put[np.argsort(pool.code[first[put]])]
        kept = Waiting(pool.keys_of(first[put]), pool.entries(first[put], last[put]))
        buffer.keep(kept, np.flatnonzero(first[put] >= pool.waiting))

    def going_on(self, final: bool, old: bool) -> Rows:
        """The changes that go on, behind the change with which they do, oldest first, with the rows they replace.

        `final`: without deletions.
        """
        schedule, pool = self.schedule, self.pool
        chosen = ~schedule.stays
        if final:
            chosen &= pool.changes.exists[schedule.last]
        first, last = schedule.first[chosen], schedule.last[chosen]
        by = schedule.released[chosen]
        order = np.lexsort((pool.code[first], pool.changes.time[first], by))
        first, last, by = first[order], last[order], by[order] - pool.waiting
        number = np.arange(len(by)) - np.searchsorted(by, by)
        return pool.changed(self.places.take(by).deeper(number), first, last, old)
