"""Finds the sliding windows of records that come in time order, for all keys at once.

In time order, a window contains all records of its key between its bounds. So the records of this epoch in a window are
consecutive rows of the key. They follow the aggregate of a stored window, if the window is stored or was copied from a
stored one. A record updates its left window, and the right windows of earlier records that contain its time. It creates
the right window of the record directly before it.

Many functions here number keys and times as one *place*: key * times + time. Places sort by key, then time.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ....records.arrays import Bools, Int64s
from ..keyed.groups import run_starts
from .one_by_one import NOTHING, Part, Records, Rules, StoredWindows, of_keys

_MOST_PLACES = 2**62
"""The limit of places (key * times + time), so that they fit int64."""


def keys_in_order(records: Records, stored: StoredWindows, rules: Rules) -> Bools:
    """For each key, whether `find_in_order` can process its records. The conditions:

    - No record is earlier than a previous one, or than the records in the key's stored windows.
    - No record is so early that its left window would start before time 0.
    - All windows that they touch are still open, and none has expired from the store.

    Example: difference 10, no stored windows. Key 0 has a record at 20, key 1 at 30 and then 28, key 2 at 5.

        result   [True, False, False]    28 is earlier than 30; the left window of 5 would start at -5
    """
    usual = np.ones(records.keys, np.bool_)
    if records.keys * _times(records, stored) > _MOST_PLACES:
        return ~usual
    order = records.by_key
    code, time, difference = records.code[order], records.timestamp[order], rules.difference
    before = np.empty_like(time)
    before[1:] = time[:-1]
    first = run_starts(code)
    before[first] = _newest(stored, records.keys)[code[first]]
    usual[code[(time < before) | (time < difference) | (time < records.clock[order] - rules.grace)]] = False
    # The latest window that a record may create is its left one, or the right one of the record before it.
    latest = np.where(before < time - difference - 1, time - difference, np.minimum(before + 1, time))
    latest[~usual[code]] = time[~usual[code]] + 1
    greatest = np.full(len(time) + 1, stored.latest)
    greatest[order + 1] = latest
    latest_before = np.maximum.accumulate(greatest)[:-1][order]
    usual[code[time - 2 * difference < latest_before - rules.retention + 1]] = False
    return usual


def find_in_order(records: Records, keys: Bools, stored: StoredWindows, rules: Rules) -> Part:
    """The updates of the records of these `keys` (a mask). New windows are numbered after the stored ones.

    Example: one key, difference 10, records at times 20, 25 and 40, no stored windows. The record at 20 creates its
    left window [10, 20]. The one at 25 creates the right window of 20, [21, 31], and its left window [15, 25]. The one
    at 40 creates [30, 40]. A window that starts at 26 is not created: it would end at 36, before 40.

        row, window   [1, 0, 1, 2], [0, 1, 2, 3]        the updates, right windows first
        size          [1, 1, 2, 1]                      [15, 25] contains the records at 20 and 25
        timestamp     [25, 20, 25, 40]
        start         [21, 10, 15, 30]                  of windows 0 to 3
        base          [-1, -1, -1, -1]
        held          [0, 1, 2, 2, 3], [1, 0, 0, 1, 2]  (window, row) of the contents

    Example: the windows after 20 and 25 are stored, as windows 0 to 2, and a record at 28 follows. It updates [21, 31],
    creates the right window of 25, [26, 36], and creates its left window [18, 28] as a copy of [15, 25].

        row, window   [0, 0, 0], [2, 3, 4]
        size          [1, 1, 1]                         only the contents of this epoch
        start         [10, 15, 21, 26, 18]              of windows 0 to 4
        base          [0, 1, 2, -1, 1]                  window 4 starts from the aggregate of window 1
        held          [2, 3, 4], [0, 0, 0]
    """
    rows = of_keys(records.by_key, records.code, keys)
    code, time, difference = records.code[rows], records.timestamp[rows], rules.difference
    times, first_new = _times(records, stored), len(stored.code)
    there = of_keys(np.arange(first_new), stored.code, keys)
    of_stored = _stored(stored, there, times, np.searchsorted(code, stored.code[there]))
    heads = _heads(code, time, times, of_stored, difference)
    made, new_left = np.flatnonzero(heads.right), first_new + int(heads.right.sum())
    right = _right(heads, made, first_new)
    known = of_stored.joined(right)
    left = _left(heads, known, difference, new_left)
    row, window, begin = _updates(heads, known, left, right)
    new = np.flatnonzero(left.new)
    number = np.concatenate([there, right.number, left.number[new]])
    begins = np.concatenate([of_stored.begin[1:-1], right.begin, left.begin[new]])
    return Part(
        rows[row],
        window,
        row - begin + 1,
        time[row],
        number,
        np.concatenate([stored.code[there], code[heads.row[made]], code[heads.row[new]]]),
        np.concatenate([stored.start[there], heads.previous[made] + 1, heads.time[new] - difference]),
        np.concatenate([there, right.base, left.base[new]]),
        _held(number, begins, row, window, rows),
    )


def _times(records: Records, stored: StoredWindows) -> int:
    """The number of distinct times in places: the latest time + 2, so that a right window's start fits."""
    return 2 + max(int(records.timestamp.max(initial=0)), int(stored.start.max(initial=0)))


