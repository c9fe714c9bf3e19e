"""Rows of a stream-stream join: stored, matched, waiting, put out."""

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
from ....records.join_keys import (
    plain_key,
    segment_length,
    side_keys,
    split_side_keys,
    split_unmatched_keys,
    unmatched_before,
)
from ....records.keys import encode_keys
from ....records.types import Kind, parse_columns
from ....records.window_keys import first_window_key, range_in_segment
from ....state.codec import RowCodec
from ..keyed.groups import bytes_of
from ..node import EpochStore
from ..rows import Rows, concat, null_keys, path_order

# Finds the pairs of records of two streams: of equal keys, within a range of times.
#
# Plain arrays, without stores and rows: keys are numbers, times are ms.

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


# The records of both sides of a join in the order in which they come, and the clocks that they move.

_LOWEST = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Events:
    """The epoch's records of both sides in order.

    `row`: of each event its place in `rows`, which has the records of this side, then those of the other, without
    columns; `key`: their key columns, under the names of this side. `of_this`: which are of this side. `no_value`,
    `no_key`: which lack it. `clock`: stream time with this record, which records that are dropped move too. `bare`: the
    events at which time passes without a record; they are of neither side.
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
        """`clock`: stream time before. `passing`: where time passes without a record."""
        sides = [replace(each, columns={}, key=(), value=(), state=None, collapsed=False) for each in (this, other)]
        parts = [*sides, *passing]
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
        """The records that can be joined."""
        return ~self.no_value & ~self.no_key & ~self.bare

    @property
    def encoded(self) -> pa.BinaryArray:
        """The encoded key of each event; null for one without a key."""
        return encode_keys([column.take(pa.array(self.row)) for column in self.key.values()])

    def clock_of(self, puts: Bools, clock: int) -> Int64s:
        """The clock of a store before each event, and after the last. `puts`: the records that go into the store."""
        times = np.where(puts, self.time, _LOWEST)
        return np.maximum.accumulate(np.concatenate([np.array([clock], np.int64), times]))


# What a join gives, put together: by the event at which it comes out, what waited first, then what is new.

NOBODY = -1
"""The place of a record that there is not."""

WAITED, NEW = 0, 1


@dataclass(frozen=True)
class Results:
    """Some results. `event`: at which each comes out; `turn`: WAITED or NEW.

    `this`, `other`: the places of the records in the columns of their sides, or NOBODY; `key`: the place of the key;
    `time`: ms.
    """

    turn: int
    event: Int64s
    this: Int64s
    other: Int64s
    key: Int64s
    time: Int64s


@dataclass(frozen=True)
class Columns:
    """The columns that results are taken from."""

    key: Mapping[str, pa.Array]
    this: Mapping[str, pa.Array]
    other: Mapping[str, pa.Array]


def rows_of(parts: Sequence[Results], columns: Columns, events: Events, trial: bool = False) -> Rows:
    """The rows of all results. Those of one part and one event are in order.

    `trial`: the `_order` of events is a number of their record. A row that had waited comes out with a record that need
    not be its own, so it has the number as `~number`, which is below zero: see `EpochPlan.numbered`.
    """
    event, this, other, key, time = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("event", "this", "other", "key", "time")
    )
    turn = np.repeat([part.turn for part in parts], [len(part.event) for part in parts])
    order = np.argsort(event * 2 + turn, kind="stable")
    event = event[order]
    place = np.arange(len(event))
    first = np.ones(len(event), np.bool_)
    first[1:] = event[1:] != event[:-1]
    level = place - np.maximum.accumulate(np.where(first, place, 0))
    rows = replace(events.rows.take(events.row[event]).deeper(level), timestamp=time[order])
    if trial:
        rows = replace(rows, order=np.where(turn[order] == WAITED, ~rows.order, rows.order))
    values = _taken(columns.this, this[order]) | _taken(columns.other, other[order])
    return rows.with_columns(_taken(columns.key, key[order]), values)


def _taken(columns: Mapping[str, pa.Array], places: Int64s) -> dict[str, pa.Array]:
    at = pa.array(places, mask=places == NOBODY)
    return {name: column.take(at) for name, column in columns.items()}


def stacked(parts: Sequence[pa.Array]) -> pa.Array:
    """Columns one after another, of the type of the first."""
    return pa.concat_arrays([cast_to(part, parts[0].type) for part in parts])


# The records of a left or outer join that have found no match so far, and when they come out without one.
#
# A record waits until stream time has passed the last time that fits to it by more than the grace period. The next
# record that moves stream time there has it come out: Kafka Streams looks at most once a second of the wall clock, on
# which results must not depend.

NEVER = np.iinfo(np.int64).max
"""The number of an event that does not come in this epoch."""


@dataclass(frozen=True)
class Deadlines:
    """When waiting records come out: at the first event that moves stream time behind their last time and `grace`.

    `event`: those that move stream time; `clock`: stream time then.
    """

    grace: int
    event: Int64s
    clock: Int64s

    @classmethod
    def of(cls, events: Events, grace: int) -> Deadlines:
        """Records that are dropped, or go on without a key, move stream time too, but nothing comes out at them."""
        moving = np.flatnonzero((events.joins | events.bare) & (events.time == events.clock))
        return cls(grace, moving, events.clock[moving])

    def events_of(self, last: Int64s) -> Int64s:
        """The event at which each record would come out, by the last times that fit to them (ms), or NEVER."""
        return np.append(self.event, NEVER)[np.searchsorted(self.clock, last + self.grace + 1)]

    @property
    def end(self) -> int:
        """Only records whose last time is before it come out in this epoch, ms."""
        return int(self.clock[-1]) - self.grace if len(self.clock) else 0


@dataclass(frozen=True)
class Fate:
    """What becomes of waiting records. `out`: the event at which one comes out, or NEVER. `stays`: whether it waits."""

    out: Int64s
    stays: Bools

    @classmethod
    def of(cls, ripe: Int64s, match: Int64s) -> Fate:
        """By the events at which they would come out, and at which they find a match; if it is one, they come out."""
        return cls(np.where(ripe <= match, ripe, NEVER), (ripe == NEVER) & (match == NEVER))


@dataclass(frozen=True)
class StoredWaiting:
    """Stored records of one side. `at`: where they are in the store; `keys`: encoded; `value`: the encoded rows."""

    at: pa.BinaryArray
    keys: pa.BinaryArray
    time: Int64s
    number: Int64s
    value: list[bytes]


class UnmatchedStore:
    """The store of records without a match, during an epoch. Its columns are this side's, then the other's."""

    def __init__(self, declared: Store, opened: EpochStore) -> None:
        self._opened = opened
        self._codec = RowCodec(parse_columns(declared.value))
        self.types = list(self._codec.types.values())

    def before(self, time: int, of_this: bool) -> StoredWaiting:
        """The records of one side with times before `time` (ms), in order."""
        found = list(self._opened.range(*unmatched_before(time, of_this)))
        at = pa.array([key for key, _ in found], pa.binary())
        return StoredWaiting(at, *split_unmatched_keys(at), [value for _, value in found])

    def decode(self, values: Sequence[bytes], of_this: bool, columns: int) -> list[pa.Array]:
        """The columns of encoded rows of one side, which has so many."""
        found = self._codec.decode(values)[0]
        return found[:columns] if of_this else found[len(found) - columns :]

    def remove(self, ended: Sequence[bytes], matched: Sequence[bytes]) -> None:
        """Records that wait no more. Not all of those that are `matched` have waited."""
        found = zip(matched, self._opened.get_many(matched), strict=True)
        gone = sorted([*ended, *(key for key, value in found if value is not None)])
        self._opened.put_many(gone, [None] * len(gone), split_unmatched_keys(pa.array(gone, pa.binary()))[1])

    def put(self, at: pa.BinaryArray, columns: Sequence[pa.Array], times: Int64s) -> None:
        """Records that wait from now on."""
        self._opened.put_many(bytes_of(at), self._codec.encode(columns, times), times)


# The store of one side of a join during an epoch: finds the records of keys, and keeps new ones.

_ROWS_OF_A_RANGE = 40
"""To read a range of keys takes about as long as to read so many rows of a longer one."""

_TOGETHER = 2**17
"""Rows that are looked at at once, to limit memory."""


@dataclass(frozen=True)
class Wanted:
    """The times (ms, inclusive) between which records are looked for, for each key. `keys`: encoded, distinct."""

    keys: pa.BinaryArray
    first: Int64s
    last: Int64s


@dataclass(frozen=True)
class StoredRecords:
    """Stored records. `key`: the number of each key. `value`: the encoded rows."""

    key: Int64s
    time: Int64s
    number: Int64s
    value: list[bytes]

    @classmethod
    def of(cls, parts: Sequence[StoredRecords]) -> StoredRecords:
        """All of them, by key and time, equal ones as they came."""
        key, time, number = (
            np.concatenate([np.zeros(0, np.int64), *(getattr(part, name) for part in parts)])
            for name in ("key", "time", "number")
        )
        order = np.lexsort((number, time, key))
        values = [value for part in parts for value in part.value]
        return cls(key[order], time[order], number[order], [values[place] for place in order.tolist()])


class SideStore:
    """The records of one side. `declared.window` is a JoinWindow."""

    def __init__(self, declared: Store, opened: EpochStore) -> None:
        assert isinstance(declared.window, JoinWindow)
        self._window = declared.window
        self._opened = opened
        self._codec = RowCodec(parse_columns(declared.value))

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The value columns."""
        return self._codec.types

    def find(self, wanted: Wanted) -> StoredRecords:
        """The records of these keys at these times, by key and time, equal ones as they came."""
        length = segment_length(self._window)
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
        """The records of one key after another."""
        length, keys = segment_length(self._window), bytes_of(wanted.keys)
        for number in np.flatnonzero(counts).tolist():
            key, since, until = keys[number], int(wanted.first[number]), int(wanted.last[number])
            for segment in range(int(first[number]), int(first[number] + counts[number])):
                for at, value in self._opened.range(*range_in_segment(segment * length, key, since, until)):
                    if plain_key(at) == key:
                        yield at, value

    def decode(self, values: Sequence[bytes]) -> dict[str, pa.Array]:
        """The value columns of encoded rows."""
        return dict(zip(self._codec.types, self._codec.decode(values)[0], strict=True))

    def put(self, keys: pa.BinaryArray, values: Sequence[pa.Array], times: Int64s, numbers: Int64s) -> None:
        """Keep records. `keys`: encoded; `values`: their columns."""
        at = side_keys(self._window, keys, times, numbers)
        self._opened.put_many(bytes_of(at), self._codec.encode(values, times), times)


def _of_those(wanted: Wanted, rows: Sequence[tuple[bytes, bytes]]) -> StoredRecords:
    """The rows that are wanted."""
    keys, times, numbers = split_side_keys(pa.array([at for at, _ in rows], pa.binary()))
    key = to_numpy(pc.index_in(keys, value_set=wanted.keys).fill_null(-1)).astype(np.int64)
    fits = np.flatnonzero((key >= 0) & (times >= wanted.first[key]) & (times <= wanted.last[key]))
    return StoredRecords(key[fits], times[fits], numbers[fits], [rows[place][1] for place in fits.tolist()])
