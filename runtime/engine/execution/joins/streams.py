"""Joins of two streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....ir.topology import Store
from ....ir.windows import JoinWindow
from ....records.arrays import Bools, Int64s, cast_to, to_numpy
from ....records.join_keys import unmatched_keys
from ....records.keys import decode_keys
from ...operators.joins import StreamJoin
from ..keyed.groups import by_key, bytes_of, group_codes
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
    Fate,
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

# One side of a join in an epoch: its records, its store, and what the other side finds there.

_SEGMENT = 60_000
"""Kafka's stores drop records by segments of half the retention, at least of so many ms, and count what they drop."""


@dataclass(frozen=True)
class Keys:
    """The keys of an epoch's records. `encoded`: the distinct ones, in the order of their bytes. `number`: of each
    event that of its key among these, -1 if it cannot be joined. `of_events`: the encoded key of each event.
    """

    encoded: pa.BinaryArray
    number: Int64s
    of_events: pa.BinaryArray

    @classmethod
    def of(cls, events: Events) -> Keys:
        """Of the records that can be joined."""
        joins, of_events = events.joins, events.encoded
        encoded = of_events.filter(pa.array(joins))
        code, first = group_codes(encoded)
        code, _, ordered = by_key(code, first, encoded.take(pa.array(first)))
        number = np.full(len(joins), -1)
        number[joins] = code
        return cls(ordered, number, of_events)


