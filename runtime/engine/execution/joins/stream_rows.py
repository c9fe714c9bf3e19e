"""Parts of a stream-stream join: matching, stores of both sides, unmatched records, and result rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....ir.topology import Store
from ....ir.windows import JoinWindow
from ....records.arrays import Bools, Int64s, cast_to, to_numpy
from ....records.keys import encode_keys
from ....records.types import Kind, parse_columns
from ....records.window_keys import (
    first_window_key,
    range_in_segment,
    side_keys,
    side_plain_key,
    split_side_keys,
    split_unmatched_keys,
    unmatched_before,
    window_segment_length,
)
from ....state.codec import RowCodec
from ..keyed.groups import bytes_of, places_in_runs
from ..node import EpochStore
from ..rows import Rows, concat, null_keys, path_order, taken

# Matches records of two streams by key and time range.
#
# This part works on plain arrays: keys are numbers (int64), times are ms.

_MOST = 2**62
"""Upper limit of the number that combines a key and a time."""


@dataclass(frozen=True)
class Targets:
    """The records that a search may find: stored ones, then new ones. Of one key and time, the older record is first.

    `key`: number of the key. `time`: ms. `event`: index of a new record in `Events`; -1 for a stored one.
    """

    key: Int64s
    time: Int64s
    event: Int64s


@dataclass(frozen=True)
class Seekers:
    """The records that search. `event`: index in `Events`. `key`: number of the key.

    `first`, `last`: the range of times that match, ms, both inclusive.
    """

    event: Int64s
    key: Int64s
    first: Int64s
    last: Int64s


@dataclass(frozen=True)
class Pairs:
    """Matches, as two int64 arrays of one length: the searching record, and the index of the found one in `Targets`.

    Sorted by event, then by the target's time, then by its index.
    """

    event: Int64s
    target: Int64s

    def first_event(self, targets: int, never: int) -> Int64s:
        """For each target, the first event that finds it, or `never`. `targets`: their number."""
        found = np.full(targets, never)
        # NumPy keeps the last assignment to an index, so the arrays are reversed.
        found[self.target[::-1]] = self.event[::-1]
        return found


def pairs(seekers: Seekers, targets: Targets) -> Pairs:
    """Match each seeker with the targets of its key and time range that came before it. Seekers are sorted by event.

    Key and time become one number, so one sort of the targets and two binary searches find a range of targets for each
    seeker. Targets that came later than their seeker are removed at the end.

    Example: key 0 has stored targets at 10 and 30 ms, and event 1 is a new target at 20 ms. Key 1 has a stored target
    at 20 ms. The events 0 and 2 seek key 0, the event 3 seeks key 1.

        targets = Targets(key=[0, 0, 1, 0], time=[10, 30, 20, 20], event=[-1, -1, -1, 1])
        seekers = Seekers(event=[0, 2, 3], key=[0, 0, 1], first=[5, 15, 25], last=[25, 35, 45])
        pairs(seekers, targets)
            event     [0, 2, 2]
            target    [0, 3, 1]: event 0 finds 10; event 2 finds 20, then 30; event 3 finds nothing
        pairs(seekers, targets).first_event(4, never=99)
            [0, 2, 99, 2]

    Event 0 does not find target 3: its time of 20 ms fits, but it is event 1, so it comes later.
    """
    if not len(seekers.event) or not len(targets.key):
        return Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64))
    time, first, last = targets.time, seekers.first, seekers.last
    least, most = int(time.min()), int(time.max())
    keys = int(max(targets.key.max(), seekers.key.max())) + 1
    if (most - least + 2) * keys > _MOST:
        # Key and time would not fit into 63 bits: replace times by their ranks.
        distinct, time = np.unique(time, return_inverse=True)
        first, last = np.searchsorted(distinct, first), np.searchsorted(distinct, last, "right") - 1
        least, most = 0, len(distinct) - 1
    width = most - least + 2
    place = targets.key * width + (time - least)
    order = np.argsort(place, kind="stable")
    place = place[order]
    start = np.searchsorted(place, seekers.key * width + (np.clip(first, least, most + 1) - least))
    end = np.searchsorted(place, seekers.key * width + (np.clip(last, least - 1, most) - least), "right")
    # Expand the ranges [start, end) of the sorted targets: one pair for each place in a range.
    count = np.maximum(end - start, 0)
    of = np.repeat(np.arange(len(count)), count)
    found = order[np.arange(len(of)) - np.repeat(np.cumsum(count) - count - start, count)]
    event = seekers.event[of]
    before: Bools = targets.event[found] < event
    return Pairs(event[before], found[before])


# The records of both sides of a join in path order, and the clocks that they move.

_LOWEST = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Events:
    """The records of both sides of an epoch, in path order. Each is an event, and so is time that passes without one.

    `rows`: records of this side, then of the other side, then rows for time that passes; without columns. `key`: key
    columns of `rows`, under the names of this side. The arrays have one entry for each event. `row`: its index in
    `rows`. `of_this`: whether it is a record of this side. `time`: ms. `no_value`, `no_key`: whether its value or key
    is null. `clock`: stream time after it, ms; dropped records move it too. `bare`: whether time passes without a
    record.

    Example: this side has records with the paths 0 and 3, the other side has the paths 1 and 2.

        rows       paths [0, 3, 1, 2]
        row        [0, 2, 3, 1]
        of_this    [True, False, False, True]
    """

    rows: Rows
    key: dict[str, pa.Array]
    row: Int64s
    of_this: Bools
    time: Int64s
    no_value: Bools
    no_key: Bools
    clock: Int64s
    bare: Bools

    @classmethod
    def of(cls, this: Rows, other: Rows, clock: int, passing: Sequence[Rows] = ()) -> Events:
        """Merge both sides. `clock`: stream time before the epoch, ms. `passing`: rows for time without a record."""
        parts = [this.bare(), other.bare(), *passing]
        rows, row = concat(parts), path_order(parts)
        columns = zip(this.keys.items(), other.keys.values(), strict=True)
        nobody = sum(map(len, passing))
        key = {
            name: pa.concat_arrays([mine, cast_to(theirs, mine.type), pa.nulls(nobody, mine.type)])
            for (name, mine), theirs in columns
        }
        time, bare = rows.timestamp[row], row >= len(this) + len(other)
        return cls(
            rows,
            key,
            row,
            row < len(this),
            time,
            (rows.kind != Kind.VALUE)[row] & ~bare,
            null_keys(list(key.values()), len(rows))[row] & ~bare,
            np.maximum.accumulate(np.maximum(time, clock)),
            bare,
        )

    @property
    def joins(self) -> Bools:
        """Whether each event is a record with a key and a value."""
        return ~self.no_value & ~self.no_key & ~self.bare

    @property
    def encoded(self) -> pa.BinaryArray:
        """The encoded key of each event; null for a null key."""
        return encode_keys([column.take(pa.array(self.row)) for column in self.key.values()])

    def clock_of(self, puts: Bools, clock: int) -> Int64s:
        """The clock of a store before each event, then after the last one: int64, one entry more than events.

        `puts`: which events go into the store. `clock`: before the epoch, ms.
        """
        times = np.where(puts, self.time, _LOWEST)
        return np.maximum.accumulate(np.concatenate([np.array([clock], np.int64), times]))


# Result rows: sorted by the event that emits them; at one event, records that had waited come first.

NOBODY = -1
"""The index of the missing record in a result without a match."""

WAITED, NEW = 0, 1


@dataclass(frozen=True)
class Results:
    """Some results. `turn`: WAITED or NEW, for all of them. The arrays have one entry for each result.

    `event`: the event that emits it. `this`, `other`: indexes into the `Columns` of both sides, or NOBODY. `key`: index
    into the key columns. `time`: ms.
    """

    turn: int
    event: Int64s
    this: Int64s
    other: Int64s
    key: Int64s
    time: Int64s


@dataclass(frozen=True)
class Columns:
    """The columns that results are taken from, by name. `key`, `this`, `other`: see `Results`."""

    key: Mapping[str, pa.Array]
    this: Mapping[str, pa.Array]
    other: Mapping[str, pa.Array]


def rows_of(parts: Sequence[Results], columns: Columns, events: Events, trial: bool = False) -> Rows:
    """The rows of all results, sorted by event, then turn. Results of one part and event keep their order.

    A new path level numbers the rows of one event. Example: a part WAITED with the events [2], a part NEW with the
    events [0, 2, 2].

        events of the rows    [0, 2, 2, 2]: one new; one that had waited, two new
        new path level        [0, 0, 1, 2]

    `trial`: `_order` is the number of the record. A waiting row may be emitted by another record than its own, so it
    gets `~number`, a negative number: see `EpochPlan.locate`.
    """
    event, this, other, key, time = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("event", "this", "other", "key", "time")
    )
    turn = np.repeat([part.turn for part in parts], [len(part.event) for part in parts])
    order = np.argsort(event * 2 + turn, kind="stable")
    event = event[order]
    rows = events.rows.take(events.row[event]).deeper(places_in_runs(event))
    rows = replace(rows, timestamp=time[order])
    if trial:
        rows = replace(rows, order=np.where(turn[order] == WAITED, ~rows.order, rows.order))
    this, other = this[order], other[order]
    values = taken(columns.this, this, this == NOBODY) | taken(columns.other, other, other == NOBODY)
    return rows.with_columns(taken(columns.key, key[order]), values)


def stacked(parts: Sequence[pa.Array]) -> pa.Array:
    """Concatenate columns, cast to the type of the first one."""
    return pa.concat_arrays([cast_to(part, parts[0].type) for part in parts])


# Unmatched records of a left or outer join, and when they are emitted without a match.
#
# A record waits until stream time is later than the last time that matches it plus the grace period. The record that
# moves stream time there emits it. Kafka Streams checks at most once a second of wall-clock time; results here must not
# depend on the wall clock.

NEVER = np.iinfo(np.int64).max
"""Stands for an event that does not come in this epoch."""


@dataclass(frozen=True)
class Deadlines:
    """Computes the event that emits a waiting record: the first with stream time > last matching time + `grace`.

    `event`: events that move stream time, ascending. `clock`: stream time at these events, ms.

    Example: the events 0, 2 and 3 move stream time to 100, 110 and 130 ms; the grace period is 5 ms.

        deadlines = Deadlines(5, event=[0, 2, 3], clock=[100, 110, 130])
        deadlines.events_of([90, 100, 104, 105, 124, 125])    [0, 2, 2, 3, 3, NEVER]
        deadlines.end                                         125
    """

    grace: int
    event: Int64s
    clock: Int64s

    @classmethod
    def of(cls, events: Events, grace: int) -> Deadlines:
        """The deadlines of an epoch.

        Records that are dropped, or pass without a key, move stream time too, but they emit no waiting record.
        """
        moving = np.flatnonzero((events.joins | events.bare) & (events.time == events.clock))
        return cls(grace, moving, events.clock[moving])

    def events_of(self, last: Int64s) -> Int64s:
        """The event that emits each record, or NEVER. `last`: the last times that match the records, ms."""
        return np.append(self.event, NEVER)[np.searchsorted(self.clock, last + self.grace + 1)]

    @property
    def end(self) -> int:
        """Records with a last matching time before this (ms) are emitted in this epoch."""
        return int(self.clock[-1]) - self.grace if len(self.clock) else 0


@dataclass(frozen=True)
class Outcome:
    """The outcome of waiting records. `out`: the event that emits each, or NEVER. `stays`: whether it still waits.

    Example: one record ripens first, one is matched first, one only ripens, and one does neither.

        Outcome.of(ripe=[2, 3, 3, NEVER], match=[3, 2, NEVER, NEVER])
            out      [2, NEVER, 3, NEVER]
            stays    [False, False, False, True]
    """

    out: Int64s
    stays: Bools

    @classmethod
    def of(cls, ripe: Int64s, match: Int64s) -> Outcome:
        """`ripe`: the event that would emit each record. `match`: the event that first matches it. Both may be NEVER.

        A record that ripens at the event that matches it is emitted.
        """
        return cls(np.where(ripe <= match, ripe, NEVER), (ripe == NEVER) & (match == NEVER))


@dataclass(frozen=True)
class StoredWaiting:
    """Stored unmatched records of one side, one entry for each. `at`: keys in the store. `keys`: encoded record keys.

    `time`: ms. `number`: see `records.window_keys`. `value`: encoded rows.
    """

    at: pa.BinaryArray
    keys: pa.BinaryArray
    time: Int64s
    number: Int64s
    value: list[bytes]


class UnmatchedStore:
    """The store of unmatched records during an epoch. Its columns: those of this side, then those of the other."""

    def __init__(self, declared: Store, opened: EpochStore) -> None:
        self._opened = opened
        self._codec = RowCodec(parse_columns(declared.value))
        self.types = list(self._codec.types.values())

    def before(self, time: int, of_this: bool) -> StoredWaiting:
        """The records of one side with times before `time` (ms), in the order of the store."""
        found = list(self._opened.range(*unmatched_before(time, of_this)))
        at = pa.array([key for key, _ in found], pa.binary())
        return StoredWaiting(at, *split_unmatched_keys(at), [value for _, value in found])

    def decode(self, values: Sequence[bytes], of_this: bool, columns: int) -> list[pa.Array]:
        """The columns of encoded rows of one side. `columns`: their number."""
        found = self._codec.decode(values)[0]
        return found[:columns] if of_this else found[len(found) - columns :]

    def remove(self, ended: Sequence[bytes], matched: Sequence[bytes]) -> None:
        """Delete records. `ended`, `matched`: keys in the store. Those in `matched` need not exist."""
        found = zip(matched, self._opened.get_many(matched), strict=True)
        gone = sorted([*ended, *(key for key, value in found if value is not None)])
        self._opened.put_many(gone, [None] * len(gone), split_unmatched_keys(pa.array(gone, pa.binary()))[1])

    def put(self, at: pa.BinaryArray, columns: Sequence[pa.Array], times: Int64s) -> None:
        """Store records that start to wait. `at`: their keys in the store. `times`: ms."""
        self._opened.put_many(bytes_of(at), self._codec.encode(columns, times), times)


# The store of one side of a join during an epoch: finds records by key and time, and stores new ones.

_ROWS_OF_A_RANGE = 40
"""Opening a range of keys costs about as much as reading this many rows of an open one."""

_TOGETHER = 2**17
"""The number of rows to filter at once, to limit memory."""


@dataclass(frozen=True)
class Wanted:
    """A range of times for each key: `first` to `last`, ms, both inclusive. `keys`: encoded, distinct."""

    keys: pa.BinaryArray
    first: Int64s
    last: Int64s


@dataclass(frozen=True)
class StoredRecords:
    """Stored records of one side, one entry for each. `key`: index of the key in `Wanted.keys`. `time`: ms.

    `number`: ascends in the order of arrival. `value`: the encoded rows.
    """

    key: Int64s
    time: Int64s
    number: Int64s
    value: list[bytes]

    @classmethod
    def of(cls, parts: Sequence[StoredRecords]) -> StoredRecords:
        """The records of all parts, sorted by key, time and number."""
        key, time, number = (
            np.concatenate([np.zeros(0, np.int64), *(getattr(part, name) for part in parts)])
            for name in ("key", "time", "number")
        )
        order = np.lexsort((number, time, key))
        values = [value for part in parts for value in part.value]
        return cls(key[order], time[order], number[order], [values[place] for place in order.tolist()])


class SideStore:
    """The stored records of one side during an epoch. `declared.window` is a JoinWindow."""

    def __init__(self, declared: Store, opened: EpochStore) -> None:
        assert isinstance(declared.window, JoinWindow)
        self._window = declared.window
        self._opened = opened
        self._codec = RowCodec(parse_columns(declared.value))

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The stored value columns."""
        return self._codec.types

    def find(self, wanted: Wanted) -> StoredRecords:
        """The wanted records, sorted by key, time and number.

        First it scans all keys from the earliest to the latest time. If this takes more rows than reading each key by
        itself would cost, it reads each key by itself instead.
        """
        length = window_segment_length(self._window)
        first, last = wanted.first // length, wanted.last // length
        counts = np.where(wanted.last < wanted.first, 0, last - first + 1)
        ranges = int(counts.sum())
        if not ranges:
            return StoredRecords.of([])
        asked = counts > 0
        start, end = int(first[asked].min()) * length, (int(last[asked].max()) + 1) * length
        rows = self._opened.range(first_window_key(start), first_window_key(end))
        found, most = [], ranges * _ROWS_OF_A_RANGE
        while most > 0 and (some := list(islice(rows, min(_TOGETHER, most)))):
            most -= len(some)
            found.append(_of_those(wanted, some))
        if next(rows, None) is not None:
            found = [_of_those(wanted, list(self._read(wanted, first, counts)))]
        return StoredRecords.of(found)

    def _read(self, wanted: Wanted, first: Int64s, counts: Int64s) -> Iterator[tuple[bytes, bytes]]:
        """(Store key, encoded row) of wanted records, key by key. `counts`: segments of each key, from `first`."""
        length, keys = window_segment_length(self._window), bytes_of(wanted.keys)
        for number in np.flatnonzero(counts).tolist():
            key, since, until = keys[number], int(wanted.first[number]), int(wanted.last[number])
            for segment in range(int(first[number]), int(first[number] + counts[number])):
                for at, value in self._opened.range(*range_in_segment(segment * length, key, since, until)):
                    if side_plain_key(at) == key:
                        yield at, value

    def decode(self, values: Sequence[bytes]) -> dict[str, pa.Array]:
        """The value columns of encoded rows."""
        return dict(zip(self._codec.types, self._codec.decode(values)[0], strict=True))

    def put(self, keys: pa.BinaryArray, values: Sequence[pa.Array], times: Int64s, numbers: Int64s) -> None:
        """Store records. `keys`: encoded. `values`: their columns. `times`: ms. `numbers`: see `StoredRecords`."""
        at = side_keys(self._window, keys, times, numbers)
        self._opened.put_many(bytes_of(at), self._codec.encode(values, times), times)


def _of_those(wanted: Wanted, rows: Sequence[tuple[bytes, bytes]]) -> StoredRecords:
    """The wanted ones among these (store key, encoded row)."""
    keys, times, numbers = split_side_keys(pa.array([at for at, _ in rows], pa.binary()))
    key = to_numpy(pc.index_in(keys, value_set=wanted.keys).fill_null(-1)).astype(np.int64)
    fits = np.flatnonzero((key >= 0) & (times >= wanted.first[key]) & (times <= wanted.last[key]))
    return StoredRecords(key[fits], times[fits], numbers[fits], [rows[place][1] for place in fits.tolist()])
