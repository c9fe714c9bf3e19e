"""What tasks cost that have nothing to do: the way of one record, among few tasks and among many."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

from ..bench import Bench
from ..measurement import Measurement, rounded
from ..other_work import OtherWork
from ..workloads import WORKLOADS
from .beside_spark import our_side

FEW, MANY = 4, 256
TURNS_EACH = 3
"""Records for each epoch that other measurements count: one is soon through, and waits a moment to be noticed."""

WANTED_TIMES = 2


def idle_epochs(bench: Bench) -> Iterator[Measurement]:
    """Seconds from the append of one record to its commit, in turn on both numbers of tasks."""
    workload = WORKLOADS["keyed_count"]
    warm_up, measured = bench.warm_up, TURNS_EACH * bench.measured
    with ExitStack() as stack:
        sides = {}
        for tasks in (FEW, MANY):
            size = replace(bench.size, records=1, keys=1, partitions=tasks)
            start = our_side(bench, workload, size, warm_up + measured)
            sides[tasks] = stack.enter_context(start())
        for number in range(warm_up):
            for side in sides.values():
                side.take(number)
        runs: dict[int, list[float]] = {tasks: [] for tasks in sides}
        cpu: dict[int, list[float]] = {tasks: [] for tasks in sides}
        with OtherWork() as others:
            for number in range(warm_up, warm_up + measured):
                for tasks, side in sides.items():
                    turn = side.take(number)
                    runs[tasks].append(turn.waited)
                    cpu[tasks].append(turn.cpu)
    medians = {tasks: statistics.median(found) for tasks, found in runs.items()}
    found = Measurement(
        "idle_epoch",
        "s",
        rounded(medians[MANY]),
        None,
        round(medians[MANY] / medians[FEW], 2),
        WANTED_TIMES,
        {f"{tasks} tasks": [rounded(each) for each in found] for tasks, found in runs.items()},
        at_most=True,
        cpu={f"{tasks} tasks": round(statistics.median(found), 3) for tasks, found in cpu.items()},
        note=f"From the append of one record to its commit, with {MANY} tasks of which all but one are idle; the ratio "
        f"is to {FEW} tasks. There is no peer in it.",
    )
    yield bench.judged(found, others)
