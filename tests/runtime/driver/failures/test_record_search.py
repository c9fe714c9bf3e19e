"""Which record a failed epoch is blamed on."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.errors import MachineError
from headwater.runtime.cluster.spark.worker_errors import facts_of
from headwater.runtime.driver.cluster import MOST_TRIED, Failing, Trial
from headwater.runtime.driver.errors import ENDS_WORKER, FailedRecord, JobError, RecordError, Stop
from headwater.runtime.driver.failures import record_error, user_error
from headwater.runtime.driver.record_search import isolate
from headwater.runtime.engine.execution.source import take
from headwater.runtime.engine.failed_stage import Facts, StageFailedError, StepError, with_facts
from headwater.runtime.engine.operators.topics import Source
from headwater.runtime.ir.topology import OnError
from headwater.runtime.log.commit.records import TaskCommit
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import CorruptSegmentError
from headwater.runtime.progress.named_records import short_json
from headwater.runtime.records.record_json import Record
from headwater.runtime.records.types import Kind
from headwater.runtime.task_id import TaskKey
from headwater.runtime.tasks.measured import TaskOutcome
from headwater.runtime.tasks.plan import EpochPlan, LaneInput, StoreInput, TaskPlan, TopicInput
from headwater.tests.runtime.driver.commits import part, topic

CHANGES = topic("changes", writer="p-t")
KINDS = [Kind.VALUE, Kind.OLD_SAME_GROUP, Kind.VALUE, Kind.VALUE, Kind.OLD, Kind.VALUE]


def in_worker(error: Exception) -> Exception:
    """What Spark makes of an error in a stage: one that has the text of the traceback."""

    def rows() -> Iterator[int]:
        raise error
        yield 0

    try:
        list(with_facts(rows()))
    except StageFailedError:
        return RuntimeError(f"An error occurred while calling o1.\n: X: {traceback.format_exc()}")
    raise AssertionError


class Explained:
    """What a job of Spark's knows of its errors."""

    def facts(self, error: Exception) -> Facts:
        return facts_of(error)

    def steps(self) -> Sequence[tuple[str, Any]]:
        return ()


@dataclass
class FailsAt(Explained):
    """A job that takes a task's records and cannot process the one at `offset`."""

    log: EmbeddedLog
    offset: int
    tried: int = 0

    def failing(self, plan: EpochPlan) -> tuple[Failing, ...]:
        return ()

    def try_each(self, plan: EpochPlan, tasks: Sequence[TaskPlan]) -> Trial:
        self.tried += 1
        assert len(tasks) <= MOST_TRIED, "a job tries no more"
        for number, task in enumerate(tasks):
            try:
                self.run(replace(plan, threads=((task,),)))
            except Exception as error:
                return Trial(tuple(range(number)), (number, error))
        return Trial(tuple(range(len(tasks))), None)

    def run(self, plan: EpochPlan) -> tuple[TaskOutcome, ...]:
        (task,) = (task for thread in plan.threads for task in thread)
        taken, _ = take(task, [Source(CHANGES, ("changes",))], self.log)
        if len(taken) and taken.record(len(taken) - 1).position >= self.offset:  # all begin at 0, in one lane
            raise ValueError(str(in_worker(StepError("Sink", "topologies/t.yml:7", "reads_0", ValueError("cannot")))))
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
    (written,) = log.write("p-t", "changes", "a", table, 0, 0)
    within = replace(written, base_offset=0, base_position=0).range()
    task = TaskPlan(TaskKey("p-t", "reads", 0), 100, -1, {}, (TopicInput("changes", (LaneInput(0, 0, (within,)),)),))
    return EpochPlan("p-t", 1, 1, 0, 0, "c", "", 0, ("embedded", {"path": str(log.root)}), "", ((task,),))


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

    assert (failure.first.offset, failure.first.step) == (blamed, "topologies/t.yml:7")


