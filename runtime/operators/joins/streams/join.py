"""The operator of a join of two streams.

The rules are Kafka Streams' (`KStreamKStreamJoin`): a record looks for those of the other side that came before it, and
is put into the store of its own side then. What it finds comes out in the order of their times, with the later of both
times. In a left join a record of this side that finds none waits, in an outer join one of either side, until no match
can come any more; what waits comes out before the matches of the record that moves stream time there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ....records.arrays import Bools, Int64s
from ....records.keys.joins import unmatched_keys
from ....records.keys.reading import decode_keys
from ....windows import JoinWindow
from ... import declarations
from ...node import Edges, step_name
from ...rows import Rows
from ...task_epoch import TaskEpoch
from .events import Events
from .output import NEW, NOBODY, Columns, Results, rows_of, stacked
from .settling import Lonely, Settled, settle
from .sides import Keys, Matched, Side, search
from .waiting import Deadlines, UnmatchedStore

_EVENTS_BITS = 26
"""A record's number is what the changelogs had when the epoch began, then its own place in these bits."""


@dataclass(frozen=True)
class StreamJoin(declarations.StreamJoin):
    """Joins the records of two edges that have equal keys and times that fit (`this_store.window`).

    | | null value | null key |
    |---|---|---|
    | inner | dropped, counted | dropped, counted |
    | left | dropped, counted | of this side: goes on alone; of the other: dropped, counted |
    | outer | dropped, counted | goes on alone |

    Dropped records move stream time too. A pair has the later of both times, and the headers of the record that came
    later; what comes out alone has its own time, and the headers of the record at which it comes out.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        this_rows, other_rows = edges[self.flow], edges[self.other]
        clock = -1 if self.unmatched is None else epoch.clock(self.unmatched.name)
        events = Events.of(this_rows, other_rows, clock, epoch.places_of_time())
        keys = Keys.of(events)
        this = Side.of(True, this_rows, 0, events, self.this_store, epoch)
        other = Side.of(False, other_rows, len(this_rows), events, self.other_store, epoch)
        by_this, by_other = search(this, other, events, keys), search(other, this, events, keys)
        sides = Matched(this, by_this, by_other), Matched(other, by_other, by_this)
        keyless = events.no_key & ~events.no_value & self._keeps(events.of_this)
        self._drop(events, keyless, (this, other), epoch)
        numbers = self._numbers(events, epoch)
        for side, store in ((this, self.this_store), (other, self.other_store)):
            side.keep(events, keys, numbers)
            epoch.advance(store.name, int(side.clock[-1]))
            epoch.let_pass(store.name)
        settled = self._settled(sides, events, keys, numbers, epoch)
        edges[self.flow] = self._rows(sides, events, keyless, settled, trial=epoch.trial)

    def _keeps(self, of_this: Bools) -> Bools:
        """Whether records come out without a match, by their side."""
        return of_this & (self.how == "left") | (self.how == "outer")

    def _drop(self, events: Events, keyless: Bools, sides: Sequence[Side], epoch: TaskEpoch) -> None:
        epoch.drop(step_name(self), "null_value", int(events.no_value.sum()))
        epoch.drop(step_name(self), "null_key", int((events.no_key & ~events.no_value & ~keyless).sum()))
        epoch.drop(step_name(self), "late", sum(side.expired(events) for side in sides))

    def _numbers(self, events: Events, epoch: TaskEpoch) -> Int64s:
        """A number for each event that is above those of all stored records."""
        written = sum(epoch.store(each).position for each in self.stores)
        return (written << _EVENTS_BITS) + np.arange(len(events.time))

    def _settled(
        self, sides: Sequence[Matched], events: Events, keys: Keys, numbers: Int64s, epoch: TaskEpoch
    ) -> Settled | None:
        """What waited or waits from now on; None in an inner join."""
        if self.unmatched is None:
            return None
        window = self.this_store.window
        assert isinstance(window, JoinWindow)
        store = UnmatchedStore(self.unmatched, epoch.store(self.unmatched))
        deadlines = Deadlines.of(events, window.grace_ms)
        kept = sides if self.how == "outer" else sides[:1]
        lonely = [Lonely.find(side, events, keys, store, deadlines) for side in kept]
        for each in lonely:
            store.remove(each.ended, each.matched)
            _wait(each, events, keys, numbers, store)
        if len(events.clock):
            epoch.advance(self.unmatched.name, int(events.clock[-1]))
        return settle(lonely, events, keys, numbers, store)

    def _rows(
        self, sides: tuple[Matched, Matched], events: Events, keyless: Bools, settled: Settled | None, *, trial: bool
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
            {new: of_other[old] for new, old in self.values.items()},
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
