"""Bringing a store forward by its changelog.

Catching up after a commit, restoring from nothing and keeping a copy warm are one thing: apply committed changelog
records, in order, from where the store stands. A position counts the records of the changelog partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from ..log.records import Segment
from ..tasks.errors import TaskCorruptedError, TaskMigratedError
from ..tasks.plan import StoreInput
from .store import Changes, StateStore

_BEYOND = b"\xff"
"""No key of a row begins so (a global table's store keeps its positions there, and has no changelog)."""

RECORDS_PER_SLICE = 65_536
"""Records applied in one transaction: some tenths of a second."""


class ChangelogReader(Protocol):
    """The part of a log that changelogs are read with."""

    def read_batches(
        self, segment: Segment, batches: Sequence[int] | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """These batches of the segment, with these columns."""
        ...


@dataclass(frozen=True)
class Part:
    """`rows` records of a segment: those of `batches` (ascending, adjacent numbers) after the first `skip`."""

    segment: Segment
    batches: tuple[int, ...]
    skip: int
    rows: int


@dataclass(frozen=True)
class Slice:
    """Adjacent records of a changelog that bring a store from one position to another, in one transaction."""

    from_position: int
    position: int
    parts: tuple[Part, ...]


def catch_up(store: StateStore, planned: StoreInput, log: ChangelogReader, expire_below: bytes | None = None) -> None:
    """Bring `store` to the planned position, and delete the keys below `expire_below`.

    Raises TaskMigratedError when the store is beyond the plan, so another owner has gone on with it, and
    TaskCorruptedError when the plan's segments do not reach down to where it stands.
    """
    found = store.position
    if found > planned.position:
        raise TaskMigratedError(f"store {planned.store}", planned.position, found)
    for step in slices(planned.store, planned.segments, found, planned.position):
        apply_slice(store, step, log)
    if expire_below is not None and next(store.range(None, expire_below), None) is not None:
        store.apply((), planned.position, planned.position, expire_below)


def slices(
    store: str, segments: Iterable[Segment], position: int, target: int, most: int = RECORDS_PER_SLICE
) -> Iterator[Slice]:
    """What of `segments` brings a store from `position` to `target`, in slices of at most about `most` records.

    A slice ends with a batch, so it may hold up to a batch more. Raises TaskCorruptedError when records are missing.
    """
    start, at, parts = position, position, list[Part]()
    for segment in sorted(segments, key=lambda segment: segment.base_position):
        while at < min(target, segment.end_position):
            if segment.base_position > at:
                raise _missing(store, at, segment.base_position)
            part = _part(segment, at, target, most - (at - start))
            parts.append(part)
            at += part.rows
            if at - start >= most:
                yield Slice(start, at, tuple(parts))
                start, parts = at, []
    if at < target:
        raise _missing(store, at, target)
    if parts:
        yield Slice(start, at, tuple(parts))


def apply_slice(store: StateStore, step: Slice, log: ChangelogReader) -> None:
    """Apply the records of a slice in one transaction. Raises TaskMigratedError when the store is not at its start."""
    store.apply(
        (change for part in step.parts for change in _changes(part, log)),
        step.from_position,
        step.position,
    )


def start_empty(store: StateStore, planned: StoreInput) -> bool:
    """Give up the rows of a store whose changelog is not kept, if what there is of it does not reach down to them.

    The store then stands at the planned position, without rows. Whether that was so; else nothing has happened.
    """
    found = store.position
    first = min((segment.base_position for segment in planned.segments), default=planned.position)
    if found >= first:
        return False
    store.apply((), found, planned.position, _BEYOND)
    return True


def _part(segment: Segment, position: int, target: int, most: int) -> Part:
    """What to take from `position` on: up to `target`, in whole batches until there are `most` records."""
    numbers: list[int] = []
    skip, rows = 0, 0
    for number, (batch, start) in enumerate(zip(segment.batches, segment.starts, strict=True)):
        begin = segment.base_position + start
        end = begin + batch.rows
        if end <= position:
            continue
        if not numbers:
            skip = position - begin
        numbers.append(number)
        rows = min(end, target) - position
        if rows >= most or end >= target:
            break
    return Part(segment, tuple(numbers), skip, rows)


def _changes(part: Part, log: ChangelogReader) -> Iterator[Changes]:
    skip, left = part.skip, part.rows
    for batch in log.read_batches(part.segment, part.batches, ("key", "value")):
        taken = batch.slice(skip, left)
        skip, left = 0, left - taken.num_rows
        # By numpy: the quick way to a list of bytes.
        keys, values = (column.to_numpy(zero_copy_only=False).tolist() for column in taken.columns)
        yield keys, values


def _missing(store: str, position: int, until: int) -> TaskCorruptedError:
    return TaskCorruptedError(f"store {store} lacks the changelog's records {position} to {until - 1}", store=store)
