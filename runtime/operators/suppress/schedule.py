"""When changes that wait go on: which of the changes of a key become one, and at which of them it goes on.

The rules are those of Kafka Streams' `KTableSuppressProcessor`, which looks at one change after another: the change is
put into the buffer, where it takes the place of one of the same key, and then those go on that have waited long enough,
the oldest first.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from ...records.arrays import Bools, Int64s
from ..keyed.groups import in_groups


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
