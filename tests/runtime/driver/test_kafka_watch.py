"""How late a copy of Kafka is, and warnings of what holds it up."""

from __future__ import annotations

from concurrent.futures import wait
from pathlib import Path

import pytest

from headwater.runtime.driver.events import Event, StatusTaken
from headwater.runtime.driver.kafka_watch import HELD_SECONDS, KafkaWatch
from headwater.runtime.driver.service_events import KafkaRetentionNear, KafkaTransactionEnded, KafkaTransactionOpen
from headwater.runtime.driver.status import KafkaLag, RunStatus, run_figures
from headwater.runtime.observe.metrics import samples
from headwater.runtime.progress.committed import Committed
from headwater.runtime.task_id import TaskKey
from headwater.tests.runtime.local.kafka_project import COPY, NAME, RAW, KafkaProject, message

TASK = TaskKey(COPY, "flights", 0)


class Watching:
    """A copy that has read the first 10 records of a partition, and its watch."""

    def __init__(self, path: Path) -> None:
        self.project = KafkaProject(path, partitions=1)
        self.produce(10)
        self.project.run_copy()
        self.committed = Committed(self.project.log, self.project.copy, kafka={"main": self.project.kafka})
        self.events: list[Event] = []
        self.now = 0.0
        self.watch = KafkaWatch(self.project.copy, self.committed, self, lambda: self.now)

    def on(self, event: Event) -> None:
        self.events.append(event)

    def produce(self, count: int) -> None:
        self.project.produce(0, *(message("k", "v", number) for number in range(count)))

    def look(self, seconds: float) -> KafkaLag | None:
        """Some seconds later, with the ends of then."""
        self.now += seconds
        kafka = self.committed.kafka
        wait(kafka.questions)
        kafka.poll()
        kafka.is_since(float("inf"))
        kafka.poll()
        wait(kafka.questions)
        self.committed.own.refresh()
        self.committed.refresh()
        self.watch.look()
        return self.watch.lag(TASK)


@pytest.fixture
def watching(tmp_path: Path) -> Watching:
    return Watching(tmp_path)


def test_lag_is_the_time_for_which_the_oldest_unread_record_is_there(watching: Watching) -> None:
    assert watching.look(1) == KafkaLag(0.0, 0)
    watching.produce(2)
    assert watching.look(1) == KafkaLag(0.0, 0)
    watching.produce(2)
    assert watching.look(3) == KafkaLag(3.0, 0)
    assert watching.look(4) == KafkaLag(7.0, 0)
    watching.project.run_copy()
    assert watching.look(1) == KafkaLag(0.0, 0)
    assert watching.watch.lag(TaskKey(COPY, "other", 0)) is None


def test_statuses_and_metrics_have_the_lag_in_kafka(watching: Watching) -> None:
    project = watching.project
    project.produce(0, message("k", "v", 1))
    project.kafka.begin(NAME, 0, [(b"k", b"v", 1)] * 2)
    project.attempt([project.copy], observer=watching)
    taken = [event.status for event in watching.events if isinstance(event, StatusTaken)]
    assert [status.kafka["0_0"].held for status in taken] == [2] * len(taken)
    last = taken[-1]
    assert RunStatus.from_text(COPY, last.to_text()) == last
    ((task,),) = (client["tasks"] for client in run_figures(last)["clients"])
    assert (task["lag"], task["kafka_lag"]) == (0, {"seconds": 0.0, "held": 2})
    held = [value for family, _, value in samples(last) if family.name == "headwater_task_kafka_held_records"]
    assert held == [2]


def test_transaction_that_holds_records_for_long_is_told_once_and_its_end(watching: Watching) -> None:
    kafka = watching.project.kafka
    kafka.begin(NAME, 0, [(b"k", b"v", 1)] * 3)
    assert watching.look(1) == KafkaLag(0.0, 3)
    watching.look(HELD_SECONDS - 1)
    assert watching.events == []
    watching.look(1)
    watching.look(HELD_SECONDS)
    told = KafkaTransactionOpen(COPY, RAW, 0, 10, 3, HELD_SECONDS)
    assert watching.events == [told]
    kafka.end(NAME, 0, commit=False)
    watching.look(1)
    assert watching.events == [told, KafkaTransactionEnded(COPY, RAW, 0, 2 * HELD_SECONDS + 1)]


def test_transactions_one_after_the_other_are_not_told(watching: Watching) -> None:
    kafka = watching.project.kafka
    for _ in range(3):
        kafka.begin(NAME, 0, [(b"k", b"v", 1)])
        watching.look(HELD_SECONDS / 2)
        kafka.end(NAME, 0, commit=True)
    watching.look(HELD_SECONDS)
    assert watching.events == []


def test_retention_that_comes_near_to_unread_records_is_told_once(watching: Watching) -> None:
    kafka = watching.project.kafka
    watching.look(1)
    kafka.delete_records(NAME, 0, 6)
    watching.look(1)
    assert watching.events == []  # all is read
    watching.produce(5)
    watching.look(1)
    watching.look(1)
    assert watching.events == [KafkaRetentionNear(COPY, RAW, 0, 6, 10, 5, 6)]
    watching.project.run_copy()
    kafka.delete_records(NAME, 0, 8)
    watching.produce(20)
    watching.look(1)
    assert len(watching.events) == 1  # two more offsets would not reach what is unread