@pytest.mark.parametrize(("count", "bad", "jobs"), [(20_000, 13_333, 6), (100_000, 99_999, 7)])
def test_record_among_very_many_is_found_in_few_jobs(
    log: EmbeddedLog, planned: EpochPlan, count: int, bad: int, jobs: int
) -> None:
    (task,) = planned.threads[0]
    (source,) = task.inputs
    (lane,) = source.lanes
    times = pa.array(np.arange(count))
    table = pa.table(
        {
            "key.k": ["a"] * count,
            "value.v": times,
            "_kind": pa.array([Kind.VALUE] * count, pa.int8()),
            "_timestamp": times,
            "_order": times,
        }
    )
    (written,) = log.write("p-t", "changes", "b", table, 0, 0)
    ranges = (replace(written, base_offset=0, base_position=0).range(),)
    inputs = (replace(source, lanes=(replace(lane, ranges=ranges),)),)
    plan = replace(planned, threads=((replace(task, max_records=500_000, inputs=inputs),),))
    fails = FailsAt(log, bad)
    job: Any = fails

    _, (failure,) = isolate(job, part("reads", (CHANGES,)), plan, ValueError("it failed"))

    assert failure.first.offset == bad
    assert fails.tried <= jobs


@dataclass
class Exhausts(FailsAt):
    """A job of which the JVM has not the memory for more than 3 records, nor for that at `offset`."""

    def run(self, plan: EpochPlan) -> tuple[TaskOutcome, ...]:
        (task,) = (task for thread in plan.threads for task in thread)
        taken, _ = take(task, [Source(CHANGES, ("changes",))], self.log)
        if len(taken) > 3 or (len(taken) and taken.record(len(taken) - 1).position >= self.offset):
            raise ValueError(
                "An error occurred while calling o1.\n: java.lang.OutOfMemoryError: Java heap space\n\tat x"
            )
        return (TaskOutcome.done(TaskCommit("reads", 0, taken.positions, 0, records=len(taken))),)


def test_no_record_is_blamed_where_together_they_exhaust_the_memory_of_the_jvm(
    log: EmbeddedLog, planned: EpochPlan
) -> None:
    job: Any = Exhausts(log, 100)
    (outcome,), failures = isolate(job, part("reads", (CHANGES,)), planned, ValueError("OutOfMemoryError"))
    assert failures == ()
    assert outcome.commit is not None
    assert (outcome.commit.records, outcome.most) == (3, 3)


def test_record_that_exhausts_the_memory_of_the_jvm_alone_is_blamed(log: EmbeddedLog, planned: EpochPlan) -> None:
    job: Any = Exhausts(log, 0)
    outcomes, (failure,) = isolate(job, part("reads", (CHANGES,)), planned, ValueError("OutOfMemoryError"))
    assert (outcomes, failure.first.offset) == ((), 0)
    assert "Java heap space" in failure.first.cause


@dataclass
class Killed(Explained):
    """A job whose worker is killed in some of its runs."""

    kills: set[int]
    runs: int = 0

    def failing(self, plan: EpochPlan) -> tuple[Failing, ...]:
        return ()

    def try_each(self, plan: EpochPlan, tasks: Sequence[TaskPlan]) -> Trial:
        try:
            self.run(plan)
        except RuntimeError as error:
            return Trial((), (len(tasks) - 1, error))
        return Trial(tuple(range(len(tasks))), None)

    def run(self, plan: EpochPlan) -> tuple[TaskOutcome, ...]:
        self.runs += 1
        if self.runs in self.kills:
            raise RuntimeError("An error occurred while calling o1.\n: X: Python worker exited unexpectedly (crashed)")
        return ()


@pytest.mark.parametrize("kills", [{1}, {1, 2}, {1, 2, 3}, {1, 3}])
def test_no_record_is_blamed_where_workers_were_killed(planned: EpochPlan, kills: set[int]) -> None:
    job: Any = Killed(kills)
    with pytest.raises(JobError, match=r"failed: Python worker exited unexpectedly and said nothing: its code"):
        isolate(job, part("reads", (CHANGES,)), planned, ValueError("it failed"))


SILENT = (
    "Python worker exited unexpectedly and said nothing: its code has called `os._exit`, or it was killed, as for want "
    "of memory, or it has crashed"
)