@dataclass(frozen=True)
class Side:
    """One side. `rows`: its records, which begin at `start` in `events.rows`; `event`: those that can be joined.

    `back`, `ahead`: how far before and after its own time a record looks, ms. `clock`: that of the store before each
    event, and at the end. `kept`: how long records can be found, ms.
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
        """The side with these rows, whose records `declared` keeps."""
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
        """How many of its records Kafka's store drops: those in a segment that has expired when they come."""
        segment = max(self.kept // 2, _SEGMENT)
        segments = events.time[self.event] // segment
        return int((segments < (self.clock[self.event + 1] - self.kept) // segment).sum())

    def keep(self, events: Events, keys: Keys, numbers: Int64s) -> None:
        """Put its records into the store: those that a later record can find."""
        event = self.event[events.time[self.event] > self.clock[-1] - self.kept]
        encoded = keys.of_events.take(pa.array(event))
        self.store.put(encoded, self.values(events, event), events.time[event], numbers[event])

    def values(self, events: Events, event: Int64s) -> list[pa.Array]:
        """The columns that the store has of these records."""
        at, columns = pa.array(events.row[event] - self.start), self.rows.values
        return [cast_to(columns[name].take(at), kind) for name, kind in self.store.types.items()]


@dataclass(frozen=True)
class Search:
    """What the records of one side find in the other: `stored` records first, then new ones (`targets`)."""

    stored: StoredRecords
    targets: Targets
    pairs: Pairs


def search(seeking: Side, sought: Side, events: Events, keys: Keys) -> Search:
    """Have the records of one side look for those of the other."""
    time, number = events.time[seeking.event], keys.number[seeking.event]
    # A store shows what its own clock has not passed by its retention, whatever is still on the disk.
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
    """The times that any record of a key asks for. `newest`: the latest time in the store, ms."""
    limits = np.iinfo(np.int64)
    first, last = (np.full(len(keys.encoded), limit) for limit in (limits.max, limits.min))
    np.minimum.at(first, seekers.key, np.maximum(seekers.first, 0))
    np.maximum.at(last, seekers.key, seekers.last)
    return Wanted(keys.encoded, first, np.minimum(last, newest))


@dataclass(frozen=True)
class Matched:
    """A side after both searches. `found`: what its records have found; `sought`: the search among its records."""

    side: Side
    found: Search
    sought: Search

    def place(self, events: Events, event: Int64s) -> Int64s:
        """Where records of this side are in `columns`."""
        return len(self.sought.stored.key) + events.row[event] - self.side.start

    def target_place(self, events: Events, target: Int64s) -> Int64s:
        """The same of targets of the search."""
        stored = len(self.sought.stored.key)
        new = self.place(events, self.side.event)
        return np.concatenate([np.arange(stored), new])[target]

    def columns(self, more: Sequence[pa.Array]) -> dict[str, pa.Array]:
        """The stored records that were found, the new ones, and `more` (or nothing), one after another."""
        stored = self.side.store.decode(self.sought.stored.value)
        new = self.side.rows.values
        behind = more or [pa.nulls(0, kind) for kind in self.side.store.types.values()]
        return {
            name: stacked([column, new[name], last])
            for (name, column), last in zip(stored.items(), behind, strict=True)
        }


# Settles which records of a left or outer join come out alone, when, and which wait on.


@dataclass(frozen=True)
class Lonely:
    """The records of one side without a match. `at_once`: those for which none can come any more, as they come.

    `new`: the others, and what becomes of them. `stored`: those that waited already, and what becomes of these.
    """

    of: Matched
    at_once: Int64s
    new: Int64s
    fate: Fate
    stored: StoredWaiting
    stored_fate: Fate
    matched: list[bytes]

    @classmethod
    def find(cls, of: Matched, events: Events, keys: Keys, store: UnmatchedStore, deadlines: Deadlines) -> Lonely:
        """Those of a side."""
        side, sought = of.side, of.sought
        matched = np.zeros(len(events.time), np.bool_)
        matched[of.found.pairs.event] = True
        lonely = side.event[~matched[side.event]]
        last = events.time[lonely] + side.ahead
        waits = last >= events.clock[lonely]
        new, last = lonely[waits], last[waits]
        first = sought.pairs.first_event(len(sought.targets.key), NEVER)
        stored = len(sought.stored.key)
        match = np.full(len(events.time), NEVER)
        match[side.event] = first[stored:]
        fate = Fate.of(deadlines.events_of(last), match[new])
        waited = store.before(deadlines.end - side.ahead, side.of_this)
        found = np.flatnonzero(first[:stored] < NEVER)
        at = _waiting_places(of, keys, found)
        # Of those that are matched some wait until now, others wait longer, others never did.
        place = to_numpy(pc.index_in(waited.at, value_set=at).fill_null(len(at)))
        then = np.append(first[found], NEVER)[place]
        return cls(
            of,
            lonely[~waits],
            new,
            fate,
            waited,
            Fate.of(deadlines.events_of(waited.time + side.ahead), then),
            bytes_of(at.filter(pc.invert(pc.is_in(at, value_set=waited.at)))),
        )

    @property
    def ended(self) -> list[bytes]:
        """Where the stored records are that wait no more."""
        return bytes_of(self.stored.at.filter(pa.array(~self.stored_fate.stays)))


def _waiting_places(of: Matched, keys: Keys, records: Int64s) -> pa.BinaryArray:
    """Where stored records of a side would wait."""
    stored = of.sought.stored
    encoded = keys.encoded.take(pa.array(stored.key[records]))
    return unmatched_keys(encoded, stored.time[records], of.side.of_this, stored.number[records])


@dataclass(frozen=True)
class Settled:
    """What comes out of those who waited (`results`), in order.

    `at_once`: what comes out alone as it comes, by side. Of the stored ones `columns` has those of their side, by side,
    and `keys` the encoded keys; they follow those of the other records.
    """

    results: Results
    at_once: list[Int64s]
    columns: list[list[pa.Array]]
    keys: pa.BinaryArray


def settle(lonely: Sequence[Lonely], events: Events, keys: Keys, numbers: Int64s, store: UnmatchedStore) -> Settled:
    """Put in order what comes out of all sides: by event, time, the other side first, key, and as they came.

    `numbers`: of the events.
    """
    columns: list[list[Int64s]] = []
    encoded: list[pa.Array] = []
    values: list[list[pa.Array]] = []
    more: list[pa.BinaryArray] = []
    waited = 0
    for each in lonely:
        side, stored = each.of.side, each.stored
        new = np.flatnonzero(each.fate.out < NEVER)
        old = np.flatnonzero(each.stored_fate.out < NEVER)
        event = each.new[new]
        first = len(each.of.sought.stored.key) + len(side.rows)
        place = np.concatenate([each.of.place(events, event), first + np.arange(len(old))])
        columns.append(
            [
                np.concatenate([each.fate.out[new], each.stored_fate.out[old]]),
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
    return Settled(results, [each.at_once for each in lonely], values, pa.concat_arrays(more))


def _order(out: Int64s, time: Int64s, of_this: Int64s, key: pa.Array, number: Int64s) -> Int64s:
    columns = {"out": out, "time": time, "of_this": of_this, "key": key, "number": number}
    by = [(name, "ascending") for name in columns]
    return np.asarray(pc.sort_indices(pa.table(columns), sort_keys=by), np.int64)


# The operator of a join of two streams.
#
# The rules are Kafka Streams' (`KStreamKStreamJoin`): a record looks for those of the other side that came before it,
# and is put into the store of its own side then. What it finds comes out in the order of their times, with the later of
# both times. In a left join a record of this side that finds none waits, in an outer join one of either side, until no
# match can come any more; what waits comes out before the matches of the record that moves stream time there.

_EVENTS_BITS = 26
"""A record's number is what the changelogs had when the epoch began, then its own place in these bits."""


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
    settled = _settled(join, sides, events, keys, numbers, epoch)
    edges[join.flow] = _rows(join, sides, events, keyless, settled, trial=epoch.trial)


def _keeps(join: StreamJoin, of_this: Bools) -> Bools:
    """Whether records come out without a match, by their side."""
    return of_this & (join.how == "left") | (join.how == "outer")


def _drop(join: StreamJoin, events: Events, keyless: Bools, sides: Sequence[Side], epoch: TaskEpoch) -> None:
    epoch.drop(step_name(join), "null_value", int(events.no_value.sum()))
    epoch.drop(step_name(join), "null_key", int((events.no_key & ~events.no_value & ~keyless).sum()))
    epoch.drop(step_name(join), "late", sum(side.expired(events) for side in sides))


def _numbers(join: StreamJoin, events: Events, epoch: TaskEpoch) -> Int64s:
    """A number for each event that is above those of all stored records."""
    written = sum(epoch.store(each).position for each in join.stores)
    return (written << _EVENTS_BITS) + np.arange(len(events.time))


def _settled(
    join: StreamJoin, sides: Sequence[Matched], events: Events, keys: Keys, numbers: Int64s, epoch: TaskEpoch
) -> Settled | None:
    """What waited or waits from now on; None in an inner join."""
    if join.unmatched is None:
        return None
    window = join.this_store.window
    assert isinstance(window, JoinWindow)
    store = UnmatchedStore(join.unmatched, epoch.store(join.unmatched))
    deadlines = Deadlines.of(events, window.grace_ms)
    kept = sides if join.how == "outer" else sides[:1]
    lonely = [Lonely.find(side, events, keys, store, deadlines) for side in kept]
    for each in lonely:
        store.remove(each.ended, each.matched)
        _wait(each, events, keys, numbers, store)
    if len(events.clock):
        epoch.advance(join.unmatched.name, int(events.clock[-1]))
    return settle(lonely, events, keys, numbers, store)


def _rows(
    join: StreamJoin,
    sides: tuple[Matched, Matched],
    events: Events,
    keyless: Bools,
    settled: Settled | None,
    *,
    trial: bool,
) -> Rows:
    """What comes out, in order."""
    this, other = sides
    parts = [_pairs(this, other, events), _pairs(other, this, events)]
    alone = [np.flatnonzero(keyless & (events.of_this == side.side.of_this)) for side in sides]
    stored = pa.array([], pa.binary())
    waited: list[Sequence[pa.Array]] = [[], []]
    if settled is not None:
        parts.append(settled.results)
        stored = settled.keys
        waited[: len(settled.columns)] = settled.columns
        for number, more in enumerate(settled.at_once):
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
    """What the records of one side have found."""
    event, target = of.found.pairs.event, of.found.pairs.target
    places = of.place(events, event), others.target_place(events, target)
    this, other = places if of.side.of_this else places[::-1]
    time = np.maximum(events.time[event], of.found.targets.time[target])
    return Results(NEW, event, this, other, events.row[event], time)


def _alone(of: Matched, event: Int64s, events: Events) -> Results:
    """Records of one side that come out alone as they come."""
    places = of.place(events, event), np.full(len(event), NOBODY)
    this, other = places if of.side.of_this else places[::-1]
    return Results(NEW, event, this, other, events.row[event], events.time[event])


def _wait(lonely: Lonely, events: Events, keys: Keys, numbers: Int64s, store: UnmatchedStore) -> None:
    """Store the new records that wait on."""
    side, event = lonely.of.side, lonely.new[lonely.fate.stays]
    values = side.values(events, event)
    nulls = len(store.types) - len(values)
    if side.of_this:
        values += [pa.nulls(len(event), kind) for kind in store.types[len(values) :]]
    else:
        values = [*(pa.nulls(len(event), kind) for kind in store.types[:nulls]), *values]
    at = unmatched_keys(keys.of_events.take(pa.array(event)), events.time[event], side.of_this, numbers[event])
    store.put(at, values, events.time[event])
