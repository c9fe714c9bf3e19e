"""The order of records that lie in several partitions, and were fed in one.

Those of a partition keep theirs. Between partitions the record with the smallest timestamp at the head comes first, as
a task takes them, and of equal ones that which has fewer of its partition before it. So records that were sorted by
time, or that went round robin, come as they were fed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ...records.arrays import Int64s
from ...records.widening import as_schema, schema_of_both


@dataclass
class _Head:
    """The records of a partition that come next. `times`: of each the greatest timestamp up to it, as those behind a
    record cannot come before it. `first`: how many of the partition came before.
    """

    number: int
    rest: Iterator[pa.RecordBatch]
    by_time: bool
    records: pa.RecordBatch | None = None
    times: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    first: int = 0
    _greatest: int = np.iinfo(np.int64).min

    def fill(self) -> bool:
        """Have records, unless there are no more; whether there are any."""
        while self.records is None or not self.records.num_rows:
            self.records = next(self.rest, None)
            if self.records is None:
                return False
            times = self.records.column("_timestamp").to_numpy() if self.by_time else np.zeros(len(self.records))
            self.times = np.maximum.accumulate(np.maximum(times.astype(np.int64), self._greatest))
            self._greatest = int(self.times[-1]) if len(self.times) else self._greatest
        return True

    @property
    def bound(self) -> tuple[int, int, int]:
        """What comes behind these records comes not before this place."""
        return int(self.times[-1]), self.first + len(self.times), self.number

    def taken(self, bound: tuple[int, int, int]) -> tuple[pa.RecordBatch, Int64s, Int64s]:
        """The records before a place: with their times, and how many of the partition came before each."""
        assert self.records is not None
        time, turn, number = bound
        before = int(np.searchsorted(self.times, time, "left"))
        same = int(np.searchsorted(self.times, time, "right"))
        count = min(same, max(before, turn - self.first + (self.number < number)))
        found = self.records[:count], self.times[:count], np.arange(self.first, self.first + count)
        self.records, self.times, self.first = self.records[count:], self.times[count:], self.first + count
        return found


def in_order(partitions: Sequence[Iterator[pa.RecordBatch]], *, by_time: bool = True) -> Iterator[pa.RecordBatch]:
    """The records of partitions in one order. `by_time`: else in turns.

    At most two batches of each partition are in memory. Records of one batch have columns of the same types.
    """
    heads = [_Head(number, rest, by_time) for number, rest in enumerate(partitions)]
    while heads := [each for each in heads if each.fill()]:
        bound = min(each.bound for each in heads)
        taken = [(each.number, *each.taken(bound)) for each in heads]
        some = [each for each in taken if len(each[1])]
        numbers = np.concatenate([np.full(len(records), number) for number, records, _, _ in some])
        times = np.concatenate([each for _, _, each, _ in some])
        turns = np.concatenate([each for _, _, _, each in some])
        order = pa.array(np.lexsort((numbers, turns, times)))
        yield from _together([records for _, records, _, _ in some]).take(order).to_batches()


def went_in_turns(counts: Sequence[int]) -> bool:
    """Whether partitions have as many records as if each had gone to the next one, the first to partition 0."""
    total, parts = sum(counts), len(counts)
    return list(counts) == [(total - number + parts - 1) // parts for number in range(parts)]


def _together(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Records with the columns of all of them, as the log would read them."""
    schema = batches[0].schema
    for each in batches[1:]:
        both = schema_of_both(schema, each.schema)
        assert both is not None, (schema, each.schema)
        schema = both
    return pa.Table.from_batches([as_schema(each, schema) for each in batches]).combine_chunks()
