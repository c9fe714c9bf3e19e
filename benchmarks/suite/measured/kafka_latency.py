"""From a record in Kafka to the updated count there, beside Kafka Streams: both at once, on the same records."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Producer

from headwater.tests.kafka.broker import KafkaBroker, kafka_broker
from headwater.tests.kafka.interop import jvm

from ..bench import Bench
from ..measurement import Measurement, rounded
from ..other_work import OtherWork
from ..sides.kafka import write_project
from ..sides.process import ROOT
from .kafka import BROKER, JAVA, PARTITIONS, SIDE

COMMIT_MS = 100
RATE, WARM_UP_SECONDS, SECONDS = 1_000, 10, 20
KEYS = 1_000
TICK_SECONDS = 0.01
WANTED_TIMES = 1.5


@dataclass
class Arrivals:
    """When a consumer of committed records first has a count of each key that is high enough."""

    servers: str
    topic: str
    ended: threading.Event
    times: dict[tuple[str, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._consume, daemon=True)
        self._thread.start()

    def _consume(self) -> None:
        settings = {"bootstrap.servers": self.servers, "group.id": self.topic, "auto.offset.reset": "earliest"}
        consumer = Consumer({**settings, "isolation.level": "read_committed", "log_level": 0})
        consumer.subscribe([self.topic])
        last: dict[str, int] = {}
        while not self.ended.is_set():
            message = consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            now, key = time.perf_counter(), (message.key() or b"").decode()
            count = json.loads(message.value() or b"{}")["readings"]
            for number in range(last.get(key, 0) + 1, count + 1):
                self.times[key, number] = now
            last[key] = count
        consumer.close()


def kafka_latency(bench: Bench) -> Iterator[Measurement]:
    """The milliseconds of each record; the median of both, and the 99th of a hundred."""
    with kafka_broker(bench.folder("broker"), BROKER) as broker:
        names = {name: broker.topic(PARTITIONS) for name in ("readings", "totals")}
        theirs = broker.topic(PARTITIONS)
        root = bench.folder("ours-kafka")
        write_project(root, "counts", PARTITIONS, {"servers": broker.bootstrap, **names}, COMMIT_MS)
        ours = subprocess.Popen([sys.executable, "-m", SIDE, str(root), "kafka", "all", "forever"], cwd=ROOT)
        try:
            with jvm(broker, bench.folder("kafka-streams"), JAVA) as java, OtherWork() as others:
                java("start", "totals", names["readings"], theirs, str(COMMIT_MS))
                taken = _taken(broker, names["readings"], names["totals"], theirs)
        finally:
            ours.kill()
            ours.wait()
    half, high = ({side: _percentile(found, of) for side, found in taken.items()} for of in (50, 99))
    found = Measurement(
        "kafka_latency",
        "ms",
        half["ours"],
        half["peer"],
        round(half["ours"] / half["peer"], 2),
        WANTED_TIMES,
        at_most=True,
        note=f"From before a record is produced until a consumer of committed records has its count: medians. Of 100 "
        f"records 99 took at most {high['ours']:g} ms, with Kafka Streams {high['peer']:g} ms. Both run at once, on "
        f"the same {RATE:,} records a second for {SECONDS} s, and commit every {COMMIT_MS} ms.",
    )
    yield bench.judged(found, others)


def _taken(broker: KafkaBroker, source: str, ours: str, theirs: str) -> dict[str, list[float]]:
    """Seconds of each record but those of the warm-up."""
    ended = threading.Event()
    arrivals = {"ours": Arrivals(broker.bootstrap, ours, ended), "peer": Arrivals(broker.bootstrap, theirs, ended)}
    settings = {"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random", "linger.ms": 1}
    producer = Producer(settings)
    produced: dict[tuple[str, int], float] = {}
    for first, last in ((0, RATE * WARM_UP_SECONDS), (RATE * WARM_UP_SECONDS, RATE * (WARM_UP_SECONDS + SECONDS))):
        begun = time.perf_counter()
        for number in range(first, last):
            while number - first > (time.perf_counter() - begun) * RATE:
                producer.poll(TICK_SECONDS)
            key = f"sensor-{number % KEYS:04}"
            produced[key, number // KEYS + 1] = time.perf_counter()
            producer.produce(source, json.dumps({"n": number, "degrees": 21.5, "note": "x" * 56}), key)
        producer.flush()
        while any(len(each.times) < len(produced) for each in arrivals.values()):
            time.sleep(TICK_SECONDS)
    ended.set()
    measured = list(produced)[RATE * WARM_UP_SECONDS :]
    return {side: [each.times[key] - produced[key] for key in measured] for side, each in arrivals.items()}


def _percentile(seconds: list[float], of: int) -> float:
    return rounded(1000 * statistics.quantiles(seconds, n=100)[of - 1])
