"""The ends of topics in Kafka: of an own driver, which asks, and of others, which read them in its commits."""

from __future__ import annotations

import threading
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.errors import HeadwaterError
from headwater.runtime.changes.found import changes_of
from headwater.runtime.changes.model import Verdict
from headwater.runtime.ir.topology import Topic, Topology, raw_topic
from headwater.runtime.kafka.polling import LEAST_SECONDS, MOST_SECONDS, RETRY_SECONDS
from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.commit.records import TaskCommit
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.progress.committed import Committed
from headwater.runtime.progress.committer import Committer
from headwater.runtime.progress.kafka_ends import KafkaEnds, KafkaTopicReplacedError
from headwater.runtime.progress.planner import Planner, beginnings
from headwater.runtime.progress.positions import RawRecordsMissingError, check_raw_positions
from headwater.runtime.task_id import TaskId, TaskKey
from headwater.tests.runtime.driver.commits import PROJECT, Applications, part, topic, topology
from headwater.tests.runtime.local.memory_kafka import MemoryKafka

NAME, RAW, COPY = "ops.flights", "kafka:main:ops.flights", f"{PROJECT}-kafka"
FLIGHTS = topic("flights", 2, COPY)
READER = topology("reader", part("reads", (FLIGHTS,), (topic("counts", 2, f"{PROJECT}-reader"),)))


