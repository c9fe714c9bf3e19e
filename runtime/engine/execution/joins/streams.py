"""The operator of a stream-stream join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....ir.topology import Store
from ....ir.windows import JoinWindow
from ....records.arrays import Bools, Int64s, cast_to, to_numpy
from ....records.keys import decode_keys
from ....records.window_keys import unmatched_keys
from ...operators.joins import StreamJoin
from ..keyed.groups import bytes_of, sorted_groups
from ..node import Edges, TaskEpoch, step_name
from ..rows import Rows
from .stream_rows import (
    NEVER,
    NEW,
    NOBODY,
    WAITED,
    Columns,
    Deadlines,
    Events,
    Outcome,
    Pairs,
    Results,
    Seekers,
    SideStore,
    StoredRecords,
    StoredWaiting,
    Targets,
    UnmatchedStore,
    Wanted,
    pairs,
    rows_of,
    stacked,
)

# One side of a join in an epoch: its records, its store, and the search of the other side in both.

_SEGMENT = 60_000
"""Kafka's stores drop and count records by segments of half the retention, at least this many ms."""


@dataclass(frozen=True)
class Keys:
    """The keys of an epoch's events. `encoded`: the distinct keys that can be joined, in byte order.

    `number`: for each event, the index of its key in `encoded`; -1 for an event that cannot be joined. `of_events`: the
    encoded key of each event; null for a null key.

    Example: events with the keys b, null, a, b.

        encoded      [a, b]
        number       [1, -1, 0, 1]
        of_events    [b, null, a, b]
    """

    encoded: pa.BinaryArray
    number: Int64s
    of_events: pa.BinaryArray

    @classmethod
    def of(cls, events: Events) -> Keys:
        """The keys of these events."""
        joins, of_events = events.joins, events.encoded
        code, _, ordered = sorted_groups(of_events.filter(pa.array(joins)))
        number = np.full(len(joins), -1)
        number[joins] = code
        return cls(ordered, number, of_events)


