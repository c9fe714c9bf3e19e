"""From a topology, and what its application has committed, to tasks with sizes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headwater.runtime.assignment.cluster import TaskTopicPartition
from headwater.runtime.ir.topology import Store, Subtopology, Topic, Topology
from headwater.runtime.log.commit.records import EpochRecord, GenerationRecord, TaskCommit
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.records.schema import CHANGELOG, changelog_topic
from headwater.runtime.simulation.model import Assumptions, Size, application
from headwater.runtime.task_id import TaskId

IN, WIDE = Topic("in", 1, "k int", "v int"), Topic("wide", 2, "k int", "v int")
TOTALS = Store("totals", 2, "k int", "n bigint")
SCRATCH = Store("scratch", 2, "k int", "n bigint", changelog=False)


def part(number: int, name: str, *stores: Store) -> Subtopology:
    return Subtopology(number, name, 2, lambda tasks: tasks, (IN, WIDE), (), stores)


TOPOLOGY = Topology("p", "t", "1.0", "", (part(0, "sum", TOTALS, SCRATCH), part(1, "map"), part(2, "scratch", SCRATCH)))


@pytest.fixture
def ran(tmp_path: Path) -> LogState:
    """The log of an application that has written three changes of 0_1's store."""
    log = EmbeddedLog(tmp_path)
    changes = pa.table(
        {"key": [b"a", b"b", b"a"], "value": [b"1", b"2", None], "_timestamp": [1, 2, 3]}, schema=CHANGELOG
    )
    topic = changelog_topic("p-t", "totals")
    segments = log.write("p-t", topic, "s", changes, 1, lane=1)
    state = LogState.load(log.commits("p-t"))
    state.commit(GenerationRecord(1, 0))
    state.commit(EpochRecord(1, 1, 0, (TaskCommit("sum", 1, {}, -1, segments=segments),)))
    return state


def test_tasks_read_the_partitions_that_there_are() -> None:
    tasks = {task.info.id: task.info for task in application(TOPOLOGY, Assumptions()).tasks}

    assert tasks[TaskId(0, 1)].topic_partitions == {
        TaskTopicPartition("wide", 1, True, False),
        TaskTopicPartition("p-t-totals-changelog", 1, False, True),
    }
    assert {each.topic for each in tasks[TaskId(0, 0)].topic_partitions} == {"in", "wide", "p-t-totals-changelog"}
    assert tasks[TaskId(0, 0)].state_store_names == {"totals", "scratch"}


def test_only_what_has_a_changelog_is_assumed_to_be_restored() -> None:
    found = application(TOPOLOGY, Assumptions(size=Size(5, 50)))

    assert not found.measured
    assert {
        str(task.info.id): (task.size, task.info.state_bytes) for task in found.tasks if not task.info.id.partition
    } == {
        "0_0": (Size(5, 50), 50),
        "1_0": (Size(0, 0), None),
        "2_0": (Size(0, 0), None),
    }


def test_sizes_of_an_application_that_has_run_are_those_of_its_log(ran: LogState) -> None:
    found = application(TOPOLOGY, Assumptions(), log=ran)
    sizes = {str(task.info.id): task.size for task in found.tasks}

    assert found.measured
    assert sizes["0_0"] == Size(0, 0)
    assert sizes["0_1"].records == 3
    assert sizes["0_1"].bytes == ran.size(changelog_topic("p-t", "totals"), 1) > 0


def test_replicas_lie_on_racks_in_turn() -> None:
    found = application(TOPOLOGY, Assumptions(replication=2), racks=("a", "b", "c"))
    racks = {(task.info.id, each.topic): each.racks for task in found.tasks for each in task.info.topic_partitions}

    assert racks[TaskId(0, 0), "in"] == {"a", "b"}
    assert racks[TaskId(0, 1), "wide"] == {"b", "c"}
    assert racks[TaskId(0, 1), "p-t-totals-changelog"] == {"b", "c"}
