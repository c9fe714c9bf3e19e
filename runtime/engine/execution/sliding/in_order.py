"""Finds the sliding windows of records that come in the order of time, for all keys at once.

Then a window holds all records of its key between its bounds, which lie one behind the other. What a window has of this
epoch is a run of rows; before that comes what a stored window has, where the window is one or was made from one. A
record updates its left window, and the right ones of records before it that reach over it; it makes the right one of
the record right before it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ....records.arrays import Bools, Int64s
from .one_by_one import NOTHING, Part, Records, Rules, StoredWindows, of_keys

_MOST_PLACES = 2**62
"""A place is a number for a key and a time; there are at most so many."""


def keys_in_order(records: Records, stored: StoredWindows, rules: Rules) -> Bools:
    """Of each key whether its records come in order: no one is before another one or before what its stored windows
    hold, or so early that its left window would start before time 0; and all windows that they touch are open, and can
    be found.
    """
    usual = np.ones(records.keys, np.bool_)
    if records.keys * _times(records, stored) > _MOST_PLACES:
        return ~usual
    order = records.by_key
    code, time, difference = records.code[order], records.timestamp[order], rules.difference
    before = np.empty_like(time)
    before[1:] = time[:-1]
    first = _starts(code)
    before[first] = _newest(stored, records.keys)[code[first]]
    usual[code[(time < before) | (time < difference) | (time < records.clock[order] - rules.grace)]] = False
    # The latest window that a record may make is its own right one or, in order, that of the record before it.
    latest = np.where(before < time - difference - 1, time - difference, np.minimum(before + 1, time))
    latest[~usual[code]] = time[~usual[code]] + 1
    greatest = np.full(len(time) + 1, stored.latest)
    greatest[order + 1] = latest
    latest_before = np.maximum.accumulate(greatest)[:-1][order]
    usual[code[time - 2 * difference < latest_before - rules.retention + 1]] = False
    return usual


def find_in_order(records: Records, keys: Bools, stored: StoredWindows, rules: Rules) -> Part:
    """What the records of these `keys` do. New windows have the numbers behind those of the stored ones."""
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
    """How many times there are, from 0 to behind the last one."""
    return 2 + max(int(records.timestamp.max(initial=0)), int(stored.start.max(initial=0)))


def _starts(code: Int64s) -> Bools:
    """Where a key's rows begin."""
    starts = np.ones(len(code), np.bool_)
    starts[1:] = code[1:] != code[:-1]
    return starts


def _newest(stored: StoredWindows, keys: int) -> Int64s:
    """The greatest time (ms) of the records in the stored windows of each key; -1 if it has none."""
    newest = np.full(keys, NOTHING)
    np.maximum.at(newest, stored.code, stored.timestamp)
    return newest


@dataclass(frozen=True)
class _Windows:
    """Windows by `place`, which is a number for key and start; between two that are none, at both ends.

    Rows are numbered key by key. `number`: of the window. `timestamp`: of its row when the epoch began. `base`: the
    stored window with which it begins; -1 for none. `begin`: the first row in it. `maker`: the row that makes it; -1
    for a stored one.
    """

    place: Int64s
    number: Int64s
    timestamp: Int64s
    base: Int64s
    begin: Int64s
    maker: Int64s

    def joined(self, others: _Windows) -> _Windows:
        """These and others, which have no ends."""
        order = np.argsort(np.concatenate([self.place, others.place]), kind="stable")
        columns = ((getattr(self, each.name), getattr(others, each.name)) for each in fields(self))
        return _Windows(*(np.concatenate(both)[order] for both in columns))


def _stored(stored: StoredWindows, there: Int64s, times: int, begin: Int64s) -> _Windows:
    """The stored windows at `there`. `begin`: the first row of the key of each."""
    place = stored.code[there] * times + stored.start[there]

    def between(values: Int64s) -> Int64s:
        return np.concatenate([[NOTHING], values, [NOTHING]])

    number, maker = between(there), np.full(len(there) + 2, NOTHING)
    place = between(place)
    place[-1] = np.iinfo(np.int64).max
    return _Windows(place, number, between(stored.timestamp[there]), number, between(begin), maker)


