"""What a task may read in an epoch, and where its stores must stand, from what is committed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headwater.runtime.driver.epochs import Unit
from headwater.runtime.ir.topology import GlobalTable, Store
from headwater.runtime.log.commit.records import TaskCommit
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.progress.planner import NOTHING_YET, Planner
from headwater.runtime.task_id import TaskId
from headwater.runtime.tasks.measured import TaskOutcome
from headwater.runtime.tasks.plan import EpochPlan, LaneInput
from headwater.tests.runtime.driver.commits import Applications, part, segment, topic, topology

MOST = 10

EVENTS = topic("events")
BETWEEN = topic("between", writer="p-t")
TOTALS = Store("totals", 2, "k string", "v bigint")
READS = part("reads", (EVENTS,), (BETWEEN,))
COUNTS = part("counts", (BETWEEN,), stores=(TOTALS,), number=1)
T = topology("t", READS, COUNTS)


@pytest.fixture
def applications(tmp_path: Path) -> Applications:
    return Applications(EmbeddedLog(tmp_path))


def rows(lane: LaneInput) -> list[int]:
    return [each.records for each in lane.ranges]


def test_all_ranges_from_the_consumed_position_on_are_planned(applications: Applications) -> None:
    applications.feed("events", 3, 2, 4)
    committed = applications.start(T)
    applications.commit("t", "reads", 0, {"events": {0: 4}}, stream_time=77, clocks={"step": 5})
    committed.own.refresh()
    task = Planner(committed, MOST).task(READS, 0, {})
    ((lane,),) = [each.lanes for each in task.inputs]
    assert (lane.position, rows(lane), lane.more, lane.idle) == (4, [2, 4], False, True)
    assert (task.max_records, task.stream_time, task.clocks) == (MOST, 77, {"step": 5})


def test_position_at_the_end_of_a_segment_needs_it_no_more(applications: Applications) -> None:
    applications.feed("events", 3, 2)
    committed = applications.start(T)
    applications.commit("t", "reads", 0, {"events": {0: 3}})
    committed.own.refresh()
    assert rows(Planner(committed, MOST).task(READS, 0, {}).inputs[0].lanes[0]) == [2]


@pytest.mark.parametrize(
    ("appended", "planned", "more"),
    [([6, 4, 1], [6, 4], True), ([6, 3, 1], [6, 3, 1], False), ([25, 1], [25], True), ([6, 4], [6, 4], False)],
)
def test_no_more_segments_than_an_epoch_takes_are_planned(
    applications: Applications, appended: list[int], planned: list[int], more: bool
) -> None:
    applications.feed("events", *appended)
    lane = Planner(applications.start(T), MOST).task(READS, 0, {}).inputs[0].lanes[0]
    assert (rows(lane), lane.more) == (planned, more)


def test_tasks_see_their_own_partition(applications: Applications) -> None:
    applications.feed("events", 3, partition=1)
    planner = Planner(applications.start(T), MOST)
    assert [rows(planner.task(READS, number, {}).inputs[0].lanes[0]) for number in range(2)] == [[], [3]]
    tasks = [TaskId(READS.number, number, READS.name) for number in range(2)]
    assert (planner.unread(tasks[:1]), planner.unread(tasks)) == (0, 3)


def test_narrow_topic_has_nothing_for_the_tasks_beyond_it(applications: Applications) -> None:
    wide = part("wide", (EVENTS, topic("one", 1)))
    applications.feed("one", 5)
    planner = Planner(applications.start(topology("t", wide)), MOST)
    assert [rows(planner.task(wide, number, {}).inputs[1].lanes[0]) for number in range(2)] == [[5], []]
    assert planner.task(wide, 1, {}).inputs[1].lanes[0].idle


def test_every_task_of_the_writer_has_a_lane_with_its_clock(applications: Applications) -> None:
    committed = applications.start(T)
    applications.commit("t", "reads", 1, {}, segment("between", 4, 0, 1), segment("between", 2, 1, 1), stream_time=50)
    applications.commit("t", "reads", 0, {}, segment("between", 3, 0, 0), stream_time=40)
    applications.commit("t", "counts", 0, {"between": {1: 4}})
    committed.own.refresh()
    lanes = Planner(committed, MOST).task(COUNTS, 0, {}).inputs[0].lanes
    assert [(lane.lane, lane.position, rows(lane), lane.clock) for lane in lanes] == [(0, 0, [3], 40), (1, 4, [], 50)]


def test_lane_is_idle_only_when_its_writer_has_nothing_to_read(applications: Applications) -> None:
    applications.feed("events", 3, partition=1)
    planner = Planner(applications.start(T), MOST)
    assert [lane.idle for lane in planner.task(COUNTS, 0, {}).inputs[0].lanes] == [True, False]


def test_topic_of_an_application_that_never_started_is_waited_for(applications: Applications) -> None:
    reader = part("reader", (topic("elsewhere", writer="p-other"), EVENTS))
    applications.feed("events", 1)
    task = Planner(applications.start(topology("t", reader)), MOST).task(reader, 0, {})
    assert task.inputs[0].lanes == (NOTHING_YET,)
    assert not NOTHING_YET.idle
    assert rows(task.inputs[1].lanes[0]) == [1]


def test_circle_of_two_does_not_wait(applications: Applications) -> None:
    back = topic("back", writer="p-other")
    forth = topic("forth", writer="p-t")
    mine = part("x", (back,), (forth,))
    applications.feed("in", 5)
    applications.start(topology("other", part("y", (forth, topic("in")), (back,))))
    planner = Planner(applications.start(topology("t", mine)), MOST)
    assert [lane.idle for lane in planner.task(mine, 0, {}).inputs[0].lanes] == [True, True]


def test_store_is_brought_from_what_the_copy_holds_to_the_committed_end(applications: Applications) -> None:
    committed = applications.start(T)
    for count in (4, 5, 6):
        applications.commit("t", "counts", 1, {}, segment("p-t-totals-changelog", count, 1, 1), clocks={"totals": 9})
    committed.own.refresh()
    planner = Planner(committed, MOST)
    for applied, needed in [(0, [4, 5, 6]), (4, [5, 6]), (8, [5, 6]), (9, [6]), (15, [])]:
        (store,) = planner.task(COUNTS, 1, {"totals": applied}).stores
        assert (store.applied, store.position, store.clock) == (applied, 15, 9)
        assert [each.records for each in store.ranges] == needed
    (untouched,) = planner.task(COUNTS, 0, {}).stores
    assert (untouched.position, untouched.ranges, untouched.clock) == (0, (), -1)


def test_global_table_is_brought_to_all_that_is_committed_in_every_partition(applications: Applications) -> None:
    places = topic("places")
    table = GlobalTable("places", places, Store("places", 2, "k string", "v bigint"))
    reader = part("reader", (EVENTS,), tables=(table,))
    applications.feed("places", 30, 40)
    applications.feed("places", 5, partition=1)
    planner = Planner(applications.start(topology("t", reader)), MOST)
    pinned = planner.globals(reader.global_tables, {})["places"]
    assert [[rows(lane) for lane in each.lanes] for each in pinned] == [[[30, 40]], [[5]]]
    held = planner.globals(reader.global_tables, {"places": {0: {0: 30}, 1: {0: 5}}})["places"]
    assert [[rows(lane) for lane in each.lanes] for each in held] == [[[40]], [[]]]


def test_global_table_that_an_epoch_has_opened_is_planned_from_there_on(applications: Applications) -> None:
    places = topic("places")
    table = GlobalTable("places", places, Store("places", 2, "k string", "v bigint"))
    reader = part("reader", (EVENTS,), tables=(table,))
    committed = applications.start(topology("t", reader))
    planner, unit = Planner(committed, MOST), Unit(reader, member=None, job=None)
    listed = []

    for opened in (False, True, True, True):
        applications.feed("places", 30)
        applications.feed("places", 5, partition=1)
        committed.refresh()
        globals_ = planner.globals(reader.global_tables, unit.held_globals)
        listed.append([[rows(lane) for lane in each.lanes] for each in globals_["places"]])
        plan = EpochPlan(
            "p-t", 1, 1, 0, 0, "client-1", "", 0, ("embedded", {}), "", ((planner.task(reader, 0, {}),),), globals_
        )
        commit = TaskCommit("reader", 0, {}, -1, globals_={"places": {}} if opened else {})
        unit.took(plan, [TaskOutcome.done(commit)], committed.version)

    assert listed == [[[[30]], [[5]]], [[[30, 30]], [[5, 5]]], [[[30]], [[5]]], [[[30]], [[5]]]]


def test_unit_whose_epoch_had_as_much_as_it_may_goes_on_without_waiting_for_the_interval(
    applications: Applications,
) -> None:
    applications.feed("events", 30)
    committed = applications.start(T)
    unit = Unit(READS, member=None, job=None, started=100.0)
    task = Planner(committed, MOST).task(READS, 0, {})
    plan = EpochPlan("p-t", 1, 1, 0, 0, "client-1", "", 0, ("embedded", {}), "", ((task,),), {})
    done = TaskOutcome.done(TaskCommit("reads", 0, {"events": {0: 2}}, -1, records=2))
    waiting = []
    for full in (False, True, False):
        unit.took(plan, [replace(done, full=full)], committed.version)
        waiting.append(not unit.due(100.1, 0.5, committed.version, eager=False))
    assert waiting == [True, False, True]


def test_beginning_of_the_way_of_a_store_ends_with_a_range(applications: Applications) -> None:
    committed = applications.start(T)
    for _ in range(5):
        applications.commit("t", "counts", 0, {}, segment("p-t-totals-changelog", 10))
    committed.own.refresh()
    planner = Planner(committed, MOST)

    ways = [planner.store(TOTALS, 0, 3, {}, records) for records in (1, 7, 8, 30, 100, None)]

    assert [way.position for way in ways] == [10, 10, 20, 40, 50, 50]
    assert [len(way.ranges) for way in ways] == [1, 1, 2, 4, 5, 5]
