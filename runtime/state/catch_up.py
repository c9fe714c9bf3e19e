"""Brings stores forward by their changelogs."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from ..log.ranges import LogRange, RangeReader
from ..records.key_order import last_in_order
from ..tasks.errors import TaskCorruptedError, TaskMigratedError
from ..tasks.plan import StoreInput
from ..timed_parts import timed
from .store import Changes, StateStore

# How long one request may work on stores: epochs of the same client wait meanwhile.


class TimeBudget:
    """A budget of `seconds`, from now on."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._until = time.monotonic() + seconds

    def is_over(self) -> bool:
        """Whether the time is used up. A transaction that has begun is still finished."""
        return time.monotonic() >= self._until

    def may_read(self) -> Callable[[], bool]:
        """Whether to read more before writing: for half of the time that is left now."""
        until = (time.monotonic() + self._until) / 2
        return lambda: time.monotonic() < until


# The last change of each key in a sequence of records. A store needs only these.

_COLUMNS = pa.schema([("key", pa.large_binary()), ("value", pa.large_binary())])
"""With 64-bit offsets: the values of one transaction may exceed 2 GB."""

FOLD_RECORDS = 131_072
FOLD_BYTES = 32 << 20


class LastChanges:
    """Collects records in order and keeps the last change of each key. Its size grows with the keys, not the records.

    `fold_records`: after so many records, or after FOLD_BYTES, it drops changes that later ones replace.
    """

    def __init__(self, fold_records: int = FOLD_RECORDS) -> None:
        self._fold_records = fold_records
        self._folded = pa.RecordBatch.from_pylist([], _COLUMNS)
        self._folded_bytes = 0
        self._new: list[pa.RecordBatch] = []
        self._new_records = 0
        self._new_bytes = 0

    @property
    def keys(self) -> int:
        """An upper bound of the number of keys."""
        return int(self._folded.num_rows) + self._new_records

    @property
    def size(self) -> int:
        """The approximate size in memory, in bytes."""
        return self._folded_bytes + self._new_bytes

    def add(self, records: pa.RecordBatch) -> None:
        """Add records with the columns `key` and `value`. A null value deletes the key."""
        self._new.append(records.cast(_COLUMNS))
        self._new_records += records.num_rows
        self._new_bytes += records.nbytes
        if self._new_records >= self._fold_records or self._new_bytes >= FOLD_BYTES:
            self._fold()

    def changes(self) -> Changes:
        """The last change of each key, sorted by the keys' bytes, which is the fastest order for a store to write."""
        self._fold()
        # Through numpy: pyarrow's `to_pylist` is slower for bytes.
        keys, values = (column.to_numpy(zero_copy_only=False).tolist() for column in self._folded.columns)
        return keys, values

    def _fold(self) -> None:
        if self._new:
            records = pa.concat_batches([self._folded, *self._new])
            self._folded = records.take(pa.array(last_in_order(records["key"])))
            self._folded_bytes = self._folded.nbytes
            self._new, self._new_records, self._new_bytes = [], 0, 0


# Applies a changelog to a store.
#
# The same code catches up after a commit, restores an empty store and updates a standby store: it applies committed
# changelog records in order, from the store's position on. Positions are those of the changelog partition.

_ABOVE_ALL_KEYS = b"\xff"
"""A bound above the keys of all rows. Only a global table's store has a key from here on, for its positions."""

RECORDS_PER_SLICE = 65_536
"""The most records of a slice. They are read in some hundredths of a second."""

MAX_KEYS_PER_TRANSACTION = 131_072
"""A transaction takes further slices until it changes so many keys. They are written in a tenth of a second."""

MAX_BYTES_PER_TRANSACTION = 64 << 20
"""The same limit in bytes."""


@dataclass(frozen=True)
class Part:
    """The records of a range from position `start` to `end`, exclusive."""

    within: LogRange
    start: int
    end: int


@dataclass(frozen=True)
class Slice:
    """Adjacent records of a changelog that bring a store from `from_position` to `position`."""

    from_position: int
    position: int
    parts: tuple[Part, ...]