@dataclass(frozen=True)
class _Heads:
    """The first row of each time of a key. Of each: `row`, `place` and `time`; whether it `begins` the rows of its key.

    `of_row`: the head of each row. `previous`: the time of the record right before it, -1 for none that its windows
    tell of. `right`: whether it makes the right window of that one.
    """

    of_row: Int64s
    row: Int64s
    place: Int64s
    time: Int64s
    begins: Bools
    previous: Int64s
    right: Bools

    def first_seen(self, difference: int) -> Int64s:
        """The place of the first window that each head looks at."""
        return self.place - np.minimum(2 * difference, self.time)


def _heads(code: Int64s, time: Int64s, times: int, stored: _Windows, difference: int) -> _Heads:
    first = _starts(code)
    is_head = first.copy()
    is_head[1:] |= time[1:] != time[:-1]
    row = np.flatnonzero(is_head)
    place, previous = code[row] * times + time[row], time[row - 1]
    right = previous >= time[row] - difference - 1
    heads = _Heads(np.cumsum(is_head) - 1, row, place, time[row], first[row], previous, right)
    _go_on(heads, stored, difference)
    return heads


def _go_on(heads: _Heads, stored: _Windows, difference: int) -> None:
    """Fill in what is before the first rows of keys, which their stored windows say."""
    begins = np.flatnonzero(heads.begins)
    place, time = heads.place[begins], heads.time[begins]
    at = np.searchsorted(stored.place, place - difference)
    has_left = stored.place[at] == place - difference
    previous = np.where(has_left, stored.timestamp[at], NOTHING)
    # A record of this time was there before: then the windows are, too.
    again = previous >= time
    ended = stored.place[at - 1] >= heads.first_seen(difference)[begins]
    previous = np.where(ended & ~again, stored.timestamp[at - 1], previous)
    behind = place - time + previous + 1
    there = stored.place[np.searchsorted(stored.place, behind)] == behind
    heads.previous[begins] = previous
    heads.right[begins] = ~again & ~there & (previous > NOTHING) & (previous >= time - difference - 1)


def _right(heads: _Heads, made: Int64s, first_new: int) -> _Windows:
    """The right windows of the records before those heads that make one."""
    row, none = heads.row[made], np.full(len(made), NOTHING)
    place = heads.place[made] - heads.time[made] + heads.previous[made] + 1
    return _Windows(place, first_new + np.arange(len(made)), none, none, row, row)


@dataclass(frozen=True)
class _Left:
    """The left windows of heads. `behind`: the first known window that starts later. `there`: whether the left one is
    known, made by another row; `new`: whether it is none of the known ones. `alone`: where it is the right one of the
    record before, but no other window leads there, so that it is not made twice. `number`, `base`, `begin`: see
    `_Windows`.
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
    # A new one goes on with the latest window that has ended, if that reaches into it: a known one, or the left one of
    # the head before.
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
    """(row, window, first row in the window) of all updates; of each row in the order in which it does them."""
    # The windows that reach over a record, from the latest to the earliest.
    end = np.searchsorted(known.place, heads.place, side="right")
    counts = (end - left.behind)[heads.of_row]
    row = np.repeat(np.arange(len(counts)), counts)
    back = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    over = end[heads.of_row[row]] - 1 - back
    others = known.maker[over] != row
    row, over = row[others], over[others]
    # The left window if it is there, otherwise the right one of the record before, then the left one.
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
    """(window, row) of the contents of windows, which begin at `begin`. `row`, `window`: of all updates."""
    last = np.full(int(number.max(initial=NOTHING)) + 1, NOTHING)
    np.maximum.at(last, window, row)
    sizes = np.where(last[number] < 0, 0, last[number] - begin + 1)
    place = np.arange(int(sizes.sum())) + np.repeat(begin - (np.cumsum(sizes) - sizes), sizes)
    return np.repeat(number, sizes), rows[place]
