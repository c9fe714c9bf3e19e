from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.runtime.driver.epoch_reports import EpochTrace, TaskTrace
from headwater.runtime.observe.tracing import Shares, Threads, align_clocks, slices
from headwater.runtime.task_id import TaskId
from headwater.runtime.timed_parts import Span

FIRST_STAGE = (Span("read", 12, 14), Span("decode", 12, 13), Span("operators", 14, 15), Span("Source a.yml:3", 14, 15))
SECOND_STAGE = (
    Span("sql", 15, 16),
    Span("operators", 16, 22),
    Span("Aggregate a.yml:5", 16, 22),
    Span("state", 18, 21),
    Span("read rows", 19, 21),
    Span("write", 22, 23),
)
TRACE = EpochTrace(
    "sums",
    "client-1",
    3,
    10,
    11,
    25,
    28,
    (
        (TaskTrace(TaskId(0, 0), 5, (FIRST_STAGE, SECOND_STAGE)),),
        (TaskTrace(TaskId(0, 1), 2, (FIRST_STAGE,)),),
    ),
    (Span("wait", 11, 25), Span("commit", 25, 28), Span("fsync", 26, 28)),
)


def moved(trace: EpochTrace, by: float, pace: float = 1.0) -> EpochTrace:
    """The same with workers on a machine with another clock."""

    def other(span: Span) -> Span:
        return Span(span.part, (span.start - 12) * pace + 12 + by, (span.end - 12) * pace + 12 + by)

    threads = tuple(
        tuple(replace(task, stages=tuple(tuple(map(other, stage)) for stage in task.stages)) for task in thread)
        for thread in trace.threads
    )
    return replace(trace, threads=threads)


def flat(threads: Threads) -> list[Span]:
    return [span for thread in threads for task in thread for stage in task.stages for span in stage]


@pytest.mark.parametrize("by", [-1_000_000.0, -12, 12, 1e6])
def test_times_of_this_machine_stay_and_those_of_another_end_with_the_job(by):
    assert align_clocks(TRACE) == TRACE.threads

    found, expected = flat(align_clocks(moved(TRACE, by))), flat(moved(TRACE, 2).threads)
    assert [span.part for span in found] == [span.part for span in expected]
    assert [span.start for span in found] == pytest.approx([span.start for span in expected])
    assert [span.end for span in found] == pytest.approx([span.end for span in expected])


def test_clock_that_goes_faster_is_cut_to_the_job():
    found = flat(align_clocks(moved(TRACE, 1e6, pace=3)))

    assert min(span.start for span in found) == TRACE.planned
    assert max(span.end for span in found) == TRACE.begun
    assert all(span.start <= span.end for span in found)


def test_shares_are_those_of_the_slowest_thread_and_fill_the_epoch():
    shares = Shares()
    for _ in range(2):
        shares.add(TRACE)

    assert {each.part: each.seconds for each in shares.rows()} == {
        ("planning",): 2,
        ("read",): 4,
        ("read", "decode"): 2,
        ("sql",): 2,
        ("operators",): 8,
        ("operators", "Aggregate a.yml:5"): 6,
        ("operators", "Source a.yml:3"): 2,
        ("state",): 6,
        ("state", "read rows"): 4,
        ("write",): 2,
        ("scheduling",): 6,
        ("scheduling", "start"): 2,
        ("scheduling", "answers"): 4,
        ("commit",): 6,
        ("commit", "fsync"): 4,
    }
    assert sum(each.share for each in shares.rows() if len(each.part) == 1) == pytest.approx(1)


def test_epoch_that_came_to_nothing_is_all_scheduling():
    shares = Shares()
    shares.add(replace(TRACE, threads=((TaskTrace(TaskId(0, 0), 0, ()),), ()), driver=()))

    assert {each.part: each.seconds for each in shares.rows()} == {
        ("planning",): 1,
        ("scheduling",): 14,
        ("commit",): 3,
    }


def test_driver_epoch_and_each_stage_of_a_thread_have_tracks():
    found = list(slices("app", TRACE))

    assert list(dict.fromkeys(each.track for each in found)) == [
        ("app", "driver"),
        ("app", "epochs of sums on client-1"),
        ("app on client-1", "sums, thread 1, Python stage 1"),
        ("app on client-1", "sums, thread 1, Python stage 2"),
        ("app on client-1", "sums, thread 2, Python stage 1"),
    ]
    epoch = [(each.name, each.start, each.end) for each in found if each.track.thread.startswith("epochs")]
    assert epoch == [
        ("epoch 3", 10, 28),
        ("planning", 10, 11),
        ("job", 11, 25),
        ("start", 11, 12),
        ("tasks", 12, 23),
        ("answers", 23, 25),
        ("commit", 25, 28),
        ("fsync", 26, 28),
    ]
    assert dict(next(each for each in found if each.name == "epoch 3").facts) == {"tasks": 2, "records": 7}
