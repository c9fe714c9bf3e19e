"""Bringing a store forward by its changelog.

Catching up after a commit, restoring from nothing and keeping a copy warm are one thing: apply committed changelog
records, in order, from where the store stands. A position is one of the changelog partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..log.ranges import LogRange, RangeReader
from ..tasks.errors import TaskCorruptedError, TaskMigratedError
from ..tasks.plan import StoreInput
from .store import Changes, StateStore

_BEYOND = b"\xff"
"""No key of a row begins so (a global table's store keeps its positions there, and has no changelog)."""

RECORDS_PER_SLICE = 65_536
"""Records applied in one transaction at most: some tenths of a second."""


@dataclass(frozen=True)
class Part:
    """What a range has from position `start` up to `end`."""

    within: LogRange
    start: int
    end: int


@dataclass(frozen=True)
class Slice:
    """Adjacent records of a changelog that bring a store from one position to another, in one transaction."""

    from_position: int
    position: int
    parts: tuple[Part, ...]


def catch_up(store: StateStore, planned: StoreInput, log: RangeReader, expire_below: bytes | None = None) -> None:
    """Bring `store` to the planned position, and delete the keys below `expire_below`.

    Raises TaskMigratedError when the store is beyond the plan, so another owner has gone on with it, and
    TaskCorruptedError when the plan's ranges do not reach down to where it stands.
    """
    found = store.position
    if found > planned.position:
        raise TaskMigratedError(f"store {planned.store}", planned.position, found)
    for step in slices(planned.store, planned.ranges, found, planned.position):
        apply_slice(store, step, log)
    if expire_below is not None and next(store.range(None, expire_below), None) is not None:
        store.apply((), planned.position, planned.position, expire_below)


def slices(
    store: str, ranges: Iterable[LogRange], position: int, target: int, most: int = RECORDS_PER_SLICE
) -> Iterator[Slice]:
    """What of `ranges` brings a store from `position` to `target`, in slices of at most `most` records.

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


def apply_slice(store: StateStore, step: Slice, log: RangeReader) -> None:
    """Apply the records of a slice in one transaction. Raises TaskMigratedError when the store is not at its start."""
    store.apply(
        changes(step, log),
        step.from_position,
        step.position,
    )


def changes(step: Slice, log: RangeReader) -> Iterator[Changes]:
    """The records of a slice: keys, and their values or None, piece by piece."""
    for part in step.parts:
        for fetched in log.read(part.within, part.start, ("key", "value")):
            # By numpy: the quick way to a list of bytes.
            keys, values = (each.to_numpy(zero_copy_only=False).tolist() for each in fetched.before(part.end).columns)
            yield keys, values
            if fetched.end >= part.end:
                break


def start_empty(store: StateStore, planned: StoreInput) -> bool:
    """Give up the rows of a store whose changelog is not kept, if what there is of it does not reach down to them.

    The store then stands at the planned position, without rows. Whether that was so; else nothing has happened.
    """
    found = store.position
    first = min((each.start for each in planned.ranges), default=planned.position)
    if found >= first:
        return False
    store.apply((), found, planned.position, _BEYOND)
    return True


def _missing(store: str, position: int, until: int) -> TaskCorruptedError:
    return TaskCorruptedError(f"store {store} lacks the changelog's records {position} to {until - 1}", store=store)
