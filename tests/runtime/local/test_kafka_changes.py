"""What happens to a topic in Kafka while it is copied, and between two runs of the copy."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.runtime.changes.model import IncompatibleStateError, Verdict
from headwater.runtime.changes.planning import Planned, plan_on
from headwater.runtime.driver.events import ApplicationStarted, ApplicationStopped, EpochCommitted, Event
from headwater.runtime.driver.results import ApplicationResult
from headwater.runtime.driver.service_events import KafkaPartitionsAdded
from headwater.runtime.log.placed_log import PlacedLog
from headwater.runtime.progress.kafka_ends import KafkaTopicReplacedError
from headwater.runtime.progress.positions import RawRecordsMissingError
from headwater.runtime.progress.rewinding import (
    EARLIEST,
    LATEST,
    NotReadError,
    OutOfRangeError,
    Rewind,
    RewoundStateError,
    Whence,
    plan_rewind,
    rewind,
)
from headwater.tests.runtime.local.kafka_project import COPY, NAME, RAW, READER, KafkaProject, message
from headwater.tests.runtime.local.local_application import PROJECT


@pytest.fixture
def project(tmp_path: Path) -> KafkaProject:
    """A copy that has read the first 5 records of each of two partitions."""
    project = KafkaProject(tmp_path, partitions=2, ours=1)
    for partition in range(2):
        produce(project, partition, 5)
    project.run_copy()
    return project


def produce(project: KafkaProject, partition: int, count: int) -> None:
    first = project.kafka.topics[NAME].partitions[partition].high
    project.produce(partition, *(message("k", f"{partition}/{first + n}", 10 * (first + n)) for n in range(count)))


def copied(project: KafkaProject) -> list[str]:
    """The values of the copy, sorted."""
    return sorted(row[1] for partition in project.read(project.flights) for row in partition)


def numbered(partition: int, *offsets: int) -> list[str]:
    return [f"{partition}/{offset}" for offset in offsets]


def failed(project: KafkaProject) -> ApplicationResult:
    (result,) = project.attempt([project.copy]).applications
    assert result.status == "failed"
    return result


def planned(project: KafkaProject, whence: Whence, *partitions: int, keep_state: bool = False) -> Rewind:
    """Of the copy, by the name of our topic."""
    return plan_rewind(
        project.log,
        COPY,
        "flights",
        whence,
        partitions,
        fed_by="test-seed",
        keep_state=keep_state,
        kafka=lambda: {"main": project.kafka},
    )


def moved(project: KafkaProject, whence: Whence, *partitions: int, keep_state: bool = False) -> Rewind:
    plan = planned(project, whence, *partitions, keep_state=keep_state)
    assert plan.is_needed
    rewind(project.log, project.path / "state", plan)
    return plan


class Doing:
    """An observer that does something once, after a commit of the copy."""

    def __init__(self, project: KafkaProject, *steps: str) -> None:
        self.project = project
        self.steps = list(steps)
        self.stop = threading.Event()

    def on(self, event: Event) -> None:
        if isinstance(event, EpochCommitted):
            if not self.steps:
                self.stop.set()
                return
            step = self.steps.pop(0)
            if step == "delete records":
                self.project.kafka.delete_records(NAME, 0, 9)
            if step == "create again":
                self.project.kafka.delete(NAME)
                self.project.kafka.create(NAME, 2)
            if step not in ("create again", "delete records"):
                produce(self.project, 1, 1)

    def run(self) -> ApplicationResult:
        """A lasting run, which begins with another record."""
        produce(self.project, 1, 1)
        (result,) = self.project.attempt(
            [self.project.copy],
            observer=self,
            stop=self.stop,
            until_caught_up=False,
            held=lambda task: task.partition == 0,
        ).applications
        return result


def test_records_that_are_gone_stop_the_copy_until_it_is_moved(project: KafkaProject) -> None:
    produce(project, 0, 5)
    project.kafka.delete_records(NAME, 0, 8)
    error = failed(project).raised
    assert isinstance(error, RawRecordsMissingError)
    assert project.state().generation == 1  # nothing was claimed
    assert [str(gap) for gap in error.gaps] == [f"{NAME}[0]: offsets 5 to 7 (3) were deleted before they were read"]
    assert error.hint == "to go on without them: headwater rewind kafka --topic flights --partition 0 --to earliest"
    plan = moved(project, EARLIEST, 0)
    assert (plan.topic, plan.skipped, plan.again) == (RAW, 3, 0)
    project.run_copy()
    assert copied(project) == numbered(0, *range(5), 8, 9) + numbered(1, *range(5))


def test_records_that_are_gone_while_it_runs_stop_the_copy(project: KafkaProject) -> None:
    produce(project, 0, 5)
    result = Doing(project, "delete records").run()
    assert isinstance(result.raised, RawRecordsMissingError)
    assert copied(project) == numbered(0, *range(5)) + numbered(1, *range(6))


def test_partition_that_ends_before_the_position_stops_the_copy_until_it_is_moved(project: KafkaProject) -> None:
    project.kafka.lose(NAME, 1, 3)
    error = failed(project).raised
    assert isinstance(error, RawRecordsMissingError)
    assert [str(gap) for gap in error.gaps] == [f"{NAME}[1]: read up to offset 5, and it ends at 3"]
    assert error.hint == "to go on without them: headwater rewind kafka --topic flights --partition 1 --to latest"
    moved(project, LATEST)
    produce(project, 1, 2)
    project.run_copy()
    assert copied(project) == numbered(0, *range(5)) + sorted(numbered(1, *range(5), 3, 4))


def test_topic_that_was_created_again_is_not_copied_until_it_is_moved(project: KafkaProject) -> None:
    project.kafka.delete(NAME)
    project.kafka.create(NAME, 3)
    for partition in range(3):
        produce(project, partition, 6)
    error = failed(project).raised
    assert isinstance(error, IncompatibleStateError)
    assert "it was deleted in Kafka and created again" in str(error)
    assert copied(project) == numbered(0, *range(5)) + numbered(1, *range(5))
    with pytest.raises(NotReadError, match="it was created again in Kafka"):
        planned(project, EARLIEST, 0)
    plan = moved(project, EARLIEST)
    assert (plan.again, plan.more) == (0, 12)
    project.run_copy()
    again = numbered(0, *range(6)) + numbered(1, *range(6)) + numbered(2, *range(6))
    assert copied(project) == sorted(again + numbered(0, *range(5)) + numbered(1, *range(5)))
    assert project.run_reader().waiting == 0


def test_topic_that_is_created_again_while_it_runs_stops_the_copy(project: KafkaProject) -> None:
    result = Doing(project, "create again").run()
    assert isinstance(result.raised, KafkaTopicReplacedError)
    assert copied(project) == numbered(0, *range(5)) + numbered(1, *range(6))


def test_topic_with_fewer_partitions_is_not_copied(project: KafkaProject) -> None:
    """Readers would miss what the tasks of the others have written."""
    project.kafka.delete(NAME)
    project.kafka.create(NAME, 1)
    error = failed(project).raised
    assert isinstance(error, IncompatibleStateError)
    assert "it has 1 partition in Kafka, and had 2" in str(error)


class Adding:
    """An observer under which partitions are added at the first commit. It stops the run when `count` records are
    copied.
    """

    def __init__(self, project: KafkaProject, count: int) -> None:
        self.project = project
        self.count = count
        self.stop = threading.Event()
        self.seen: list[Event] = []

    def on(self, event: Event) -> None:
        self.seen.append(event)
        if isinstance(event, EpochCommitted):
            if len(self.project.kafka.topics[NAME].partitions) == 2:
                self.project.kafka.add_partitions(NAME, 4)
                produce(self.project, 3, 2)
                produce(self.project, 1, 1)
            if len(copied(self.project)) == self.count:
                self.stop.set()


@pytest.mark.parametrize("until_caught_up", [False, True])
def test_added_partitions_are_copied_by_the_run_that_sees_them(project: KafkaProject, until_caught_up: bool) -> None:
    project.run_reader()
    before = project.state()
    adding = Adding(project, count=14)
    produce(project, 1, 1)
    options = {"observer": adding, "stop": adding.stop, "until_caught_up": until_caught_up}
    (result,) = project.attempt([project.copy], **options).applications
    assert (result.error, result.records) == (None, 4)
    assert copied(project) == numbered(0, *range(5)) + numbered(1, *range(7)) + numbered(3, 0, 1)
    kinds = (KafkaPartitionsAdded, ApplicationStarted, ApplicationStopped)
    told = [event for event in adding.seen if isinstance(event, kinds)]
    assert [type(event) for event in told] == [ApplicationStarted, KafkaPartitionsAdded, *kinds[1:]]
    assert told[1] == KafkaPartitionsAdded(COPY, RAW, 2, 4)
    after = project.state()
    assert after.generation == before.generation + 2  # the claim names the new tasks
    assert after.incarnation == before.incarnation  # nothing was rebuilt
    assert project.run_reader().waiting == 0
    assert not project.lag()


def test_added_partitions_are_copied_from_their_first_records_whatever_start_says(tmp_path: Path) -> None:
    project = KafkaProject(tmp_path, partitions=1, start="latest")
    produce(project, 0, 3)
    project.run_copy()
    project.kafka.add_partitions(NAME, 2)
    produce(project, 0, 1)
    produce(project, 1, 2)
    project.run_copy()
    assert copied(project) == numbered(0, 3) + numbered(1, 0, 1)


def test_move_to_an_offset_reads_again_and_skips(project: KafkaProject) -> None:
    with pytest.raises(OutOfRangeError):
        planned(project, Whence("offset", 6))
    plan = moved(project, Whence("offset", 3), 0)
    assert (plan.more, plan.again, plan.skipped) == (2, 2, 0)
    project.run_copy()
    assert copied(project) == sorted(numbered(0, *range(5), 3, 4) + numbered(1, *range(5)))
    produce(project, 0, 4)
    assert moved(project, LATEST, 0).skipped == 4
    project.run_copy()
    assert len(copied(project)) == 12


def test_move_back_counts_twice_in_stores_of_readers_so_it_is_refused(project: KafkaProject) -> None:
    project.run_reader()
    with pytest.raises(RewoundStateError) as caught:
        planned(project, EARLIEST)
    assert caught.value.stores == ((READER, "counted"),)
    assert moved(project, EARLIEST, keep_state=True).again == 10


def test_plan_of_another_copy_does_not_say_what_kafka_lacks_as_only_a_run_asks(project: KafkaProject) -> None:
    project.flights = replace(project.flights, value="v string, at timestamp, w string")
    planned = Planned(PROJECT, project.path, [project.copy], {COPY})
    (plan,) = plan_on(PlacedLog(project.log), "log", planned).applications
    assert {change.verdict for change in plan.changes} == {Verdict.REPLACE}
    (again,) = (read for change in plan.changes for read in change.reads_again)
    assert (again.topic, again.start, again.records) == (RAW, {0: 0, 1: 0}, 10)
    project.kafka.delete_records(NAME, 1, 3)
    (result,) = project.attempt([project.copy]).applications
    assert "Kafka has deleted up to 3 of the records that were copied" in str(result.error)
    assert "partition 1: offsets 0 to 2" in str(result.error)
    assert "headwater run --full-refresh --select 'kafka+'" in str(result.error)


def wider(project: KafkaProject) -> ApplicationResult:
    """A run in which the copy has another column."""
    project.flights = replace(project.flights, value="v string, at timestamp, w string")
    return project.attempt([project.copy]).applications[0]


def test_copy_is_rebuilt_if_kafka_has_all_that_it_has_read(tmp_path: Path) -> None:
    """Records were deleted before the copy began, and all of them in a partition in which it has read nothing."""
    project = KafkaProject(tmp_path, partitions=2, ours=1)
    produce(project, 0, 5)
    project.kafka.delete_records(NAME, 0, 3)
    project.run_copy()
    assert project.state().topology.topics[RAW].first == (3, 0)
    produce(project, 0, 1)
    result = wider(project)
    assert (result.error, result.recomputation, result.records) == (None, "switched", 3)


def test_copy_that_was_moved_back_is_rebuilt_from_there(tmp_path: Path) -> None:
    project = KafkaProject(tmp_path, partitions=1, ours=1, start="latest")
    produce(project, 0, 4)
    project.run_copy()
    produce(project, 0, 2)
    project.run_copy()
    assert project.state().topology.topics[RAW].first == (4,)
    moved(project, Whence("offset", 2), 0)
    project.run_copy()
    assert project.state().topology.topics[RAW].first == (2,)
    project.kafka.delete_records(NAME, 0, 4)
    project.start = None
    assert "Kafka has deleted up to 2 of the records" in str(wider(project).error)