@dataclass(frozen=True)
class Side:
    """One side of the join. `rows`: its records, which begin at the index `start` of `events.rows`.

    `event`: its events that can be joined, ascending. `back`, `ahead`: how far before and after its own time a record
    searches, ms. `clock`: of the store before each event, and after the last one, ms. `kept`: the retention of the
    store, ms.
    """

    of_this: bool
    rows: Rows
    start: int
    event: Int64s
    back: int
    ahead: int
    store: SideStore
    clock: Int64s
    kept: int

    @classmethod
    def of(cls, of_this: bool, rows: Rows, start: int, events: Events, declared: Store, epoch: TaskEpoch) -> Side:
        """The side with these rows. `declared`: its store."""
        window, kept = declared.window, declared.kept_ms
        assert isinstance(window, JoinWindow)
        assert kept is not None
        here = events.joins & (events.of_this == of_this)
        back, ahead = window.before_ms, window.after_ms
        return cls(
            of_this,
            rows,
            start,
            np.flatnonzero(here),
            back if of_this else ahead,
            ahead if of_this else back,
            SideStore(declared, epoch.store(declared)),
            events.clock_of(here, epoch.clock(declared.name)),
            kept,
        )

    def expired(self, events: Events) -> int:
        """The number of records that Kafka's store would drop: their segment has expired when they come."""
        segment = max(self.kept // 2, _SEGMENT)
        segments = events.time[self.event] // segment
        return int((segments < (self.clock[self.event + 1] - self.kept) // segment).sum())

    def keep(self, events: Events, keys: Keys, numbers: Int64s) -> None:
        """Store the records that a later record can still find. `numbers`: of all events, see `_numbers`."""
        event = self.event[events.time[self.event] > self.clock[-1] - self.kept]
        encoded = keys.of_events.take(pa.array(event))
        self.store.put(encoded, self.values(events, event), events.time[event], numbers[event])

    def values(self, events: Events, event: Int64s) -> list[pa.Array]:
        """The stored columns of the records at these events."""
        at, columns = pa.array(events.row[event] - self.start), self.rows.values
        return [cast_to(columns[name].take(at), kind) for name, kind in self.store.types.items()]


@dataclass(frozen=True)
class Search:
    """What the records of one side find in the other. `targets`: the `stored` records, then the new ones."""

    stored: StoredRecords
    targets: Targets
    pairs: Pairs


def search(seeking: Side, sought: Side, events: Events, keys: Keys) -> Search:
    """Match the records of the side `seeking` with those of the side `sought`."""
    time, number = events.time[seeking.event], keys.number[seeking.event]
    # Visibility follows from the clock of the store and its retention, not from what is still on disk.
    visible = sought.clock[seeking.event] - sought.kept + 1
    seekers = Seekers(seeking.event, number, np.maximum(time - seeking.back, visible), time + seeking.ahead)
    stored = sought.store.find(_wanted(seekers, keys, int(sought.clock[0])))
    targets = Targets(
        np.concatenate([stored.key, keys.number[sought.event]]),
        np.concatenate([stored.time, events.time[sought.event]]),
        np.concatenate([np.full(len(stored.key), -1), sought.event]),
    )
    return Search(stored, targets, pairs(seekers, targets))


def _wanted(seekers: Seekers, keys: Keys, newest: int) -> Wanted:
    """For each key, the range of times that covers those of all its seekers. `newest`: latest time in the store, ms.

    Example: two seekers of key 0 want 5 to 25 and 15 to 35, and `newest` is 30. The range of key 0 is 5 to 30.
    """
    limits = np.iinfo(np.int64)
    first, last = (np.full(len(keys.encoded), limit) for limit in (limits.max, limits.min))
    np.minimum.at(first, seekers.key, np.maximum(seekers.first, 0))
    np.maximum.at(last, seekers.key, seekers.last)
    return Wanted(keys.encoded, first, np.minimum(last, newest))


@dataclass(frozen=True)
class Matched:
    """A side after both searches. `found`: the search by its records. `sought`: the search among its records.

    `columns` has the found stored records, then all new ones, then others. The two methods before it compute indexes
    into these columns.

    Example: two stored records of this side were found, and its new records are the events 0 and 3.

        columns                       [stored 0, stored 1, event 0, event 3]
        place(events, [3])            [3]
        target_place(events, [1, 2])  [1, 2]
    """

    side: Side
    found: Search
    sought: Search

    def place(self, events: Events, event: Int64s) -> Int64s:
        """The indexes in `columns` of new records of this side."""
        return len(self.sought.stored.key) + events.row[event] - self.side.start

    def target_place(self, events: Events, target: Int64s) -> Int64s:
        """The indexes in `columns` of targets of `sought`."""
        stored = len(self.sought.stored.key)
        new = self.place(events, self.side.event)
        return np.concatenate([np.arange(stored), new])[target]

    def columns(self, more: Sequence[pa.Array]) -> dict[str, pa.Array]:
        """The value columns of the found stored records, the new records, and `more` (or nothing), in this order."""
        stored = self.side.store.decode(self.sought.stored.value)
        new = self.side.rows.values
        behind = more or [pa.nulls(0, kind) for kind in self.side.store.types.values()]
        return {
            name: stacked([column, new[name], last])
            for (name, column), last in zip(stored.items(), behind, strict=True)
        }


# Decides which unmatched records of a left or outer join are emitted, and when, and which still wait.


@dataclass(frozen=True)
class Unmatched:
    """The records of one side without a match so far. The arrays hold events.

    `at_once`: emitted as they come, because no match can come any more. `new`, `outcome`: the other new records, and
    their outcome. `stored`, `stored_outcome`: the records that had waited before the epoch, and their outcome.
    `matched`: store keys of further records that are matched now, and need not have waited.
    """

    of: Matched
    at_once: Int64s
    new: Int64s
    outcome: Outcome
    stored: StoredWaiting
    stored_outcome: Outcome
    matched: list[bytes]

    @classmethod
    def find(cls, of: Matched, events: Events, keys: Keys, store: UnmatchedStore, deadlines: Deadlines) -> Unmatched:
        """The unmatched records of a side."""
        side, sought = of.side, of.sought
        matched = np.zeros(len(events.time), np.bool_)
        matched[of.found.pairs.event] = True
        alone = side.event[~matched[side.event]]
        last = events.time[alone] + side.ahead
        waits = last >= events.clock[alone]
        new, last = alone[waits], last[waits]
        first = sought.pairs.first_event(len(sought.targets.key), NEVER)
        stored = len(sought.stored.key)
        match = np.full(len(events.time), NEVER)
        match[side.event] = first[stored:]
        outcome = Outcome.of(deadlines.events_of(last), match[new])
        waited = store.before(deadlines.end - side.ahead, side.of_this)
        found = np.flatnonzero(first[:stored] < NEVER)
        at = _waiting_places(of, keys, found)
        # A matched record may be among `waited`, or its deadline may be later, or it may never have waited. `place`
        # leads to its first match, or behind all of them, to NEVER.
        place = to_numpy(pc.index_in(waited.at, value_set=at).fill_null(len(at)))
        then = np.append(first[found], NEVER)[place]
        return cls(
            of,
            alone[~waits],
            new,
            outcome,
            waited,
            Outcome.of(deadlines.events_of(waited.time + side.ahead), then),
            bytes_of(at.filter(pc.invert(pc.is_in(at, value_set=waited.at)))),
        )

    @property
    def ended(self) -> list[bytes]:
        """The store keys of stored records that no longer wait."""
        return bytes_of(self.stored.at.filter(pa.array(~self.stored_outcome.stays)))


def _waiting_places(of: Matched, keys: Keys, records: Int64s) -> pa.BinaryArray:
    """The store keys under which found stored records of a side would wait. `records`: indexes of `sought.stored`."""
    stored = of.sought.stored
    encoded = keys.encoded.take(pa.array(stored.key[records]))
    return unmatched_keys(encoded, stored.time[records], of.side.of_this, stored.number[records])


@dataclass(frozen=True)
class EmittedUnmatched:
    """The unmatched records that are emitted. `results`: those that had waited, in order.

    `at_once`: for each side, events that are emitted as they come. `columns`: for each side, the columns of stored
    records. `keys`: their encoded keys, over all sides. Both are appended to the columns of the other records.
    """

    results: Results
    at_once: list[Int64s]
    columns: list[list[pa.Array]]
    keys: pa.BinaryArray


def emitted_in_order(
    unmatched: Sequence[Unmatched], events: Events, keys: Keys, numbers: Int64s, store: UnmatchedStore
) -> EmittedUnmatched:
    """Merge the waiting records that are emitted, over all sides. Sorted by event, time, side, key, number.

    The other side comes before this side. `numbers`: of the events, see `_numbers`.
    """
    columns: list[list[Int64s]] = []
    encoded: list[pa.Array] = []
    values: list[list[pa.Array]] = []
    more: list[pa.BinaryArray] = []
    waited = 0
    for of_side in unmatched:
        side, stored = of_side.of.side, of_side.stored
        new = np.flatnonzero(of_side.outcome.out < NEVER)
        old = np.flatnonzero(of_side.stored_outcome.out < NEVER)
        event = of_side.new[new]
        first = len(of_side.of.sought.stored.key) + len(side.rows)
        place = np.concatenate([of_side.of.place(events, event), first + np.arange(len(old))])
        columns.append(
            [
                np.concatenate([of_side.outcome.out[new], of_side.stored_outcome.out[old]]),
                np.concatenate([events.time[event], stored.time[old]]),
                np.full(len(place), int(side.of_this)),
                np.concatenate([numbers[event], stored.number[old]]),
                place,
                np.concatenate([events.row[event], len(events.rows) + waited + np.arange(len(old))]),
            ]
        )
        more.append(stored.keys.take(pa.array(old)))
        waited += len(old)
        encoded += [keys.of_events.take(pa.array(event)), more[-1]]
        values.append(store.decode([stored.value[row] for row in old.tolist()], side.of_this, len(side.store.types)))
    out, time, of_this, number, place, key = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = _order(out, time, of_this, pa.concat_arrays(encoded), number)
    this, other = np.where(of_this == 1, place, NOBODY), np.where(of_this == 1, NOBODY, place)
    results = Results(WAITED, out[order], this[order], other[order], key[order], time[order])
    return EmittedUnmatched(results, [of_side.at_once for of_side in unmatched], values, pa.concat_arrays(more))


def _order(out: Int64s, time: Int64s, of_this: Int64s, key: pa.Array, number: Int64s) -> Int64s:
    columns = {"out": out, "time": time, "of_this": of_this, "key": key, "number": number}
    by = [(name, "ascending") for name in columns]
    return np.asarray(pc.sort_indices(pa.table(columns), sort_keys=by), np.int64)


# The operator of a stream-stream join.
#
# The rules are Kafka Streams' (`KStreamKStreamJoin`). A record searches the records of the other side that came before
# it. Then it goes into the store of its own side. Its matches are emitted in the order of their times, with the later
# time of both. In a left join an unmatched record of this side waits until no match can come any more; in an outer join
# a record of either side does. Waiting records are emitted before the matches of the record that moves stream time.

_EVENTS_BITS = 26
"""The low bits of a record's number hold its event; the high bits the length of the changelogs before the epoch."""


def join_streams(join: StreamJoin, edges: Edges, epoch: TaskEpoch) -> None:
    """See `StreamJoin`."""
    this_rows, other_rows = edges[join.flow], edges[join.other]
    clock = -1 if join.unmatched is None else epoch.clock(join.unmatched.name)
    events = Events.of(this_rows, other_rows, clock, epoch.places_of_time())
    keys = Keys.of(events)
    this = Side.of(True, this_rows, 0, events, join.this_store, epoch)
    other = Side.of(False, other_rows, len(this_rows), events, join.other_store, epoch)
    by_this, by_other = search(this, other, events, keys), search(other, this, events, keys)
    sides = Matched(this, by_this, by_other), Matched(other, by_other, by_this)
    keyless = events.no_key & ~events.no_value & _keeps(join, events.of_this)
    _drop(join, events, keyless, (this, other), epoch)
    numbers = _numbers(join, events, epoch)
    for side, store in ((this, join.this_store), (other, join.other_store)):
        side.keep(events, keys, numbers)
        epoch.advance(store.name, int(side.clock[-1]))
        epoch.let_pass(store.name)
    emitted = _emit_unmatched(join, sides, events, keys, numbers, epoch)
    edges[join.flow] = _rows(join, sides, events, keyless, emitted, trial=epoch.trial)


def _keeps(join: StreamJoin, of_this: Bools) -> Bools:
    """Whether the join emits unmatched records, by side. `of_this`: of each record."""
    return of_this & (join.how == "left") | (join.how == "outer")


def _drop(join: StreamJoin, events: Events, keyless: Bools, sides: Sequence[Side], epoch: TaskEpoch) -> None:
    epoch.drop(step_name(join), "null_value", int(events.no_value.sum()))
    epoch.drop(step_name(join), "null_key", int((events.no_key & ~events.no_value & ~keyless).sum()))
    epoch.drop(step_name(join), "late", sum(side.expired(events) for side in sides))


def _numbers(join: StreamJoin, events: Events, epoch: TaskEpoch) -> Int64s:
    """Numbers of the events, ascending, and greater than those of all stored records."""
    written = sum(epoch.store(each).position for each in join.stores)
    return (written << _EVENTS_BITS) + np.arange(len(events.time))


def _emit_unmatched(
    join: StreamJoin, sides: Sequence[Matched], events: Events, keys: Keys, numbers: Int64s, epoch: TaskEpoch
) -> EmittedUnmatched | None:
    """Update the store of unmatched records, and return the emitted ones; None in an inner join."""
    if join.unmatched is None:
        return None
    window = join.this_store.window
    assert isinstance(window, JoinWindow)
    store = UnmatchedStore(join.unmatched, epoch.store(join.unmatched))
    deadlines = Deadlines.of(events, window.grace_ms)
    kept = sides if join.how == "outer" else sides[:1]
    unmatched = [Unmatched.find(matched, events, keys, store, deadlines) for matched in kept]
    for side in unmatched:
        store.remove(side.ended, side.matched)
        _wait(side, events, keys, numbers, store)
    if len(events.clock):
        epoch.advance(join.unmatched.name, int(events.clock[-1]))
    return emitted_in_order(unmatched, events, keys, numbers, store)


def _rows(
    join: StreamJoin,
    sides: tuple[Matched, Matched],
    events: Events,
    keyless: Bools,
    emitted: EmittedUnmatched | None,
    *,
    trial: bool,
) -> Rows:
    """The result rows, in path order."""
    this, other = sides
    parts = [_pairs(this, other, events), _pairs(other, this, events)]
    alone = [np.flatnonzero(keyless & (events.of_this == side.side.of_this)) for side in sides]
    stored = pa.array([], pa.binary())
    waited: list[Sequence[pa.Array]] = [[], []]
    if emitted is not None:
        parts.append(emitted.results)
        stored = emitted.keys
        waited[: len(emitted.columns)] = emitted.columns
        for number, more in enumerate(emitted.at_once):
            alone[number] = np.union1d(alone[number], more)
    parts += [_alone(side, event, events) for side, event in zip(sides, alone, strict=True)]
    types = [column.type for column in events.key.values()]
    keys = dict(zip(events.key, decode_keys(stored, types), strict=True))
    of_other = other.columns(waited[1])
    columns = Columns(
        {name: stacked([column, keys[name]]) for name, column in events.key.items()},
        this.columns(waited[0]),
        {new: of_other[old] for new, old in join.values.items()},
    )
    return rows_of(parts, columns, events, trial)


def _pairs(of: Matched, others: Matched, events: Events) -> Results:
    """The matches of the records of one side."""
    event, target = of.found.pairs.event, of.found.pairs.target
    places = of.place(events, event), others.target_place(events, target)
    this, other = places if of.side.of_this else places[::-1]
    time = np.maximum(events.time[event], of.found.targets.time[target])
    return Results(NEW, event, this, other, events.row[event], time)


def _alone(of: Matched, event: Int64s, events: Events) -> Results:
    """Records of one side that are emitted without a match as they come."""
    places = of.place(events, event), np.full(len(event), NOBODY)
    this, other = places if of.side.of_this else places[::-1]
    return Results(NEW, event, this, other, events.row[event], events.time[event])


def _wait(unmatched: Unmatched, events: Events, keys: Keys, numbers: Int64s, store: UnmatchedStore) -> None:
    """Store the new records that still wait."""
    side, event = unmatched.of.side, unmatched.new[unmatched.outcome.stays]
    values = side.values(events, event)
    nulls = len(store.types) - len(values)
    if side.of_this:
        values += [pa.nulls(len(event), kind) for kind in store.types[len(values) :]]
    else:
        values = [*(pa.nulls(len(event), kind) for kind in store.types[:nulls]), *values]
    at = unmatched_keys(keys.of_events.take(pa.array(event)), events.time[event], side.of_this, numbers[event])
    store.put(at, values, events.time[event])
