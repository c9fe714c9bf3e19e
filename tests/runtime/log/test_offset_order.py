"""Reading ranges of one partition in the order of offsets, also where they lie over one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.log.ranges import Columns, Fetched, LogRange, by_offset


class Lanes:
    """A log of one partition, by lane: offsets of its records; position n is that of the lane's record n.

    `opened`: lanes in the order in which they were begun.
    """

    def __init__(self, *lanes: Sequence[int], piece: int = 2) -> None:
        self.lanes = lanes
        self.piece = piece
        self.opened: list[int] = []

    def range(self, lane: int, start: int, end: int) -> LogRange:
        offsets = self.lanes[lane][start:end]
        return LogRange("t", 0, lane, start, end, offsets[0], offsets[-1] + 1, end - start, 0, 0, 0, "")

    def ahead(self, ranges: object) -> Any:
        return self

    def read(self, within: LogRange, start: int | None = None, columns: Columns = None) -> Iterator[Fetched]:
        self.opened.append(within.lane)
        for at in range(within.start if start is None else start, within.end, self.piece):
            positions = np.arange(at, min(at + self.piece, within.end))
            offsets = np.array(self.lanes[within.lane])[positions]
            yield Fetched(pa.record_batch({"offset": offsets}), positions, offsets, int(positions[-1]) + 1)


def offsets(log: Lanes, ranges: Sequence[tuple[LogRange, int]]) -> list[int]:
    found = list(by_offset(log, ranges))
    assert [each.records["offset"].to_pylist() for each in found] == [each.offsets.tolist() for each in found]
    return [offset for each in found for offset in each.offsets.tolist()]


@pytest.mark.parametrize("piece", [1, 2, 100])
def test_lanes_that_lie_over_one_another_are_merged(piece: int) -> None:
    log = Lanes([0, 3, 4, 9, 12, 13], [1, 2, 5, 8], [6, 7, 10, 11, 20], piece=piece)
    ranges = [log.range(0, 0, 4), log.range(0, 4, 6), log.range(1, 0, 4), log.range(2, 0, 5)]
    assert offsets(log, [(each, 0) for each in ranges]) == [*range(14), 20]
    assert offsets(log, [(ranges[0], 2), (ranges[2], 3), (ranges[3], 4)]) == [4, 8, 9, 20]


def test_ranges_that_follow_one_another_are_read_one_at_a_time() -> None:
    log = Lanes([0, 1, 2, 5], [3, 4, 6])
    ranges = [(log.range(1, 2, 3), 0), (log.range(0, 0, 3), 0), (log.range(1, 0, 2), 0), (log.range(0, 3, 4), 0)]
    reading = by_offset(log, ranges)
    assert (next(reading).offsets.tolist(), log.opened) == ([0, 1], [0])
    assert [each.offsets.tolist() for each in reading] == [[2], [3, 4], [5], [6]]
    assert log.opened == [0, 1, 0, 1]


def test_each_step_tells_where_the_reading_of_its_lanes_goes_on() -> None:
    log = Lanes([0, 3, 4], [1, 2, 5, 8], piece=3)
    ends: dict[int, int] = {}
    for found in by_offset(log, [(log.range(0, 0, 3), 0), (log.range(1, 0, 4), 0)]):
        ends |= found.ends
        taken = [sum(each <= found.offsets[-1] for each in lane) for lane in log.lanes]
        assert taken == [ends.get(0, 0), ends.get(1, 0)]
    assert ends == {0: 3, 1: 4}
