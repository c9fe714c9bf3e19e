"""How far a store is behind."""

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

# For how long a slice of work on stores may go on: epochs of the same client wait meanwhile.


class Pace:
    """`seconds` from now on."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._until = time.monotonic() + seconds

    def is_over(self) -> bool:
        """Whether the time is over. What is begun is still finished."""
        return time.monotonic() >= self._until

    def may_read(self) -> Callable[[], bool]:
        """Whether to read on before what was read is written: for half of the time that there is now."""
        until = (time.monotonic() + self._until) / 2
        return lambda: time.monotonic() < until


# The last change of each key, out of records that follow one another: what a store has to be told of them.

_COLUMNS = pa.schema([("key", pa.large_binary()), ("value", pa.large_binary())])
"""Large: the values of a step may take more than 2 GB together."""

FOLD_RECORDS = 131_072
FOLD_BYTES = 32 << 20


class LastChanges:
    """Takes in records in their order. What it holds grows with the keys, not with the records.

    `fold_records`: after so many, or after FOLD_BYTES, changes are left out that later ones replace.
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
        """How many keys there are, or somewhat more."""
        return int(self._folded.num_rows) + self._new_records

    @property
    def size(self) -> int:
        """Bytes that are held, about."""
        return self._folded_bytes + self._new_bytes

    def add(self, records: pa.RecordBatch) -> None:
        """Take in records with the columns `key` and `value`; a null value deletes the key."""
        self._new.append(records.cast(_COLUMNS))
        self._new_records += records.num_rows
        self._new_bytes += records.nbytes
        if self._new_records >= self._fold_records or self._new_bytes >= FOLD_BYTES:
            self._fold()

    def changes(self) -> Changes:
        """The last change of each key, in the order of the keys' bytes, in which stores write fastest."""
        self._fold()
        # Through numpy, as pyarrow's own `to_pylist` is slower for bytes.
        keys, values = (column.to_numpy(zero_copy_only=False).tolist() for column in self._folded.columns)
        return keys, values

    def _fold(self) -> None:
        if self._new:
            together = pa.concat_batches([self._folded, *self._new])
            self._folded = together.take(pa.array(last_in_order(together["key"])))
            self._folded_bytes = self._folded.nbytes
            self._new, self._new_records, self._new_bytes = [], 0, 0


# Brings a store forward by its changelog.
#
# Catching up after a commit, restoring an empty store and keeping a copy warm are the same code: it applies committed
# changelog records in order, from the store's position on. A position is one of the changelog partition.

_BEYOND = b"\xff"
"""No key of a row begins with this byte. Only a global table's store has such a key, for its positions."""

RECORDS_PER_SLICE = 65_536
"""The most records of a slice: read in some hundredths of a second."""

MOST_KEYS = 131_072
"""Slices go into one transaction until it changes so many keys, which takes a tenth of a second to write."""

MOST_BYTES = 64 << 20
"""Or until the changes take so many bytes."""


@dataclass(frozen=True)
class Part:
    """The records of a range from position `start` up to `end`."""

    within: LogRange
    start: int
    end: int


@dataclass(frozen=True)
class Slice:
    """Adjacent records of a changelog that bring a store from one position to another."""

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
    """Bring `store` to the planned position, and delete the keys below `expire_below`. `position`: where it stands, if
    that was read just now.

    Raises TaskMigratedError if the store is beyond the plan, because another owner has advanced it, and
    TaskCorruptedError if the plan's ranges begin after the store's position.
    """
    found = store.position if position is None else position
    if found > planned.position:
        raise TaskMigratedError(f"store {planned.store}", planned.position, found)
    steps = slices(planned.store, planned.ranges, found, planned.position)
    while apply_slices(store, steps, log, expire_below=expire_below):
        pass
    if expire_below is not None and next(store.range(None, expire_below), None) is not None:
        store.apply((), planned.position, planned.position, expire_below)


def slices(
    store: str, ranges: Iterable[LogRange], position: int, target: int, most: int = RECORDS_PER_SLICE
) -> Iterator[Slice]:
    """The records of `ranges` from `position` to `target`, in slices of at most `most` records.

    Raises TaskCorruptedError when records are missing.
    """
    start, at, parts = position, position, list[Part]()
    for each in sorted(ranges, key=lambda each: each.start):
        while at < min(target, each.end):
            if each.start > at:
                raise _missing(store, at, each.start)
            end = min(target, each.end, start + most)
            parts.append(Part(each, at, end))
            at = end
            if at - start >= most:
                yield Slice(start, at, tuple(parts))
                start, parts = at, []
    if at < target:
        raise _missing(store, at, target)
    if parts:
        yield Slice(start, at, tuple(parts))


def apply_slices(
    store: StateStore,
    steps: Iterable[Slice],
    log: RangeReader,
    may_read: Callable[[], bool] = lambda: True,
    expire_below: bytes | None = None,
) -> int:
    """Apply adjacent slices in one transaction: the first, and more as long as `may_read`; how many.

    Of the changes of a key only the last one is written, and none of a key below `expire_below`; rows of such keys are
    deleted. Raises TaskMigratedError if the store is not at the start of the first slice, or a slice is not at the end
    of the one before.
    """
    last, done = LastChanges(), list[Slice]()
    for step in steps:
        if done and step.from_position != done[-1].position:
            raise TaskMigratedError("a slice of a store", step.from_position, done[-1].position)
        with timed("read changelog"):
            for records in _records(step, log):
                last.add(records)
        done.append(step)
        if last.keys >= MOST_KEYS or last.size >= MOST_BYTES or not may_read():
            break
    if done:  # the store itself holds its position against that of the first one, in the same transaction
        changes = _not_expired(last.changes(), expire_below)
        with timed("write rows"):
            store.apply([changes], done[0].from_position, done[-1].position, expire_below)
    return len(done)


def _not_expired(changes: Changes, below: bytes | None) -> Changes:
    """Without those that would be deleted at once. The keys are in order."""
    keys, values = changes
    first = 0 if below is None else bisect_left(keys, below)
    return keys[first:], values[first:]


def changes(step: Slice, log: RangeReader) -> Iterator[Changes]:
    """The records of a slice, in pieces: keys, and their values or None."""
    for records in _records(step, log):
        # Through numpy, as pyarrow's own `to_pylist` is slower for bytes.
        keys, values = (each.to_numpy(zero_copy_only=False).tolist() for each in records.columns)
        yield keys, values


def _records(step: Slice, log: RangeReader) -> Iterator[pa.RecordBatch]:
    reader = log.ahead((part.within, part.start) for part in step.parts)
    for part in step.parts:
        for fetched in reader.read(part.within, part.start, ("key", "value")):
            yield fetched.before(part.end)
            if fetched.end >= part.end:
                break


def start_empty(store: StateStore, planned: StoreInput) -> bool:
    """Empty a store without a kept changelog if the remaining changelog begins after the store's position.

    The store then has the planned position and no rows. Returns whether this was done.
    """
    found = store.position
    first = min((each.start for each in planned.ranges), default=planned.position)
    if found >= first:
        return False
    store.apply((), found, planned.position, _BEYOND)
    return True


def _missing(store: str, position: int, until: int) -> TaskCorruptedError:
    return TaskCorruptedError(f"store {store} lacks the changelog's records {position} to {until - 1}", store=store)
