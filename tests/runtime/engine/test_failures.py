"""Which record a failed epoch is blamed on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from commits import part, topic
from py4j.protocol import Py4JNetworkError

from headwater.runtime.engine.errors import JobError
from headwater.runtime.engine.failures import cause_of, isolate
from headwater.runtime.log.embedded import EmbeddedLog
from headwater.runtime.log.records import TaskCommit
from headwater.runtime.operators.rows import Kind
from headwater.runtime.operators.source import Source, take
from headwater.runtime.tasks.plan import EpochPlan, LaneInput, TaskPlan, TopicInput

CHANGES = topic("changes", writer="p-t")
KINDS = [Kind.VALUE, Kind.OLD_SAME_GROUP, Kind.VALUE, Kind.VALUE, Kind.OLD, Kind.VALUE]


@dataclass
class FailsAt:
    """A job that takes a task's records and cannot process the one at `offset`."""

    log: EmbeddedLog
    offset: int

    def run(self, plan: EpochPlan) -> tuple[TaskCommit, ...]:
        (task,) = (task for thread in plan.threads for task in thread)
        taken, _ = take(task, [Source(CHANGES, ("changes",))], self.log)
        if any(taken.record(number).offset == self.offset for number in range(len(taken))):
            raise ValueError("StepError: topologies/t.yml:7: cannot")
        return ()


@pytest.fixture
def log(tmp_path: Path) -> EmbeddedLog:
    return EmbeddedLog(tmp_path)


@pytest.fixture
def planned(log: EmbeddedLog) -> EpochPlan:
    """One task that may read all of KINDS."""
    times = pa.array(np.arange(len(KINDS)))
    table = pa.table(
        {
            "key.k": ["a"] * len(KINDS),
            "value.v": pa.array(np.arange(len(KINDS))),
            "_kind": pa.array(KINDS, pa.int8()),
            "_timestamp": times,
            "_order": times,
        }
    )
    (written,) = log.write_segments("segments/p-t/changes/a.seg", "changes", table, 0, 0)
    segment = replace(written, base_offset=0, base_position=0)
    task = TaskPlan("reads", 0, 100, -1, {}, (TopicInput("changes", (LaneInput(0, 0, (segment,)),)),))
    return EpochPlan("p-t", 1, 1, 0, 0, "c", ("embedded", {"path": str(log.root)}), "", ((task,),))


@pytest.mark.parametrize(
    ("max_records", "offset", "blamed"),
    [(2, 0, 0), (2, 1, 2), (2, 2, 2), (3, 2, 2), (100, 0, 0), (100, 1, 2), (100, 2, 2), (100, 3, 3), (100, 5, 5)],
)
def test_first_record_that_fails_is_blamed_or_the_change_that_it_begins(
    log: EmbeddedLog, planned: EpochPlan, max_records: int, offset: int, blamed: int
) -> None:
    (task,) = planned.threads[0]
    plan = replace(planned, threads=((replace(task, max_records=max_records),),))
    job: Any = FailsAt(log, offset)

    _, (failure,) = isolate(job, part("reads", (CHANGES,)), plan, ValueError("it failed"))

    assert (failure.error.offset, failure.error.step) == (blamed, "topologies/t.yml:7")


@dataclass
class Killed:
    """A job whose worker is killed in some of its runs."""

    kills: set[int]
    runs: int = 0

    def run(self, plan: EpochPlan) -> tuple[TaskCommit, ...]:
        self.runs += 1
        if self.runs in self.kills:
            raise RuntimeError("An error occurred while calling o1.\n: X: Python worker exited unexpectedly (crashed)")
        return ()


@pytest.mark.parametrize("kills", [{1, 3}, {1, 4}, {1, 2}, {1}, {1, 3, 6}])
def test_no_record_is_blamed_where_workers_were_killed(planned: EpochPlan, kills: set[int]) -> None:
    job: Any = Killed(kills)
    with pytest.raises(JobError, match=r"failed: Python worker exited unexpectedly \(crashed\)$"):
        isolate(job, part("reads", (CHANGES,)), planned, ValueError("it failed"))


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "refused"), Py4JNetworkError("empty")])
def test_jvm_that_is_gone_is_told(error: Exception) -> None:
    assert "JVM has ended" in cause_of(error)
