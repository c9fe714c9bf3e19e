"""Settles which records of a left or outer join come out alone, when, and which wait on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....records.arrays import Int64s, to_numpy
from ....records.keys.joins import unmatched_keys
from ...keyed.codes import bytes_of
from .events import Events
from .output import NOBODY, WAITED, Results
from .sides import Keys, Matched
from .waiting import NEVER, Deadlines, Fate, StoredWaiting, UnmatchedStore


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