class Seconds:
    """A clock that goes on by itself only when it is asked."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Told:
    """Outages, as they are reported."""

    def __init__(self) -> None:
        self.silent: set[object] = set()
        self.begun = 0

    def begin(self, service: object, cause: str) -> None:
        self.silent.add(service)
        self.begun += 1

    def end(self, service: object) -> None:
        self.silent.discard(service)


@pytest.fixture
def kafka() -> MemoryKafka:
    kafka = MemoryKafka()
    kafka.create(NAME, 2)
    return kafka


@pytest.fixture
def applications(tmp_path: Path) -> Applications:
    return Applications(EmbeddedLog(tmp_path))


def raw(kafka: MemoryKafka) -> Topic:
    """The topic as it is in Kafka now."""
    made, there = raw_topic(NAME), kafka.topics[NAME]
    assert made.kafka is not None
    return replace(made, partitions=len(there.partitions), kafka=replace(made.kafka, id=there.id))


def copying(kafka: MemoryKafka, start: str | None = None) -> Topology:
    source = raw(kafka)
    made = part("flights", (source,), (FLIGHTS,))
    return topology("kafka", replace(made, starts={} if start is None else {source.name: start}))


def produced(kafka: MemoryKafka, partition: int, count: int, time: int = 0) -> None:
    kafka.produce(NAME, partition, [(b"k", b"v", time + number) for number in range(count)])


def begun(applications: Applications, kafka: MemoryKafka, start: str | None = None) -> Committed:
    """The copy as a run claims it."""
    declared = copying(kafka, start)
    committed = Committed(applications.log, declared, kafka={"main": kafka})
    committer = Committer(committed.own)
    described = TopologyDescription.from_topology(declared)
    committer.claim(described, {}, lambda: beginnings(declared, committed), lambda: committed.kafka.ends)
    return committed


def positions(committed: Committed, partitions: int = 2) -> list[int | None]:
    tasks = [committed.own.tasks.last_commit(TaskKey(COPY, "flights", number)) for number in range(partitions)]
    return [task.positions[RAW][0] if RAW in task.positions else None for task in tasks]


def copied(committed: Committed, partition: int, position: int) -> None:
    """An epoch of one task of the copy."""
    committer = Committer(committed.own)
    committer.generation = committed.own.generation
    committer.commit(1, [TaskCommit("flights", partition, {RAW: {0: position}}, 0)], ends=committed.kafka.ends)


def later(committed: Committed) -> Committed:
    """With the ends of now."""
    wait(committed.kafka.questions)
    committed.kafka.poll()
    committed.kafka.is_since(float("inf"))
    committed.kafka.poll()
    wait(committed.kafka.questions)
    committed.refresh()
    return committed


def ask(ends: KafkaEnds, moment: float) -> None:
    """Poll until the ends are those of a moment of its clock, or a later one."""
    ends.poll()
    while not ends.is_since(moment):
        wait(ends.questions)
        ends.poll()


# The poll.


def test_plan_reads_from_the_position_to_the_last_stable_offset(applications: Applications, kafka: MemoryKafka) -> None:
    produced(kafka, 0, 5)
    committed = begun(applications, kafka)
    kafka.begin(NAME, 0, [(b"k", b"v", 0)])
    copied(committed, 0, 2)
    declared = copying(kafka).subtopologies[0]
    ((lane,),) = [each.lanes for each in Planner(later(committed), 10).task(declared, 0, {}).inputs]
    (within,) = lane.ranges
    assert (within.start, within.end, within.token) == (2, 5, f"{RAW}:{kafka.topics[NAME].id}")
    assert (lane.idle, lane.more) == (True, False)
    assert Planner(committed, 10).task(declared, 1, {}).inputs[0].lanes[0].ranges == ()
    assert Planner(committed, 10).with_unread(declared) == (TaskId(0, 0, "flights"),)


def test_kafka_is_asked_beside_and_the_version_tells_new_ends(kafka: MemoryKafka) -> None:
    kafka.answers = threading.Event()
    kafka.answers.set()
    clock = Seconds()
    ends = KafkaEnds([raw(kafka)], {"main": kafka}, clock)
    ends.poll()
    produced(kafka, 0, 3)
    kafka.answers.clear()
    clock.now = LEAST_SECONDS
    ends.poll()
    (question,) = ends.questions
    ends.poll()  # does not wait
    assert (ends.end(RAW, 0), ends.number, ends.questions) == (0, 1, [question])
    kafka.answers.set()
    wait([question])
    ends.poll()
    assert (ends.end(RAW, 0), ends.number, ends.questions) == (3, 2, [])


def test_cluster_is_asked_for_all_topics_at_once_and_less_often_while_nothing_comes(kafka: MemoryKafka) -> None:
    kafka.create("others", 3)
    others = raw_topic("others")
    assert others.kafka is not None
    clock = Seconds()
    ends = KafkaEnds([raw(kafka), replace(others, partitions=3)], {"main": kafka}, clock)
    ask(ends, clock.now)
    assert (kafka.asked, set(ends.ends)) == (1, {RAW, "kafka:main:others"})
    pauses = []
    for quiet in (0.1, 1.0, 4.0, 60.0):
        clock.now = quiet
        ask(ends, quiet)
        asked_at = clock.now
        while not ends.questions:
            clock.now += 0.01
            ends.poll()
        wait(ends.questions)
        pauses.append(clock.now - asked_at)
        ends.poll()
    assert pauses == pytest.approx([LEAST_SECONDS, 0.1, 0.4, MOST_SECONDS], abs=0.011)  # the step of the clock


def test_silent_cluster_is_told_once_and_the_ends_of_another_one_go_on(kafka: MemoryKafka) -> None:
    other, told = MemoryKafka(), Told()
    other.create("others", 1)
    source = raw_topic("others", "spare")
    clock = Seconds()
    ends = KafkaEnds([raw(kafka), replace(source, partitions=1)], {"main": kafka, "spare": other}, clock)
    ends.poll()
    ends.outages = told
    other.silent = True
    for _ in range(3):
        produced(kafka, 0, 1)
        clock.now += RETRY_SECONDS
        ask(ends, clock.now)
    assert (ends.end(RAW, 0), told.silent, told.begun) == (3, {"spare"}, 3)
    other.silent = False
    clock.now += RETRY_SECONDS
    ask(ends, clock.now)
    assert told.silent == set()


def test_application_without_topics_of_kafka_does_not_ask(applications: Applications, kafka: MemoryKafka) -> None:
    begun(applications, kafka)
    asked = kafka.asked
    reader = Committed(applications.log, READER, kafka={"main": kafka})
    later(reader)
    assert kafka.asked == asked


def test_topic_that_is_replaced_between_two_polls_is_an_error(kafka: MemoryKafka) -> None:
    clock = Seconds()
    ends = KafkaEnds([raw(kafka)], {"main": kafka}, clock)
    produced(kafka, 0, 3)
    ends.poll()
    kafka.delete(NAME)
    kafka.create(NAME, 2)
    clock.now += LEAST_SECONDS
    with pytest.raises(KafkaTopicReplacedError, match="deleted and created again"):
        ask(ends, clock.now)
    produced(kafka, 0, 4)  # its end has not gone back
    clock.now += LEAST_SECONDS
    with pytest.raises(KafkaTopicReplacedError):
        ask(ends, clock.now)
    assert ends.end(RAW, 0) == 3


def test_errors_of_kafka_are_those_of_the_poll(kafka: MemoryKafka) -> None:
    ends = KafkaEnds([raw(kafka)], {"main": kafka})
    kafka.delete(NAME)
    with pytest.raises(HeadwaterError, match=r"Kafka has no topic ops\.flights"):
        ends.poll()


def test_added_partitions_are_told_and_not_read(kafka: MemoryKafka) -> None:
    ends = KafkaEnds([raw(kafka)], {"main": kafka})
    kafka.add_partitions(NAME, 3)
    produced(kafka, 2, 4)
    ends.poll()
    assert ends.added == {RAW: 3}
    assert ends.ends == {RAW: (0, 0)}
    assert ends.lane_ranges(RAW, 2, 0) == ()


# Where it begins.


@pytest.mark.parametrize(
    ("start", "first"),
    [(None, [2, 0]), ("earliest", [2, 0]), ("latest", [6, 3]), ("1970-01-01 00:00:00.105", [5, 3])],
)
def test_copy_begins_where_start_says(
    applications: Applications, kafka: MemoryKafka, start: str | None, first: list[int]
) -> None:
    produced(kafka, 0, 6, 100)
    kafka.delete_records(NAME, 0, 2)
    produced(kafka, 1, 3, 50)
    kafka.begin(NAME, 1, [(b"k", b"v", 110)])  # of an open transaction: behind the end
    assert positions(begun(applications, kafka, start)) == first


def test_added_partitions_begin_at_their_first_records_at_the_next_start(
    applications: Applications, kafka: MemoryKafka
) -> None:
    produced(kafka, 0, 4)
    begun(applications, kafka, "latest")
    kafka.add_partitions(NAME, 4)
    produced(kafka, 2, 5)
    produced(kafka, 3, 5)
    kafka.delete_records(NAME, 3, 2)
    committed = begun(applications, kafka, "latest")
    assert positions(committed, 4) == [4, 0, 0, 2]
    assert committed.own.ends == {RAW: (4, 0, 5, 5)}
    reader = Committed(applications.log, READER)
    lanes = Planner(reader, 10).task(READER.subtopologies[0], 0, {}).inputs[0].lanes
    assert [lane.idle for lane in lanes] == [True, True, False, False]


# What others know.


def test_task_of_the_copy_is_idle_where_it_has_read_all_that_its_driver_has_seen(
    applications: Applications, kafka: MemoryKafka
) -> None:
    produced(kafka, 0, 3)
    committed = begun(applications, kafka)
    reader = Committed(applications.log, READER)

    def idle() -> list[bool]:
        reader.refresh()
        lanes = Planner(reader, 10).task(READER.subtopologies[0], 0, {}).inputs[0].lanes
        return [lane.idle for lane in lanes]

    assert idle() == [False, True]  # at the claimed ends, or not
    assert reader.behind() == (COPY,)
    produced(kafka, 1, 2)
    assert idle() == [False, True]  # nobody has told it
    copied(later(committed), 0, 3)
    assert idle() == [True, False]
    assert reader.unread(TaskKey(COPY, "flights", 1)) == 2
    copied(committed, 1, 2)
    assert idle() == [True, True]
    assert (reader.behind(), reader.empty()) == ((), ())


def test_unread_records_up_to_an_end_count_where_it_stops_at_ends(
    applications: Applications, kafka: MemoryKafka
) -> None:
    produced(kafka, 0, 3)
    committed = begun(applications, kafka)
    committed.stop_at_ends([COPY])
    produced(kafka, 0, 4)
    later(committed)
    assert committed.unread(TaskKey(COPY, "flights", 0)) == 3
    copied(committed, 0, 5)
    assert committed.unread(TaskKey(COPY, "flights", 0)) == 0


def test_topics_of_kafka_have_no_writer_that_a_reader_depends_on(
    applications: Applications, kafka: MemoryKafka
) -> None:
    committed = begun(applications, kafka)
    assert (committed.writers, committed.sources(), committed.empty()) == ((), {}, ())
    assert committed.half_done(copying(kafka)) == frozenset()


def test_copy_without_its_clusters_ends_where_its_driver_has_committed(
    applications: Applications, kafka: MemoryKafka
) -> None:
    produced(kafka, 0, 3)
    begun(applications, kafka)
    committed = Committed(applications.log, copying(kafka))
    assert committed.unread(TaskKey(COPY, "flights", 0)) == 3
    assert committed.of(raw(kafka)).ranges(RAW, 0) == ()


# What Kafka has lost.


def test_records_that_are_gone_before_they_were_read_are_counted_and_have_a_way_out(
    applications: Applications, kafka: MemoryKafka
) -> None:
    produced(kafka, 0, 10)
    committed = begun(applications, kafka)
    copied(committed, 0, 2)
    kafka.delete_records(NAME, 0, 2)
    check_raw_positions(copying(kafka), later(committed))
    kafka.delete_records(NAME, 0, 7)
    with pytest.raises(RawRecordsMissingError, match=r"ops.flights\[0\]: offsets 2 to 6 \(5\) were deleted") as caught:
        check_raw_positions(copying(kafka), later(committed))
    way_out = "headwater rewind kafka --topic flights --partition 0 --to earliest"
    assert caught.value.hint == f"to go on without them: {way_out}"
    (change,) = changes_of(copying(kafka), committed)
    assert (change.verdict, change.kind) == (Verdict.ERROR, "topic.records_missing")


def test_position_behind_the_end_is_an_error(applications: Applications, kafka: MemoryKafka) -> None:
    produced(kafka, 1, 10)
    committed = begun(applications, kafka)
    copied(committed, 1, 8)
    kafka.lose(NAME, 1, 8)
    check_raw_positions(copying(kafka), later(committed))
    kafka.lose(NAME, 1, 7)
    with pytest.raises(RawRecordsMissingError, match=r"ops.flights\[1\]: read up to offset 8, and it ends at 7"):
        check_raw_positions(copying(kafka), later(committed))


# Changes between two starts.


def test_topic_that_was_created_again_is_an_error_with_ways_out(applications: Applications, kafka: MemoryKafka) -> None:
    produced(kafka, 0, 3)
    copied(begun(applications, kafka), 0, 3)
    kafka.delete(NAME)
    kafka.create(NAME, 2)
    produced(kafka, 0, 5)
    committed = Committed(applications.log, copying(kafka), kafka={"main": kafka})
    (change,) = changes_of(copying(kafka), committed)
    assert (change.verdict, change.kind) == (Verdict.ERROR, "topic.kafka_replaced")
    assert [way.command for way in change.ways] == [
        "headwater rewind kafka --topic flights --to earliest",
        "headwater run --full-refresh --select 'kafka+'",
    ]


def test_position_stays_if_start_changes_and_the_plan_says_how_to_move_it(
    applications: Applications, kafka: MemoryKafka
) -> None:
    produced(kafka, 0, 3)
    copied(begun(applications, kafka), 0, 3)
    declared = copying(kafka, "latest")
    (change,) = changes_of(declared, Committed(applications.log, declared, kafka={"main": kafka}))
    assert (change.verdict, change.kind) == (Verdict.COMPATIBLE, "topic.start")
    assert [way.command for way in change.ways] == ["headwater rewind kafka --topic flights --to latest"]


def test_more_partitions_are_compatible_and_fewer_are_not(applications: Applications, kafka: MemoryKafka) -> None:
    produced(kafka, 0, 3)
    copied(begun(applications, kafka), 0, 3)
    declared = copying(kafka)
    kafka.add_partitions(NAME, 5)
    committed = Committed(applications.log, copying(kafka), kafka={"main": kafka})
    (change,) = changes_of(copying(kafka), committed)
    assert (change.verdict, change.kind) == (Verdict.COMPATIBLE, "topic.kafka_partitions")
    copied(begun(applications, kafka), 0, 3)
    (change,) = changes_of(declared, Committed(applications.log, declared, kafka={"main": kafka}))
    assert change.verdict is Verdict.ERROR
