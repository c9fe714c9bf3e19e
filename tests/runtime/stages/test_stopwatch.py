from __future__ import annotations

import itertools

from headwater.runtime.engine.stopwatch import Stopwatch, bytes_taken
from headwater.runtime.log.ranges import LogRange
from headwater.runtime.task_id import TaskKey
from headwater.runtime.tasks.measured import Measured, Seconds, StoreSize, Volume
from headwater.runtime.tasks.plan import LaneInput, TaskPlan, TopicInput


class Rows:
    position = 7
    size = StoreSize(2, 4096)

    def get_many(self, keys):
        return [None for _ in keys]


def test_phase_within_another_interrupts_it():
    stopwatch = Stopwatch(0.5, itertools.count().__next__)  # each look at the clock takes a second
    with stopwatch.phase("operators"):  # at 0
        rows = stopwatch.opened("totals", Rows)  # from 1 to 2
        assert (rows.position, rows.get_many([b"k"])) == (7, [None])  # from 3 to 4
    with stopwatch.phase("write"):  # 6 to 7; the operators ended at 5
        stopwatch.volume += Volume(written_records=3)

    before = Measured(Seconds(read=2.0, operators=1.0), Volume(written_records=1), 0.0)
    assert stopwatch.added_to(before) == Measured(
        Seconds(read=2.0, sql=0.5, operators=4.0, state=2.0, write=1.0),
        Volume(written_records=4),
        8,
        {"totals": (2, 4096)},
    )


def test_range_that_is_consumed_in_part_gives_the_same_part_of_its_bytes():
    def within(lane: int, start: int, end: int, size: int) -> LogRange:
        return LogRange("t", 0, lane, start, end, start, end, end - start, size, 0, 0, "")

    lanes = (
        LaneInput(0, 5, (within(0, 0, 10, 1000), within(0, 10, 20, 500))),
        LaneInput(1, 0, (within(1, 0, 4, 80),)),
    )
    plan = TaskPlan(TaskKey("a", "s", 0), 100, -1, {}, (TopicInput("t", lanes),))

    assert bytes_taken(plan, {"t": {0: 12, 1: 0}}) == 500 + 100
    assert bytes_taken(plan, {"t": {0: 20, 1: 4}}) == 500 + 500 + 80
    assert bytes_taken(plan, {}) == 0