def _newest(stored: StoredWindows, keys: int) -> Int64s:
    """For each key, the greatest time (ms) of the records in its stored windows. -1 without stored windows."""
    newest = np.full(keys, NOTHING)
    np.maximum.at(newest, stored.code, stored.timestamp)
    return newest


@dataclass(frozen=True)
class _Windows:
    """Windows sorted by `place` (of key and start), with a sentinel at each end.

    Rows are numbered key by key. `number`: of the window. `timestamp`: of its stored row, ms. `base`: the stored window
    from which it starts, -1 for none. `begin`: the first row in it. `maker`: the row that creates it, -1 for a stored
    window.

    Example: the stored windows and the right window of the second example of `find_in_order`. MAX is 2**63 - 1.

        place       [-1, 10, 15, 21, 26, MAX]
        number      [-1,  0,  1,  2,  3,  -1]
        timestamp   [-1, 20, 25, 25, -1,  -1]
        base        [-1,  0,  1,  2, -1,  -1]
        begin       [-1,  0,  0,  0,  0,  -1]
        maker       [-1, -1, -1, -1,  0,  -1]
    """

    place: Int64s
    number: Int64s
    timestamp: Int64s
    base: Int64s
    begin: Int64s
    maker: Int64s

    def joined(self, others: _Windows) -> _Windows:
        """These windows and others, which have no sentinels."""
        order = np.argsort(np.concatenate([self.place, others.place]), kind="stable")
        columns = ((getattr(self, each.name), getattr(others, each.name)) for each in fields(self))
        return _Windows(*(np.concatenate(both)[order] for both in columns))


def _stored(stored: StoredWindows, there: Int64s, times: int, begin: Int64s) -> _Windows:
    """The stored windows at the indexes `there`, with sentinels. `begin`: for each, the first row of its key."""
    place = stored.code[there] * times + stored.start[there]

    def between(values: Int64s) -> Int64s:
        return np.concatenate([[NOTHING], values, [NOTHING]])

    number, maker = between(there), np.full(len(there) + 2, NOTHING)
    place = between(place)
    place[-1] = np.iinfo(np.int64).max
    return _Windows(place, number, between(stored.timestamp[there]), number, between(begin), maker)


@dataclass(frozen=True)
class _Heads:
    """Heads: the first row of each key and time. Later rows of the same key and time update the same windows.

    `of_row`: the head of each row. The other arrays have one entry for each head. `row`, `place`, `time`: of the head.
    `begins`: whether it is the first row of its key. `previous`: the time of the record before it, -1 if no window
    contains one. `right`: whether it creates the right window of that record.

    Example: key 0 with times 20, 20, 25 and key 1 with time 7; times 42, difference 10.

        of_row     [0, 0, 1, 2]
        row        [0, 2, 3]               row 1 has the same time as row 0
        place      [20, 25, 49]            49 = 1 * 42 + 7
        begins     [True, False, True]
        previous   [-1, 20, -1]
        right      [False, True, False]    the row at 25 creates the window [21, 31]
    """

    of_row: Int64s
    row: Int64s
    place: Int64s
    time: Int64s
    begins: Bools
    previous: Int64s
    right: Bools

    def first_seen(self, difference: int) -> Int64s:
        """For each head, the place of the earliest window start that it may need."""
        return self.place - np.minimum(2 * difference, self.time)


def _heads(code: Int64s, time: Int64s, times: int, stored: _Windows, difference: int) -> _Heads:
    first = run_starts(code)
    is_head = first.copy()
    is_head[1:] |= time[1:] != time[:-1]
    row = np.flatnonzero(is_head)
    place, previous = code[row] * times + time[row], time[row - 1]
    right = previous >= time[row] - difference - 1
    heads = _Heads(np.cumsum(is_head) - 1, row, place, time[row], first[row], previous, right)
    _go_on(heads, stored, difference)
    return heads


def _go_on(heads: _Heads, stored: _Windows, difference: int) -> None:
    """Fill in `previous` and `right` for the first row of each key, from the key's stored windows."""
    begins = np.flatnonzero(heads.begins)
    place, time = heads.place[begins], heads.time[begins]
    at = np.searchsorted(stored.place, place - difference)
    has_left = stored.place[at] == place - difference
    previous = np.where(has_left, stored.timestamp[at], NOTHING)
    # An earlier epoch had a record with this time, so the windows exist already.
    again = previous >= time
    ended = stored.place[at - 1] >= heads.first_seen(difference)[begins]
    previous = np.where(ended & ~again, stored.timestamp[at - 1], previous)
    behind = place - time + previous + 1
    there = stored.place[np.searchsorted(stored.place, behind)] == behind
    heads.previous[begins] = previous
    heads.right[begins] = ~again & ~there & (previous > NOTHING) & (previous >= time - difference - 1)


