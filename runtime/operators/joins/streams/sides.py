"""One side of a join in an epoch: its records, its store, and what the other side finds there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ....records.arrays import Int64s, typed
from ....topology import Store
from ....windows import JoinWindow
from ...keyed.codes import by_key, group_codes
from ...rows import Rows
from ...task_epoch import TaskEpoch
from .events import Events
from .matching import Pairs, Seekers, Targets, pairs
from .output import stacked
from .side_store import SideStore, StoredRecords, Wanted

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
        return [typed(columns[name].take(at), kind) for name, kind in self.store.types.items()]


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
