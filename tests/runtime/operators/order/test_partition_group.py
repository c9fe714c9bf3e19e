"""Which records an epoch takes, in which order, and how lazily it reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.engine.execution.order.partition_group import Reading, RecordId, TimestampError, read_task
from headwater.runtime.engine.operators.operator import Flow
from headwater.runtime.ir.topology import Topic
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.records.schema import topic_schema
from headwater.runtime.records.types import Kind
from headwater.runtime.task_id import TaskKey
from headwater.runtime.tasks.plan import LaneInput, TaskPlan, TopicInput

FLOW = Flow("k string", "v bigint")


class CountingLog(EmbeddedLog):
    """Counts the pieces that are read."""

    def __init__(self, root):
        super().__init__(root)
        self.pieces = 0

    def read(self, within, start=None, columns=None):
        for fetched in super().read(within, start, columns):
            self.pieces += 1
            yield fetched


class Topics:
    """Topics of one partition, written lane by lane; each write is a range."""

    def __init__(self, path):
        self.log = CountingLog(path)
        self.lanes = {}
        self.files = 0

    def write(self, topic, times, lane=0, orders=None, kinds=None):
        lanes = self.lanes.setdefault(topic, {})
        ranges = lanes.setdefault(lane, [])
        offset = sum(each.records for made in lanes.values() for each in made)
        position = sum(each.records for each in ranges)
        values = [f"{topic}{offset + number}" for number in range(len(times))]
        columns = [
            pa.array(values),
            pa.array(range(len(times)), pa.int64()),
            pa.array([Kind.VALUE] * len(times) if kinds is None else kinds, pa.int8()),
            pa.array(times, pa.int64()),
            pa.array(times if orders is None else orders, pa.int64()),
        ]
        table = pa.Table.from_arrays(columns, schema=topic_schema(declared(topic)))
        self.files += 1
        (segment,) = self.log.write("app", topic, f"{self.files}", table, 0, lane)
        ranges.append(replace(segment, base_offset=offset, base_position=position).range())

    def plan(self, *topics, most=10**9, size=None, stream_time=-1, positions=None, states=None):
        """`positions`, `states`: by (topic, lane); a state is (clock, idle)."""
        return TaskPlan(
            TaskKey("a", "p", 0),
            most,
            stream_time,
            {},
            tuple(
                TopicInput(
                    topic,
                    tuple(
                        LaneInput(
                            lane,
                            (positions or {}).get((topic, lane), 0),
                            tuple(ranges),
                            *(states or {}).get((topic, lane), (-1, True)),
                        )
                        for lane, ranges in sorted(self.lanes[topic].items())
                    ),
                )
                for topic in topics
            ),
            max_bytes=size,
        )

    def take(self, *topics, **options):
        readings = [Reading(declared(topic), FLOW, rank) for rank, topic in enumerate(topics)]
        return read_task(self.plan(*topics, **options), readings, self.log)


def declared(topic):
    return Topic(topic, 1, FLOW.key, FLOW.value)


def order_of(taken):
    """The records of all topics as they were taken."""
    places = np.concatenate([rows.path[0] for rows in taken.rows])
    names = [name for rows in taken.rows for name in rows.columns["k"].to_pylist()]
    return [names[at] for at in np.argsort(places)]


@pytest.fixture
def topics(tmp_path):
    return Topics(tmp_path)


def test_smallest_head_goes_first_and_holds_back_what_is_behind_it(topics):
    topics.write("a", [50, 10])
    topics.write("b", [20, 60])
    taken = topics.take("a", "b")
    assert order_of(taken) == ["b0", "a0", "a1", "b1"]
    assert taken.stream_time == 60
    assert [rows.order.tolist() for rows in taken.rows] == [[50, 50], [20, 60]]


def test_equal_heads_go_by_rank(topics):
    topics.write("a", [5, 5])
    topics.write("b", [5])
    assert order_of(topics.take("b", "a")) == ["b0", "a0", "a1"]


def test_most_records_bounds_what_is_taken_and_positions_say_how_far(topics):
    topics.write("a", [1, 3, 5])
    topics.write("b", [2, 4])
    taken = topics.take("a", "b", most=3)
    assert order_of(taken) == ["a0", "b0", "a1"]
    assert taken.positions == {"a": {0: 2}, "b": {0: 1}}
    rest = topics.take("a", "b", positions={("a", 0): 2, ("b", 0): 1}, stream_time=3)
    assert order_of(rest) == ["b1", "a2"]


def test_partition_that_ran_out_and_waits_for_a_writer_stops_the_others(topics):
    topics.write("a", [1, 7])
    topics.write("b", [2, 6, 8])
    waiting, whole = (topics.take("a", "b", states={("a", 0): (7, idle)}) for idle in (False, True))
    assert (order_of(waiting), waiting.held_by) == (["a0", "b0", "b1", "a1"], (("a", 0),))
    assert (order_of(whole), whole.held_by) == (["a0", "b0", "b1", "a1", "b2"], ())
    nothing_left = topics.take("a", "b", states={(name, 0): (8, False) for name in "ab"}, positions={("b", 0): 3})
    assert (order_of(nothing_left), nothing_left.held_by) == ([], (("b", 0),)), (
        "a may still get records before those of b"
    )


def test_nothing_is_taken_beside_a_partition_that_has_nothing_yet(topics):
    topics.write("a", [1])
    topics.lanes["b"] = {0: []}
    taken = topics.take("a", "b", states={("b", 0): (-1, False)})
    assert (len(taken), taken.held_by) == (0, (("b", 0),))


def test_lanes_are_merged_by_the_writers_stream_time(topics):
    topics.write("a", [1, 9, 2], lane=0, orders=[10, 30, 30])
    topics.write("a", [5, 6], lane=1, orders=[10, 20])
    taken = topics.take("a")
    assert order_of(taken) == ["a0", "a3", "a4", "a1", "a2"]
    assert taken.positions == {"a": {0: 3, 1: 2}}


def test_lane_that_ran_out_bounds_the_others_by_its_writers_clock(topics):
    topics.write("a", [1, 2, 3], lane=0, orders=[10, 25, 30])
    topics.write("a", [4], lane=1, orders=[5])
    ahead, behind = (topics.take("a", states={("a", 1): (clock, False)}) for clock in (25, 24))
    assert (order_of(ahead), ahead.held_by) == (["a3", "a0", "a1"], (("a", 1),))
    assert (order_of(behind), behind.held_by) == (["a3", "a0"], (("a", 1),))


def test_records_are_held_by_the_lanes_that_may_still_yield_earlier_ones_and_by_no_others(topics):
    topics.write("a", [1, 2], lane=0, orders=[10, 30])
    for lane in (1, 2, 3):
        topics.write("a", [4], lane=lane, orders=[5])
    read = {("a", lane): 1 for lane in range(4)}
    clocks = {("a", 1): (29, False), ("a", 2): (31, False), ("a", 3): (5, True)}
    assert topics.take("a", positions=read, states=clocks).held_by == (("a", 1),)
    # At the same time the lower lane goes first.
    assert topics.take("a", positions=read, states={("a", 1): (30, False)}).held_by == ()
    assert topics.take("a", positions=read, states=clocks, most=0).held_by == ()
    assert topics.take("a", positions={**read, ("a", 0): 2}, states=clocks).held_by == (), "nothing is left"


def test_lane_whose_later_ranges_are_not_in_the_plan_bounds_the_others(topics):
    topics.write("a", [1, 2], lane=0, orders=[10, 20])
    topics.write("a", [4], lane=1, orders=[5])
    plan = topics.plan("a")
    lanes = tuple(replace(lane, more=lane.lane == 1) for lane in plan.inputs[0].lanes)
    plan = replace(plan, inputs=(TopicInput("a", lanes),))
    taken = read_task(plan, [Reading(declared("a"), FLOW, 0)], topics.log)
    assert (order_of(taken), taken.held_by) == (["a2"], ()), "the next plan has more"


def test_answers_do_not_move_the_stream_time_as_when_they_come_depends_on_where_epochs_end(topics):
    topics.write("a", [10, 30])
    topics.write("b", [20, 70])
    plan = topics.plan("a", "b", stream_time=5)
    plan = replace(plan, inputs=(plan.inputs[0], replace(plan.inputs[1], responses=True)))
    taken = read_task(plan, [Reading(declared(topic), FLOW, rank) for rank, topic in enumerate("ab")], topics.log)
    assert order_of(taken) == ["a0", "b0", "a1", "b1"]
    assert [rows.order.tolist() for rows in taken.rows] == [[10, 30], [10, 30]]
    assert taken.stream_time == 30


def test_a_regrouped_change_is_never_parted(topics):
    same, new = Kind.OLD_SAME_GROUP, Kind.VALUE
    topics.write("a", [1, 2, 2, 3], kinds=[new, same, new, new])
    assert topics.take("a", most=2).positions == {"a": {0: 3}}
    assert topics.take("a", most=3).positions == {"a": {0: 3}}


@pytest.mark.parametrize("size", [1, 60, 100, 333, 1000])
def test_bytes_bound_what_is_taken_and_all_is_taken_in_the_same_order(topics, size):
    for number in range(4):
        topics.write("a", [number * 10, number * 10 + 4, number * 10 + 9])
        topics.write("a", [number * 10 + 2, number * 10 + 5], lane=1)
        topics.write("b", [number * 10 + 1, number * 10 + 6])
    whole = topics.take("a", "b")
    assert not whole.full
    found, epochs, positions = [], [], {}
    while taken := order_of(part := topics.take("a", "b", size=size, positions=positions)):
        found += taken
        epochs.append(part)
        positions = {(topic, lane): at for topic, lanes in part.positions.items() for lane, at in lanes.items()}
    assert found == order_of(whole)
    sizes = [sum(column.nbytes for rows in part.rows for column in rows.columns.values()) for part in epochs]
    assert all(made <= size or len(part) == 1 for made, part in zip(sizes, epochs, strict=True))
    assert all(part.full for part in epochs[:-1])
    assert len(epochs) == (28 if size == 1 else len(epochs))
    assert len(epochs) < 28 or size <= 60


def test_bytes_never_part_a_regrouped_change(topics):
    same, new = Kind.OLD_SAME_GROUP, Kind.VALUE
    topics.write("a", [1, 2, 2, 3], kinds=[new, same, new, new])
    assert topics.take("a", size=1).positions == {"a": {0: 1}}
    assert topics.take("a", size=1, positions={("a", 0): 1}).positions == {"a": {0: 3}}


def test_of_records_behind_those_that_fill_an_epoch_none_is_read(topics):
    for number in range(20):
        topics.write("a", [number])
    assert len(topics.take("a", size=1)) == 1
    assert topics.log.pieces == 1


def test_record_is_found_again_by_its_number(topics):
    topics.write("a", [1, 3])
    topics.write("b", [0])
    topics.write("b", [2], lane=1)
    taken = topics.take("a", "b", positions={("b", 0): 1})
    assert order_of(taken) == ["a0", "b1", "a1"]
    assert [taken.record(number) for number in range(3)] == [
        RecordId("a", 0, 0, 0),
        RecordId("b", 0, 1, 0),
        RecordId("a", 0, 0, 1),
    ]
    with pytest.raises(IndexError):
        taken.record(3)


def test_only_ranges_that_are_needed_are_read(topics):
    for number in range(20):
        topics.write("a", list(range(number * 10, number * 10 + 10)))
        topics.write("b", list(range(number * 10, number * 10 + 10)))
    assert len(topics.take("a", "b", most=30)) == 30
    assert topics.log.pieces <= 6


def test_task_without_records_takes_none(topics):
    topics.lanes["a"] = {0: []}
    taken = topics.take("a", stream_time=77)
    assert (len(taken), taken.stream_time, taken.positions) == (0, 77, {"a": {0: 0}})
    assert taken.rows[0].columns["v"].type == pa.int64()


def test_record_from_before_1970_stops_the_task_and_is_named(topics):
    topics.write("a", [5, 7, -3])
    assert len(topics.take("a", most=2)) == 2
    with pytest.raises(TimestampError) as caught:
        topics.take("a")
    assert (caught.value.record, caught.value.offset, caught.value.timestamp) == (RecordId("a", 0, 0, 2), 2, -3)
