"""Processes that are killed or suspended while they copy from Kafka and back: each record is there once, in order."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headwater.runtime.driver.events import Event
from headwater.runtime.driver.results import ApplicationResult
from headwater.runtime.driver.service_events import ServiceAvailable, ServiceUnavailable
from headwater.tests.kafka.broker import KafkaBroker, kafka_broker, restarted
from headwater.tests.kafka.copying import PARTITIONS, Copying, produced, read_all
from headwater.tests.waiting import wait_until

pytestmark = pytest.mark.kafka

SOURCES, TARGETS, KEYS = 3, 3, 50


class Feeding(threading.Thread):
    """Produces numbers for each key, in transactions of which a third is aborted, until it is told to end.

    After each five of them it waits for a commit in the log.
    """

    def __init__(self, copying: Copying, seed: int) -> None:
        super().__init__()
        self._copying = copying
        self._topic = copying.source
        settings = {"bootstrap.servers": copying.broker.bootstrap, "transactional.id": copying.source}
        self._producer = Producer(settings)
        self._random = random.Random(seed)
        self.ended = threading.Event()
        self.committed: dict[str, int] = {}

    def run(self) -> None:
        self._producer.init_transactions()
        for number in itertools.count():
            if self.ended.is_set():
                return
            if number % 5 == 0:
                before = self._copying.commits
                wait_until(lambda before=before: self._copying.commits != before or self.ended.is_set())
            aborts, counts = self._random.random() < 1 / 3, dict(self.committed)
            self._producer.begin_transaction()
            for _ in range(self._random.randint(1, 200)):
                key = f"k{self._random.randrange(KEYS)}"
                number = counts[key] = counts.get(key, 0) + 1
                value = json.dumps({"n": -number if aborts else number}).encode()
                self._producer.produce(self._topic, value, key, timestamp=number)
            if aborts:
                self._producer.flush()
                self._producer.abort_transaction()
            else:
                self._producer.commit_transaction()
                self.committed = counts


def started(copying: Copying, machine: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-m", "headwater.tests.kafka.copying", copying.broker.bootstrap, copying.root]
    return subprocess.Popen([*program, copying.source, copying.target, machine], stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("kills", "seed"),
    [(5, 1), pytest.param(50, 2, marks=pytest.mark.soak), pytest.param(50, 3, marks=pytest.mark.soak)],
)
def test_each_record_is_there_once_and_in_order(kafka: KafkaBroker, tmp_path: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    copying = Copying(kafka, tmp_path, kafka.topic(SOURCES), kafka.topic(TARGETS))
    feeding = Feeding(copying, seed)
    feeding.start()
    suspended: list[subprocess.Popen[str]] = []
    try:
        for kill in range(kills):
            wanted = copying.commits + chance.randrange(1, 12)
            process = started(copying, f"machine-{kill}")
            wait_until(
                lambda wanted=wanted: copying.commits >= wanted,
                lambda process=process: process.poll() is None,
                process.communicate,
            )
            if kill % 5 == 1:  # it wakes up beside its successor
                process.send_signal(signal.SIGSTOP)
                suspended.append(process)
            else:
                process.kill()
                process.wait()
            if kill % 5 == 3:
                for twin in suspended:
                    twin.send_signal(signal.SIGCONT)
    finally:
        feeding.ended.set()
        feeding.join()
        for twin in suspended:
            twin.kill()
            twin.wait()
    results = copying.run()
    assert [(result.status, result.error) for result in results] == [("caught_up", None)] * 2

    wanted = {key: list(range(1, count + 1)) for key, count in feeding.committed.items()}
    copied: dict[str, list[int]] = {}
    for record in copying.copied():
        assert record.key is not None
        assert record.value is not None
        copied.setdefault(record.key["word"], []).append(record.value["n"])
    assert copied == wanted
    mirrored: dict[str, list[int]] = {}
    for partition in read_all(kafka, copying.target, TARGETS):
        for message in partition:
            mirrored.setdefault(message.key().decode(), []).append(json.loads(message.value())["n"])
    assert mirrored == wanted
    assert {record.partition for record in copying.copied()} == set(range(PARTITIONS))


class Events:
    """An observer that keeps the kinds of all events."""

    def __init__(self) -> None:
        self.kinds: list[type[Event]] = []

    def on(self, event: Event) -> None:
        self.kinds.append(type(event))


@pytest.mark.soak
def test_lasting_run_waits_for_a_broker_that_does_not_answer(tmp_path: Path) -> None:
    with kafka_broker(tmp_path / "kafka") as broker:
        copying = Copying(broker, tmp_path, broker.topic(SOURCES), broker.topic(TARGETS))
        events, stop = Events(), threading.Event()
        options = {"until_caught_up": False, "observer": events, "stop": stop}
        run = threading.Thread(target=copying.run, kwargs=options)
        run.start()
        try:
            produced(broker, copying.source, [("a", {"n": 1})])
            wait_until(lambda: len(copying.copied()) == 1)
            os.kill(broker.pid, signal.SIGSTOP)
            wait_until(lambda: ServiceUnavailable in events.kinds)
            os.kill(broker.pid, signal.SIGCONT)
            produced(broker, copying.source, [("a", {"n": 2})])
            wait_until(lambda: len(copying.copied()) == 2)
            assert ServiceAvailable in events.kinds
        finally:
            stop.set()
            run.join()
        copying.run()
        values = [message.value() for messages in read_all(broker, copying.target, TARGETS) for message in messages]
        assert values == [b'{"n":1}', b'{"n":2}']


def test_lasting_run_goes_on_with_a_broker_that_was_killed_and_restarted(tmp_path: Path) -> None:
    """Its clients have to find the coordinators of groups again."""
    with kafka_broker(tmp_path / "kafka") as broker:
        copying = Copying(broker, tmp_path, broker.topic(SOURCES), broker.topic(TARGETS))
        stop, results = threading.Event(), list[ApplicationResult]()
        run = threading.Thread(target=lambda: results.extend(copying.run(until_caught_up=False, stop=stop)))
        run.start()

        def mirrored() -> list[bytes | None]:
            return [message.value() for messages in read_all(broker, copying.target, TARGETS) for message in messages]

        try:
            produced(broker, copying.source, [("a", {"n": 1})])
            wait_until(lambda: len(mirrored()) == 1)
            with restarted(tmp_path / "kafka", broker):
                produced(broker, copying.source, [("a", {"n": 2})])
                wait_until(lambda: len(mirrored()) == 2)
                stop.set()
                run.join()
        finally:
            stop.set()
            run.join()
    assert [(result.status, result.error) for result in results] == [("interrupted", None)] * 2
