"""The operator of `suppress`: holds changes of a table back, for a time or until their window closes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

import numpy as np

from ....errors import HeadwaterError
from ...ir.topology import Store
from ...records.arrays import Bools, Int64s
from ...timed_parts import timed
from ..operators.tables import Suppress
from .keyed.groups import LOWEST, in_groups, places_in_runs
from .node import Edges, RowFailedError, TaskEpoch
from .rows import Rows, concat
from .suppress_buffer import Arriving, Buffer, Pool, Waiting, pooled

# The schedule of a buffer: the changes of a key that become one entry, and the change that releases an entry.
#
# The rules are those of Kafka Streams' `KTableSuppressProcessor`. It handles one change after another. The change goes
# into the buffer, and replaces the entry of its key. Then the entries that have waited long enough are released, the
# oldest first. Changes that are released go on to the next step.


@dataclass(frozen=True)
class Arrivals:
    """Changes in the order of arrival. The first `waiting` ones wait since an earlier epoch.

    `code`: number of the key, in the order of keys. `keys`: the number of keys. `time`: for the first change of an
    entry, the time by which the entry waits, ms. `passed`: each change releases the entries with a time up to this, ms.
    `passed` may have one entry more than changes: time that passes without a change, behind all of them.
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
    """The entries of a buffer in an epoch. `first`, `last`: the first and last change of each entry.

    `released`: the change that releases each entry; it is an index of `Arrivals.passed`, or their number. `stays`:
    whether each entry still waits after the epoch.
    """

    first: Int64s
    last: Int64s
    released: Int64s
    stays: Bools

    def counts(self, arrivals: Arrivals, before: int) -> Int64s:
        """The number of waiting entries after each change. `before`: the number before the epoch."""
        events = len(arrivals.passed)
        begun = np.bincount(self.first[self.first >= arrivals.waiting], minlength=events)
        gone = np.bincount(self.released[~self.stays], minlength=events)
        return before + np.cumsum(begun - gone)


def unlimited(arrivals: Arrivals) -> Schedule:
    """The schedule of a buffer without a limit of entries.

    Example: four changes of the keys 0, 1, 0, 0.

        arrivals = Arrivals(code=[0, 1, 0, 0], keys=2, time=[10, 20, 30, 50], passed=[0, 5, 15, 40], waiting=0)
        unlimited(arrivals)
            first       [0, 3, 1]
            last        [2, 3, 1]
            released    [2, 4, 3]
            stays       [False, True, False]
        unlimited(arrivals).counts(arrivals, before=0)    [1, 2, 1, 1]

    Changes 0 and 2 become one entry. Change 2 passes 15 ms, so it releases this entry, which waits by 10 ms. Change 3
    begins the next entry of key 0, and releases that of change 1.
    """
    total, events = len(arrivals), len(arrivals.passed)
    order = in_groups(arrivals.code, arrivals.keys)
    # `place + change` is one sorted number for key and change, so one binary search serves all keys.
    place = arrivals.code[order] * (events + 1)
    # The first change that passes the time of an entry releases it, but not before the entry exists.
    late_enough = np.maximum(np.searchsorted(arrivals.passed, arrivals.time), arrivals.waiting)
    released = np.maximum(late_enough, np.arange(total))
    # Sorted by key: `until` is where the entry that would begin at each place ends.
    until = np.searchsorted(place + order, place + released[order], side="right")
    begins = np.searchsorted(arrivals.code[order], np.arange(arrivals.keys))
    ends = np.append(begins[1:], total)
    firsts = begins if (until[begins] == ends).all() else _chained(begins, ends, until)
    out = released[order[firsts]]
    return Schedule(order[firsts], order[until[firsts] - 1], out, out == events)


def _chained(begins: Int64s, ends: Int64s, until: Int64s) -> Int64s:
    """The places where entries begin: at the first change of each key, then wherever the entry before ends.

    Example: one key has the places 0 to 4; entries that begin at 0, 2 and 3 end at 2, 3 and 5.

        _chained(begins=[0], ends=[5], until=[2, 3, 3, 5, 5])    [0, 2, 3]
    """
    following = until.tolist()
    found: list[int] = []
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        place = begin
        while place < end:
            found.append(place)
            place = following[place]
    return np.array(found, np.int64)


def limited(arrivals: Arrivals, most: int, before: int) -> Schedule:
    """The schedule of a buffer with at most `most` entries: a change beyond this releases the oldest entry.

    `before`: the number of entries before the epoch. Those not in `arrivals` are younger than any released one.

    Example: the arrivals of `unlimited`, with at most one entry. Change 1 releases the entry of change 0, and so on.

        limited(arrivals, most=1, before=0)
            first       [0, 1, 2]
            last        [0, 1, 3]
            released    [1, 2, 3]
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
    """The first change after which more than `most` entries wait, or None. `counts`: see `Schedule.counts`."""
    above: Bools = counts > most
    return int(np.argmax(above)) if above.any() else None


# The operator of the `suppress` step: changes of a table wait in a buffer, and later changes of a key replace them.
#
# The rules are Kafka Streams' (`KTableSuppressProcessorSupplier`), with one difference: the replaced row of a released
# change is the row that was released last. Kafka sends the row before the last change.


class BufferFullError(HeadwaterError):
    """More entries would wait than `max_records`, and `when_full` is `fail`."""

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
    places = concat([replace(rows.bare(), headers=None), *epoch.places_of_time()])
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
    """Schedule waiting and arriving changes. `passed`: of each of `places`, see `Arrivals`."""
    # Final results replace entries without reading them, unless the number of entries is limited.
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
        # At most this many of the oldest entries can be released before their time. Read them too.
        pool, found = arrivals(before + len(rows) - node.max_records)
        schedule = limited(found, node.max_records, before)
    buffer.note_count(int(schedule.counts(found, before)[-1]))
    return _Scheduled(pool, schedule, places)


@dataclass(frozen=True)
class _Scheduled:
    """A pool of changes with its schedule. `places`: the arriving changes, then time that passes without one."""

    pool: Pool
    schedule: Schedule
    places: Rows

    def store(self, buffer: Buffer) -> None:
        """Write the changes of the buffer: delete released entries, put new and changed ones."""
        first, last, pool = self.schedule.first, self.schedule.last, self.pool
        stays = self.schedule.stays
        gone = first[~stays & (first < pool.waiting)]
        buffer.take_away(pool.keys_of(gone), pool.changes.time[gone])
        put = np.flatnonzero(stays & (last >= pool.waiting))
        put = put[np.argsort(pool.code[first[put]])]
        kept = Waiting(pool.keys_of(first[put]), pool.entries(first[put], last[put]))
        buffer.keep(kept, np.flatnonzero(first[put] >= pool.waiting))

    def going_on(self, final: bool, old: bool) -> Rows:
        """The released changes, each behind the change that releases it, oldest first.

        `final`: skip deletions. `old`: with replaced rows.
        """
        schedule, pool = self.schedule, self.pool
        chosen = ~schedule.stays
        if final:
            chosen &= pool.changes.new.exists[schedule.last]
        first, last = schedule.first[chosen], schedule.last[chosen]
        by = schedule.released[chosen]
        order = np.lexsort((pool.code[first], pool.changes.time[first], by))
        first, last, by = first[order], last[order], by[order] - pool.waiting
        return pool.changed(self.places.take(by).deeper(places_in_runs(by)), first, last, old)