@dataclass
class CrashesAt(FailsAt):
    """A job whose worker the system ends as soon as it takes records of task `partition`; the others have a commit."""

    partition: int = 1

    def run(self, plan: EpochPlan) -> tuple[TaskOutcome, ...]:
        tasks = [task for thread in plan.threads for task in thread]
        if any(task.key.partition == self.partition and task.max_records for task in tasks):
            raise RuntimeError("An error occurred while calling o1.\n: X: Python worker exited unexpectedly (crashed)")
        return tuple(TaskOutcome.done(TaskCommit(task.key.subtopology, task.key.partition, {}, -1)) for task in tasks)


def with_stores(plan: EpochPlan, tasks: int) -> EpochPlan:
    ((task,),) = plan.threads
    stores = (StoreInput("totals", 0, 0, ()),)
    each = (replace(task, key=task.key._replace(partition=number), stores=stores) for number in range(tasks))
    return replace(plan, threads=(tuple(each),))


def test_task_whose_worker_is_ended_twice_is_in_trouble_and_the_others_are_not(
    log: EmbeddedLog, planned: EpochPlan
) -> None:
    plan, job = with_stores(planned, 3), CrashesAt(log, 0)
    ended = RuntimeError("Python worker exited unexpectedly (crashed)")

    outcomes, failures = isolate(job, part("reads", (CHANGES,)), plan, ended)

    assert failures == ()
    assert {each.partition: each.trouble and (each.trouble.kind, each.trouble.cause) for each in outcomes} == {
        0: None,
        1: ("corrupted", f"its worker was ended twice: {SILENT}"),
        2: None,
    }


@dataclass
class FailsThenCrashes(CrashesAt):
    """The same, but its first run ends with an error of a step: damage shows in more than one way."""

    failed: bool = False

    def run(self, plan: EpochPlan) -> tuple[TaskOutcome, ...]:
        if not self.failed and [task.key.partition for task in plan.tasks.values()] == [self.partition]:
            self.failed = True
            raise ValueError(str(in_worker(StepError("Sink", "topologies/t.yml:7", "reads_0", ValueError("cannot")))))
        return super().run(plan)


def test_task_that_fails_and_then_ends_its_workers_is_in_trouble_until_its_stores_are_examined(
    log: EmbeddedLog, planned: EpochPlan
) -> None:
    plan, error = with_stores(planned, 2), ValueError("cannot")

    outcomes, failures = isolate(FailsThenCrashes(log, 0), part("reads", (CHANGES,)), plan, error)

    assert failures == ()
    assert {outcome.partition: outcome.trouble and outcome.trouble.kind for outcome in outcomes} == {
        0: None,
        1: "corrupted",
    }
    examined = {TaskKey("p-t", "reads", 1)}
    _, (failure,) = isolate(FailsThenCrashes(log, 0), part("reads", (CHANGES,)), plan, error, examined)
    assert failure.task in examined


def test_records_are_looked_at_where_a_worker_is_ended_again_behind_examined_stores(
    log: EmbeddedLog, planned: EpochPlan
) -> None:
    plan, job = with_stores(planned, 3), CrashesAt(log, 0)
    ended = RuntimeError("Python worker exited unexpectedly (crashed)")

    outcomes, (failure,) = isolate(job, part("reads", (CHANGES,)), plan, ended, {TaskKey("p-t", "reads", 1)})

    assert {each.partition for each in outcomes} == {0, 2}
    assert (failure.task.partition, failure.first.offset) == (1, 0)
    assert failure.first.cause.startswith("Python worker exited unexpectedly")
    assert failure.way_on == ENDS_WORKER