def catch_up(
    store: StateStore,
    planned: StoreInput,
    log: RangeReader,
    expire_below: bytes | None = None,
    position: int | None = None,
) -> None:
    """Bring `store` to the planned position, and delete the keys below `expire_below`. `position`: the store's current
    one, if the caller has just read it.

    Raises TaskMigratedError if the store is ahead of the plan, because another owner has advanced it, and
    TaskCorruptedError if the plan's ranges begin after the store's position.
    """
    start = store.position if position is None else position
    if start > planned.position:
        raise TaskMigratedError(f"store {planned.store}", planned.position, start)
    remaining = slices(planned, start)
    while apply_slices(store, remaining, log, expire_below=expire_below):
        pass
    if expire_below is not None and next(store.range(None, expire_below), None) is not None:
        store.apply((), planned.position, planned.position, expire_below)


def slices(planned: StoreInput, position: int, most: int = RECORDS_PER_SLICE) -> Iterator[Slice]:
    """The records from `position` to the planned position, in slices of at most `most` records.

    Ranges 0-5 and 5-12, position 3, planned position 10 and most 4 give two slices: 3-7 (parts 3-5 and 5-7) and 7-10
    (part 7-10).

    Raises TaskCorruptedError if records are missing.
    """
    start, at, target, parts = position, position, planned.position, list[Part]()
    for log_range in sorted(planned.ranges, key=lambda log_range: log_range.start):
        while at < min(target, log_range.end):
            if log_range.start > at:
                raise _missing(planned.store, at, log_range.start)
            end = min(target, log_range.end, start + most)
            parts.append(Part(log_range, at, end))
            at = end
            if at - start >= most:
                yield Slice(start, at, tuple(parts))
                start, parts = at, []
    if at < target:
        raise _missing(planned.store, at, target)
    if parts:
        yield Slice(start, at, tuple(parts))


def apply_slices(
    store: StateStore,
    remaining: Iterable[Slice],
    log: RangeReader,
    may_read: Callable[[], bool] = lambda: True,
    expire_below: bytes | None = None,
) -> int:
    """Apply adjacent slices in one transaction: the first one, and more while `may_read`. Returns their number.

    Only the last change of a key is written. Keys below `expire_below` are not written, and their rows are deleted.
    Raises TaskMigratedError if the store is not at the start of the first slice, or if slices are not adjacent.
    """
    last, done = LastChanges(), list[Slice]()
    for next_slice in remaining:
        if done and next_slice.from_position != done[-1].position:
            raise TaskMigratedError("a slice of a store", next_slice.from_position, done[-1].position)
        with timed("read changelog"):
            for records in read_slice(next_slice, log):
                last.add(records)
        done.append(next_slice)
        if last.keys >= MAX_KEYS_PER_TRANSACTION or last.size >= MAX_BYTES_PER_TRANSACTION or not may_read():
            break
    if done:  # in the same transaction the store compares its position with the start of the first slice
        changes = _not_expired(last.changes(), expire_below)
        with timed("write rows"):
            store.apply([changes], done[0].from_position, done[-1].position, expire_below)
    return len(done)


def _not_expired(changes: Changes, below: bytes | None) -> Changes:
    """The changes of keys from `below` on. The keys are sorted."""
    keys, values = changes
    first = 0 if below is None else bisect_left(keys, below)
    return keys[first:], values[first:]


def read_slice(records_slice: Slice, log: RangeReader) -> Iterator[pa.RecordBatch]:
    """The records of a slice, in batches with the columns `key` and `value`. A null value deletes the key."""
    reader = log.ahead((part.within, part.start) for part in records_slice.parts)
    for part in records_slice.parts:
        for fetched in reader.read(part.within, part.start, ("key", "value")):
            yield fetched.before(part.end)
            if fetched.end >= part.end:
                break


def start_empty(store: StateStore, planned: StoreInput) -> bool:
    """Empty a store without a kept changelog if what is left of the changelog begins after the store's position.

    The store is then at the planned position, without rows. Returns whether it was emptied.
    """
    position = store.position
    first = min((log_range.start for log_range in planned.ranges), default=planned.position)
    if position >= first:
        return False
    store.apply((), position, planned.position, _ABOVE_ALL_KEYS)
    return True


def _missing(store: str, position: int, until: int) -> TaskCorruptedError:
    return TaskCorruptedError(f"store {store} lacks the changelog's records {position} to {until - 1}", store=store)
