"""Finds the pairs of records of two streams: of equal keys, within a range of times.

Plain arrays, without stores and rows: keys are numbers, times are ms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....records.arrays import Bools, Int64s

_MOST = 2**62
"""Keys and times together have to be below."""


@dataclass(frozen=True)
class Targets:
    """The records of one side that can be found: the stored ones, then the new ones.

    `key`: the number of each key. `event`: the place of the record among those of this epoch, -1 for a stored one; of
    equal times those that came first are first.
    """

    key: Int64s
    time: Int64s
    event: Int64s


@dataclass(frozen=True)
class Seekers:
    """The records that look for others: their places among those of this epoch, and the times that fit, inclusive."""

    event: Int64s
    key: Int64s
    first: Int64s
    last: Int64s


@dataclass(frozen=True)
class Pairs:
    """Which record (`event`) has found which `target`, by event, then by the target's time and by when it came."""

    event: Int64s
    target: Int64s

    def first_event(self, targets: int, never: int) -> Int64s:
        """For each target the first event that finds it; `never` for one that none finds."""
        found = np.full(targets, never)
        # Of several assignments to one index, numpy keeps the last.
        found[self.target[::-1]] = self.event[::-1]
        return found


def pairs(seekers: Seekers, targets: Targets) -> Pairs:
    """The targets that came before each seeker, have its key, and a time that fits. Seekers are in order."""
    if not len(seekers.event) or not len(targets.key):
        return Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64))
    time, first, last = targets.time, seekers.first, seekers.last
    least, most = int(time.min()), int(time.max())
    keys = int(max(targets.key.max(), seekers.key.max())) + 1
    if (most - least + 2) * keys > _MOST:
        # Times that lie so far apart are numbered.
        distinct, time = np.unique(time, return_inverse=True)
        first, last = np.searchsorted(distinct, first), np.searchsorted(distinct, last, "right") - 1
        least, most = 0, len(distinct) - 1
    width = most - least + 2
    place = targets.key * width + (time - least)
    order = np.argsort(place, kind="stable")
    place = place[order]
    start = np.searchsorted(place, seekers.key * width + (np.clip(first, least, most + 1) - least))
    end = np.searchsorted(place, seekers.key * width + (np.clip(last, least - 1, most) - least), "right")
    count = np.maximum(end - start, 0)
    of = np.repeat(np.arange(len(count)), count)
    found = order[np.arange(len(of)) - np.repeat(np.cumsum(count) - count - start, count)]
    event = seekers.event[of]
    before: Bools = targets.event[found] < event
    return Pairs(event[before], found[before])