def _right(heads: _Heads, made: Int64s, first_new: int) -> _Windows:
    """The right windows that heads create for the records before them. `made`: these heads."""
    row, none = heads.row[made], np.full(len(made), NOTHING)
    place = heads.place[made] - heads.time[made] + heads.previous[made] + 1
    return _Windows(place, first_new + np.arange(len(made)), none, none, row, row)


@dataclass(frozen=True)
class _Left:
    """The left windows of heads. Known windows are the stored ones and the right windows.

    `behind`: the index of the first known window that starts later. `there`: whether the left window is known, and
    created by another row. `new`: whether it is not known. `alone`: whether it is the right window of the record before
    and is created only once, because no earlier window is in reach. `number`, `base`, `begin`: see `_Windows`.

    Example: the heads at 20, 25 and 40 of the first example of `find_in_order`. [21, 31] is window 0, with index 1.

        behind   [1, 1, 2]
        new      [True, True, True]
        number   [1, 2, 3]
        base     [-1, -1, -1]
        begin    [0, 0, 2]             [15, 25] begins with row 0, like [10, 20]
    """

    behind: Int64s
    there: Bools
    new: Bools
    alone: Bools
    number: Int64s
    base: Int64s
    begin: Int64s


def _left(heads: _Heads, known: _Windows, difference: int, first_new: int) -> _Left:
    at = np.searchsorted(known.place, heads.place - difference)
    is_known = known.place[at] == heads.place - difference
    own = is_known & (known.maker[at] == heads.row)
    there = is_known & ~own
    # A new window copies the latest window that ended before, if that has records in it: a known window, or the left
    # window of the head before.
    ended = known.place[at - 1]
    seen = ended >= heads.first_seen(difference)
    reaches = ~there & (heads.previous >= heads.time - difference)
    copies = reaches & np.where(heads.begins, seen, ended >= heads.place - heads.time + heads.previous - difference)
    source = np.where(there, at, at - 1)
    base = np.where(there | copies, known.base[source], NOTHING)
    begin = np.where(there | copies, known.begin[source], heads.row)
    like = np.maximum.accumulate(np.where(reaches & ~copies, 0, np.arange(len(at))))
    number = np.where(is_known, known.number[at], first_new - 1 + np.cumsum(~is_known))
    return _Left(at + is_known, there, ~is_known, own & ~seen, number, base[like], begin[like])


def _updates(heads: _Heads, known: _Windows, left: _Left, right: _Windows) -> tuple[Int64s, Int64s, Int64s]:
    """(row, window, first row in the window) of all updates. For each row, in the order of its updates.

    Example: the first example of `find_in_order` gives rows [1, 0, 1, 2], windows [0, 1, 2, 3] and first rows
    [1, 0, 0, 2].
    """
    # The known windows that contain a record's time, from the latest to the earliest, without its left window and those
    # that it creates.
    end = np.searchsorted(known.place, heads.place, side="right")
    counts = (end - left.behind)[heads.of_row]
    row = np.repeat(np.arange(len(counts)), counts)
    back = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    over = end[heads.of_row[row]] - 1 - back
    others = known.maker[over] != row
    row, over = row[others], over[others]
    # Then the left window if it exists. If not, the right window of the record before, then the left window.
    is_head = np.zeros(len(counts), np.bool_)
    is_head[heads.row] = True
    again = np.flatnonzero(~is_head | left.there[heads.of_row])
    of_again, new = heads.of_row[again], np.flatnonzero(~left.there)
    first = ~left.alone[heads.of_row[right.maker]]
    maker = right.maker[first]
    return (
        np.concatenate([row, again, maker, heads.row[new]]),
        np.concatenate([known.number[over], left.number[of_again], right.number[first], left.number[new]]),
        np.concatenate([known.begin[over], left.begin[of_again], maker, left.begin[new]]),
    )


def _held(number: Int64s, begin: Int64s, row: Int64s, window: Int64s, rows: Int64s) -> tuple[Int64s, Int64s]:
    """(window, row) of the contents of all windows, window by window.

    `number`, `begin`: the windows, and the first row of each. `row`, `window`: of all updates. `rows`: the input rows.

    Example: window 0 is updated by rows 0 to 2, window 1 by row 2.

        number, begin   [0, 1], [0, 2]
        row, window     [0, 1, 2, 2], [0, 0, 0, 1]
        rows            [7, 8, 9]
        result          [0, 0, 0, 1], [7, 8, 9, 9]
    """
    last = np.full(int(number.max(initial=NOTHING)) + 1, NOTHING)
    np.maximum.at(last, window, row)
    sizes = np.where(last[number] < 0, 0, last[number] - begin + 1)
    place = np.arange(int(sizes.sum())) + np.repeat(begin - (np.cumsum(sizes) - sizes), sizes)
    return np.repeat(number, sizes), rows[place]
