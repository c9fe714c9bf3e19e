"""What readers make of a copied topic does not hang on how it was copied: on epochs, units, commits, restarts."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from headwater.runtime.driver.events import ApplicationStarted, EpochCommitted, Event
from headwater.runtime.driver.failures import Outages
from headwater.runtime.driver.results import RunResults
from headwater.runtime.driver.runs import failed_start
from headwater.runtime.driver.service_events import ServiceAvailable, ServiceUnavailable
from headwater.runtime.task_id import TaskKey
from headwater.tests.runtime.local.kafka_project import COPY, NAME, RAW, READER, KafkaProject, message
from headwater.tests.runtime.local.local_application import WHOLE
from headwater.tests.runtime.local.memory_kafka import KafkaCluster, Message

KEYS = "abcdef"
BAD = len(KEYS)
"""In place of a key: a record that cannot be decoded. It is skipped, and its own time counts nowhere."""

Batch = tuple[int, bool, list[tuple[int, int]]]
"""Partition, whether in a transaction, and (key, time) of its records. Their own times in Kafka are others."""

Phase = list[Batch]
"""What is produced while nothing is read of it. The next phase begins when all of this one was copied and read."""


def random_phases(chances: random.Random) -> list[Phase]:
    def batch() -> Batch:
        records = [(chances.randrange(BAD + 1), chances.randrange(41)) for _ in range(chances.randrange(1, 6))]
        return chances.randrange(3), chances.random() < 0.5, records

    return [[batch() for _ in range(chances.randrange(1, 7))] for _ in range(chances.randrange(1, 4))]


class Producer:
    """Produces phases, each a number of batches. Every value is another one."""

    def __init__(self, project: KafkaProject, phases: Sequence[Phase]) -> None:
        self._project = project
        self._left = [list(phase) for phase in phases]
        self._now: list[Batch] = []
        self._count = 0

    def next_phase(self) -> bool:
        """Begin the next phase. Whether there was one."""
        if self._left:
            self._now = self._left.pop(0)
        return bool(self._now)

    def next_batch(self) -> bool:
        """Produce the next batch of the phase. Whether there was one."""
        if not self._now:
            return False
        partition, in_transaction, records = self._now.pop(0)
        kafka = self._project.kafka
        produce = kafka.produce_in_transaction if in_transaction else kafka.produce
        partitions = len(kafka.topics[NAME].partitions)
        produce(NAME, partition % partitions, [self._message(key, time) for key, time in records])
        return True

    @property
    def left(self) -> int:
        """The number of batches of the phase that are not produced yet."""
        return len(self._now)

    def whole_phase(self) -> bool:
        """Produce all of the next phase. Whether there was one."""
        if not self.next_phase():
            return False
        while self.next_batch():
            pass
        return True

    def _message(self, key: int, time: int) -> Message:
        self._count += 1
        return (b"k", b"{", 1000) if key == BAD else message(KEYS[key], str(self._count), time, 100 - time)


@contextmanager
def projects(partitions: int, ours: int) -> Iterator[tuple[KafkaProject, KafkaProject]]:
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        yield KafkaProject(Path(one), partitions, ours), KafkaProject(Path(other), partitions, ours)


def copied_at_once(project: KafkaProject, phases: Sequence[Phase]) -> list[list[tuple]]:
    """The result where every phase is one epoch of the copy and one of the reader."""
    producer = Producer(project, phases)
    while producer.whole_phase():
        project.run_copy()
        project.run_reader()
        assert not project.lag()
    return project.read(project.counts)


SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
def test_result_does_not_hang_on_epochs_units_and_restarts(seed: int) -> None:
    chances = random.Random(seed)
    phases = random_phases(chances)
    with projects(chances.randrange(1, 4), chances.randrange(1, 4)) as (plain, cut):
        expected = copied_at_once(plain, phases)
        producer = Producer(cut, phases)
        while producer.whole_phase():
            cut.run_randomly(chances)
        assert cut.read(cut.counts) == expected


class ReadsBetween:
    """An observer of the copy. At its commits, the next batch is produced, or what is copied is read. A reader does not
    look before the copy knows of the whole phase, and the next phase begins once all of it is read.
    """

    def __init__(self, project: KafkaProject, producer: Producer, chances: random.Random) -> None:
        self._project = project
        self._producer = producer
        self._chances = chances
        self.stop = threading.Event()

    def begin(self) -> None:
        self._producer.next_phase()
        self._producer.next_batch()

    def on(self, event: Event) -> None:
        if not isinstance(event, EpochCommitted):
            return
        state, ends = self._project.state(), tuple(each.stable for each in self._project.kafka.topics[NAME].partitions)
        at = [state.tasks.last_commit(TaskKey(COPY, "flights", number)).positions for number in range(len(ends))]
        copied = tuple(positions[RAW][0] for positions in at) == ends
        if (copied or self._chances.random() < 0.5) and self._producer.next_batch():
            return
        if not self._producer.left and state.ends[RAW] == ends and self._chances.random() < 0.7:
            self._project.run_reader(max_records=self._chances.choice([1, 3, WHOLE]))
        if copied:
            self._project.run_reader()
            assert not self._project.lag()
            if self._producer.next_phase():
                self._producer.next_batch()
            else:
                self.stop.set()


@pytest.mark.parametrize("seed", SEEDS)
def test_result_does_not_hang_on_when_the_reader_looks_while_the_copy_runs(seed: int) -> None:
    chances = random.Random(seed)
    phases = random_phases(chances)
    with projects(chances.randrange(1, 4), chances.randrange(1, 4)) as (plain, watched):
        expected = copied_at_once(plain, phases)
        observer = ReadsBetween(watched, Producer(watched, phases), chances)
        observer.begin()
        (result,) = watched.attempt(
            [watched.copy],
            watched.settings(chances.choice([1, 2, 5, WHOLE]), chances.randrange(1, 4)),
            KafkaCluster(chances.randrange(1, 3)),
            observer,
            stop=observer.stop,
            until_caught_up=False,
            held=lambda _: chances.random() < 0.3,
        ).applications
        assert result.error is None
        assert watched.read(watched.counts) == expected


class ProducesOnce:
    """An observer that produces records after the first commit of a copy, and stops it after the second one."""

    def __init__(self, project: KafkaProject) -> None:
        self._project = project
        self.commits = 0
        self.stop = threading.Event()

    def on(self, event: Event) -> None:
        if isinstance(event, EpochCommitted):
            self.commits += 1
            if self.commits == 1:
                self._project.produce(0, message("a", "1", 50))
                self._project.produce(1, message("a", "2", 40))
            else:
                self.stop.set()

    def holds(self, task: TaskKey) -> bool:
        return self.commits > 0 and task.partition == 1


def test_first_commit_after_a_pause_tells_how_far_all_partitions_go(tmp_path: Path) -> None:
    """So a reader waits for the others, though their tasks have not committed yet."""
    project = KafkaProject(tmp_path, partitions=2, ours=1)
    project.produce(0, message("a", "0", 0))
    observer = ProducesOnce(project)
    project.attempt([project.copy], observer=observer, stop=observer.stop, held=observer.holds, until_caught_up=False)
    assert project.state().ends == {RAW: (2, 1)}
    assert project.run_reader().waiting == 2
    project.run_copy()
    project.run_reader()
    assert [row[-1] for row in project.read(project.counts)[0]] == [0, 40, 50]


class Outage:
    """An observer under which the cluster falls silent after the first commit, until that is reported."""

    def __init__(self, project: KafkaProject) -> None:
        self._project = project
        self.kinds: list[type[Event]] = []
        self.stop = threading.Event()

    def on(self, event: Event) -> None:
        kafka = self._project.kafka
        self.kinds.append(type(event))
        if isinstance(event, EpochCommitted) and self.kinds.count(EpochCommitted) == 1:
            kafka.silent = True
            self._project.produce(0, (b"b", b"2", 2))
        elif isinstance(event, EpochCommitted):
            self.stop.set()
        elif isinstance(event, ServiceUnavailable):
            kafka.silent = False


def test_lasting_run_waits_for_a_cluster_that_does_not_answer(tmp_path: Path) -> None:
    project = KafkaProject(tmp_path)
    project.produce(0, (b"a", b"1", 1))
    outage = Outage(project)
    options = {"observer": outage, "stop": outage.stop, "until_caught_up": False}
    (result,) = project.attempt([project.copy], **options).applications
    assert (result.status, result.records, result.error) == ("interrupted", 2, None)
    seen = [kind for kind in outage.kinds if kind in (EpochCommitted, ServiceUnavailable, ServiceAvailable)]
    assert seen == [EpochCommitted, ServiceUnavailable, ServiceAvailable, EpochCommitted]


class Hangs:
    """An observer under which the cluster answers nothing more after the first commit, and the run is stopped."""

    def __init__(self, project: KafkaProject) -> None:
        self._kafka = project.kafka
        self.stop = threading.Event()

    def on(self, event: Event) -> None:
        if isinstance(event, EpochCommitted):
            self._kafka.answers = threading.Event()
            self.stop.set()


def test_lasting_run_is_stopped_while_a_cluster_does_not_answer(tmp_path: Path) -> None:
    """With a question open that is never answered."""
    project = KafkaProject(tmp_path)
    project.produce(0, (b"a", b"1", 1))
    hangs = Hangs(project)
    (result,) = project.attempt([project.copy], observer=hangs, stop=hangs.stop, until_caught_up=False).applications
    assert (result.status, result.records, result.error) == ("interrupted", 1, None)


def test_outage_is_over_once_the_driver_and_all_tasks_are_answered() -> None:
    kinds = Kinds()
    outages = Outages(COPY, kinds)
    task = TaskKey(COPY, "flights", 0)
    outages.begin("main", "no broker answers")
    outages.begin(task, "no broker answers")
    outages.end("main")
    outages.end(TaskKey(COPY, "flights", 1))  # it has never waited
    outages.begin("main", "no broker answers")
    assert kinds.seen == [ServiceUnavailable]
    outages.end("main")
    outages.end(task)
    assert kinds.seen == [ServiceUnavailable, ServiceAvailable]


class Returns:
    """An observer under which the cluster answers once its silence is told, and all others have started. It ends the
    run when the reader has read `records`.
    """

    def __init__(self, project: KafkaProject, records: int, *others: str) -> None:
        self._kafka = project.kafka
        self._records = records
        self._missing = {COPY, *others}
        self.stop = threading.Event()
        self.seen: list[Event] = []

    def on(self, event: Event) -> None:
        self.seen.append(event)
        if isinstance(event, ServiceUnavailable | ApplicationStarted):
            self._missing.discard(event.application)
            self._kafka.silent = self._kafka.silent and bool(self._missing)
        read = [each for each in self.seen if isinstance(each, EpochCommitted) and each.application != COPY]
        if sum(each.records for each in read) == self._records:
            self.stop.set()

    def of(self, *kinds: type[Event]) -> list[tuple[str, type[Event]]]:
        return [(event.application, type(event)) for event in self.seen if isinstance(event, kinds)]


def test_start_without_kafka_waits_and_holds_up_nothing_else(tmp_path: Path) -> None:
    project = KafkaProject(tmp_path)
    project.produce(0, message("a", "1", 1))
    project.kafka.silent = True
    watched = Returns(project, 1, READER)
    options = {"observer": watched, "stop": watched.stop, "until_caught_up": False}
    copy, reader = project.attempt([project.copy, project.reader], **options).applications
    assert [(each.application, each.status, each.records) for each in (copy, reader)] == [
        (COPY, "interrupted", 1),
        (READER, "interrupted", 1),
    ]
    assert watched.of(ServiceUnavailable, ServiceAvailable) == [(COPY, ServiceUnavailable), (COPY, ServiceAvailable)]


@pytest.mark.parametrize("question", [1, 2, 3])
def test_outage_while_the_copy_starts_is_waited_for(tmp_path: Path, question: int) -> None:
    """The run asks for the partitions, then for what has changed, then the application asks for its ends."""
    project = KafkaProject(tmp_path)
    project.produce(0, message("a", "1", 1))
    project.kafka.unanswered = question
    watched = Returns(project, 1)
    options = {"observer": watched, "stop": watched.stop, "until_caught_up": False}
    copy, _ = project.attempt([project.copy, project.reader], **options).applications
    assert (copy.status, copy.error, copy.records) == ("interrupted", None, 1)
    silent = [] if question == 2 else [(COPY, ServiceUnavailable), (COPY, ServiceAvailable)]
    assert watched.of(ServiceUnavailable, ServiceAvailable) == silent


def test_run_until_caught_up_without_kafka_runs_what_does_not_need_it(tmp_path: Path) -> None:
    project = KafkaProject(tmp_path)
    project.produce(0, message("a", "1", 1))
    project.run_copy()
    project.kafka.silent = True
    copy, reader = project.attempt([project.copy, project.reader]).applications
    assert (copy.status, copy.error) == ("failed", "Kafka does not answer")
    assert (reader.status, reader.records) == ("caught_up", 1)


def test_copy_alone_fails_before_a_cluster_is_started_only_if_it_would_not_wait(tmp_path: Path) -> None:
    project = KafkaProject(tmp_path)
    project.kafka.silent = True

    def refused(until_caught_up: bool) -> RunResults | None:
        kafka = {"main": project.kafka}
        return failed_start([project.copy], project.settings(), None, until_caught_up=until_caught_up, kafka=kafka)

    assert refused(until_caught_up=False) is None
    results = refused(until_caught_up=True)
    assert results is not None
    assert [(each.application, each.error) for each in results.applications] == [(COPY, "Kafka does not answer")]


def test_start_that_waits_for_kafka_can_be_stopped(tmp_path: Path) -> None:
    project = KafkaProject(tmp_path)
    project.kafka.answers = threading.Event()
    stop = threading.Event()
    stop.set()
    copy, reader = project.attempt([project.copy, project.reader], stop=stop, until_caught_up=False).applications
    assert [copy.status, reader.status] == ["not_started", "not_started"]


@pytest.mark.parametrize("read", range(2, 6))
def test_outage_in_the_search_for_a_failing_record_is_waited_for(tmp_path: Path, read: int) -> None:
    """The epoch reads the records, then the search reads them again."""
    project = KafkaProject(tmp_path, partitions=1, ours=1, on_error="dead_letter")
    project.produce(0, message("a", "1", 1), (b"k", b"{", 2), message("a", "2", 3))
    project.kafka.falls_silent_at = read
    watched = Returns(project, 2)
    options = {"observer": watched, "stop": watched.stop, "until_caught_up": False}
    copy, _ = project.attempt([project.copy, project.reader], **options).applications
    assert (copy.status, copy.error, copy.records) == ("interrupted", None, 3)
    assert [row[1] for row in project.read(project.flights)[0]] == ["1", "2"]
    assert len(project.read(project.letters)[0]) == 1
    assert project.kafka.reads >= read


class Kinds:
    """An observer that keeps the kinds of events."""

    def __init__(self) -> None:
        self.seen: list[type[Event]] = []

    def on(self, event: Event) -> None:
        self.seen.append(type(event))


def test_run_until_caught_up_ends_with_the_outage(tmp_path: Path) -> None:
    project = KafkaProject(tmp_path)
    project.produce(0, (b"a", b"1", 1), (b"a", b"1", 2))
    (result,) = project.attempt([project.copy], project.settings(max_records=1), observer=Outage(project)).applications
    assert (result.status, result.records) == ("failed", 1)
    assert "Kafka does not answer" in str(result.error)


def test_dead_letters_of_all_partitions_in_kafka_are_in_ours(tmp_path: Path) -> None:
    project = KafkaProject(tmp_path, partitions=5, ours=2, on_error="dead_letter")
    for partition in range(5):
        project.produce(partition, message("a", str(partition), 10), (b"k", b"{", 20))

    project.run_copy()

    letters = [[letter[1] for letter in partition] for partition in project.read(project.letters)]
    assert [sorted(partition) for partition in letters] == [[0, 2, 4], [1, 3]]


def test_record_without_a_time_in_kafka_has_that_of_its_column(tmp_path: Path) -> None:
    project = KafkaProject(tmp_path, ours=1, on_error="fail")
    project.produce(0, message("a", "1", 10, own=-1))
    project.run_copy()
    assert [row[-1] for row in project.read(project.flights)[0]] == [10]


def test_order_of_dead_letters_never_falls(tmp_path: Path) -> None:
    """Their own times in Kafka, of which the first is the latest, count nowhere."""
    project = KafkaProject(tmp_path, partitions=1, ours=1, on_error="dead_letter")
    project.produce(0, (b"k", b"{", 5000), message("a", "1", 10), (b"k", b"{", 100))
    project.run_copy(max_records=1)
    (letters,) = [project.state().ranges(project.letters.name, 0)]
    order = [
        at for within in letters for fetched in project.log.read(within) for at in fetched.records["_order"].to_pylist()
    ]
    assert order == [-1, 10]
