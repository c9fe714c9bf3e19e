"""The records of a left or outer join that have found no match so far, and when they come out without one.

A record waits until stream time has passed the last time that fits to it by more than the grace period. The next record
that moves stream time there has it come out: Kafka Streams looks at most once a second of the wall clock, on which
results must not depend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ....records.arrays import Bools, Int64s
from ....records.keys.joins import split_unmatched_keys, unmatched_before
from ....records.types import parse_columns
from ....state.codec import RowCodec
from ....topology import Store
from ...keyed.codes import bytes_of
from ...task_epoch import EpochStore
from .events import Events

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
