"""A buffer during one epoch: reads the changes that go on or are replaced, and writes those that are new."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa

from ...records.arrays import Int64s
from ...topology import Store
from ..task_epoch import EpochStore
from .entries import COUNT, ChangeCodec, Changes, first_place, place_keys, row_keys, split_places

_WIDTH = 8


@dataclass(frozen=True)
class Waiting:
    """Changes that wait, and their encoded keys."""

    keys: pa.BinaryArray
    changes: Changes


class Buffer:
    """The changes that wait in an epoch's store. Changes that stay as they are, are neither read nor written."""

    def __init__(self, store: Store, opened: EpochStore) -> None:
        self._opened = opened
        self._codec = ChangeCodec(store)
        self._by_key = store.type == "changes"

    def read(self, keys: pa.BinaryArray, times: Int64s, passed: int, oldest: int) -> Waiting:
        """Those of times up to `passed` (ms), at least so many of the `oldest`, and those of `keys`.

        `times`: of the windows of these keys; without meaning in a store of type `changes`.
        """
        due = [*self._opened.range(first_place(), first_place(passed))]
        if len(due) < oldest:
            due = [*islice(self._opened.range(first_place(), None), oldest)]
        stored, waiting = split_places([place for place, _ in due])
        if self._by_key:
            wanted = sorted({*keys.to_pylist(), *waiting})
            found = self._opened.get_many(row_keys(pa.array(wanted, pa.binary())).to_pylist())
            there = {key: row for key, row in zip(wanted, found, strict=True) if row is not None}
            return Waiting(pa.array(there, pa.binary()), self._codec.decode([*there.values()]))
        rows = {key: (time, row) for key, time, (_, row) in zip(waiting, stored.tolist(), due, strict=True)}
        found = self._opened.get_many(place_keys(times, keys).to_pylist())
        others = zip(keys.to_pylist(), times.tolist(), found, strict=True)
        rows |= {key: (time, row) for key, time, row in others if row is not None}
        stored = np.array([time for time, _ in rows.values()], np.int64)
        return Waiting(pa.array(rows, pa.binary()), self._codec.decode([row for _, row in rows.values()], stored))

    def take_away(self, keys: pa.BinaryArray, times: Int64s) -> None:
        """Take away changes that went on. `times`: by which they waited."""
        self._put(place_keys(times, keys), [None] * len(keys), times)
        if self._by_key:
            self._put(row_keys(keys), [None] * len(keys), times)

    def keep(self, waiting: Waiting, begun: Int64s) -> None:
        """Keep changes, those of keys that wait already in their place. `begun`: the numbers of the others."""
        places, changes = place_keys(waiting.changes.time, waiting.keys), waiting.changes
        rows: list[bytes | None] = [*self._codec.encode(changes)]
        self._put(row_keys(waiting.keys) if self._by_key else places, rows, changes.timestamp)
        if self._by_key:
            self._put(places.take(pa.array(begun)), [bytes(_WIDTH)] * len(begun), changes.time[begun])

    def count(self) -> int:
        """How many wait: as it was noted, or else all places are counted."""
        (noted,) = self._opened.get_many([COUNT])
        if noted is not None:
            return int.from_bytes(noted[_WIDTH:], "little")
        return sum(1 for _ in self._opened.range(first_place(), None))

    def note_count(self, count: int | None) -> None:
        """Note how many wait; None where nobody asks, so that no count is noted that is outdated later."""
        (noted,) = self._opened.get_many([COUNT])
        value = None if count is None else bytes(_WIDTH) + count.to_bytes(_WIDTH, "little")
        if noted != value:
            self._opened.put_many([COUNT], [value], np.zeros(1, np.int64))

    def _put(self, keys: pa.BinaryArray, rows: list[bytes | None], times: Int64s) -> None:
        if len(keys):
            self._opened.put_many(keys.to_pylist(), rows, times)