def test_on_error_leaves_out_no_record_that_ends_its_worker(log: EmbeddedLog, planned: EpochPlan) -> None:
    for policy in ("fail", "skip"):
        topic = replace(CHANGES, on_error=policy)
        ended = RuntimeError("Python worker exited unexpectedly (crashed)")
        _, (failure,) = isolate(CrashesAt(log, 0, partition=0), part("reads", (topic,)), planned, ended)
        assert failure.way_on == ENDS_WORKER
        assert Stop.from_error(failure).never_left_out
        assert "a record that ends its worker is never skipped" in (failure.hint or "")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "/log/segments/a.seg"),
        OSError(errno.ENAMETOOLONG, "File name too long", "/log/segments/a.seg"),
        CorruptSegmentError("segments/a.seg", 3),
    ],
)
def test_error_of_the_machine_is_told_at_once_and_no_record_is_looked_for(
    log: EmbeddedLog, planned: EpochPlan, error: Exception
) -> None:
    fails = FailsAt(log, 0)
    job: Any = fails
    with pytest.raises(JobError) as raised:
        isolate(job, part("reads", (CHANGES,)), planned, in_worker(error))

    assert "segments/a.seg" in raised.value.message
    assert raised.value.hint
    assert fails.tried == 0


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        pa.ArrowMemoryError("malloc of size 99 failed"),
    ],
)
def test_want_of_memory_is_told_at_once_and_no_record_is_looked_for(
    log: EmbeddedLog, planned: EpochPlan, error: Exception
) -> None:
    fails = FailsAt(log, 0)
    job: Any = fails
    with pytest.raises(JobError, match="there is not enough memory") as raised:
        isolate(job, part("reads", (CHANGES,)), planned, in_worker(error))

    assert "`max_records`" in str(raised.value.hint)
    assert fails.tried == 0


def test_want_of_threads_is_told_at_once_and_no_record_is_looked_for(log: EmbeddedLog, planned: EpochPlan) -> None:
    fails = FailsAt(log, 0)
    job: Any = fails
    said = "Job aborted: java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory"
    with pytest.raises(JobError, match="no further thread") as raised:
        isolate(job, part("reads", (CHANGES,)), planned, RuntimeError(said))

    assert "ulimit -u" in str(raised.value.hint)
    assert fails.tried == 0


def test_want_of_memory_in_the_driver_is_an_error_of_the_machine() -> None:
    error = user_error(MemoryError())
    assert isinstance(error, MachineError)
    assert error.message == "there is not enough memory"


def test_jvm_that_is_gone_is_told_with_the_records_it_worked_on(log: EmbeddedLog, planned: EpochPlan) -> None:
    job: Any = FailsAt(log, 0)
    with pytest.raises(JobError, match=r"\(it was processing changes\[0\]@0 to 5\)"):
        isolate(job, part("reads", (CHANGES,)), planned, ConnectionRefusedError(111, "refused"))


@pytest.mark.parametrize(
    ("step", "of_flow", "of_topic", "told"),
    [
        ("t.yml:7", "fail", "fail", "of the flow or the topic skips such records"),
        ("t.yml:8", "skip", "fail", "of the flow or the topic skips such records"),
        ("", "fail", "fail", "of the flow or the topic skips such records"),
        ("", "dead_letter", "fail", "the failing step is not known, as Spark SQL may compute several as one"),
        ("", "fail", "skip", "skips only records for which a step has raised an error"),
    ],
)
def test_way_out_is_one_that_on_error_has_not_taken_already(
    log: EmbeddedLog, planned: EpochPlan, step: str, of_flow: OnError, of_topic: OnError, told: str
) -> None:
    (task,) = planned.threads[0]
    reads = replace(part("reads", (replace(CHANGES, on_error=of_topic),)), on_error={"t.yml:7": of_flow})

    error = record_error(reads, task, [Failing(task.key, 0, step, "cannot")], log)

    assert told in str(error.hint)


def test_long_values_are_shortened_in_the_report_of_a_record() -> None:
    record = Record(0, 7, 0, {"k": 1}, {"text": "y" * 20_000_000, "list": [1] * 5000, "deep": {"t": "z" * 900}}, {})
    value = short_json(record)
    cause = f"[CAST_INVALID_INPUT] The value '{'y' * 20_000_000}' of the type STRING cannot be cast"
    failed = FailedRecord("words", 0, 7, "topologies/t.yml:6", value, cause)
    error = RecordError(TaskKey("a", "f", 0), [failed])

    assert len(str(error)) < 3_000
    assert "(20,000,000 characters)" in value
    assert "and 4,980 more" in value
    assert "cannot be cast" in error.message
    assert "headwater read words --from 7 --format json" in str(error.hint)
