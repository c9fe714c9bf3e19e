"""Topics of a real broker: what they cost, by processor time, beside Kafka Streams on the same broker.

Turns are told by processor time, so a busy machine gives them, too.
"""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psutil
from confluent_kafka import Producer

from headwater import Project
from headwater.tests.kafka.broker import KafkaBroker, kafka_broker
from headwater.tests.kafka.interop import jvm

from ..bench import Bench
from ..measurement import Measurement, rounded
from ..sides.kafka import MEASURE, PREPARE, write_project
from ..sides.process import Side, processor_seconds
from .memory import Peak

SIDE = "headwater.benchmarks.suite.sides.kafka"
PARTITIONS, MANY = 4, 64
RECORDS, KEYS = 400_000, 100_000
COMMIT_MS = 500
WARM_UP, MEASURED = 3, 3
JAVA, BROKER = ("java", "-Xms512m", "-Xmx2g"), ("java", "-Xms256m", "-Xmx512m")
"""All of Java's compilers, unlike in tests: they may get as fast as they can."""

_NOTE = (
    f"{RECORDS:,} records of 100 bytes of JSON and {KEYS:,} keys in {PARTITIONS} partitions, in one process without "
    "Spark. "
)


def kafka_copy(bench: Bench) -> Iterator[Measurement]:
    """A topic in Kafka to typed columns in our log."""
    yield _alone(bench, "kafka_copy", None, "kafka", 0.5e6)


def kafka_out(bench: Bench) -> Iterator[Measurement]:
    """A topic of our log to Kafka, in transactions."""
    yield _alone(bench, "kafka_out", "copies", "kafka-out", 0.6e6)


def kafka_count(bench: Bench) -> Iterator[Measurement]:
    """A topic in Kafka to a topic of counts there, exactly once, beside Kafka Streams."""
    runs: dict[str, list[float]] = {"ours": [], "peer": [], "ours, broker": [], "peer, broker": []}
    with _broker(bench) as broker, ExitStack() as stack:
        names = _topics(broker, PARTITIONS, "totals")
        side = stack.enter_context(_side(bench, broker, "counts", names, "all"))
        java = stack.enter_context(jvm(broker, bench.folder("kafka-streams"), JAVA))
        theirs = broker.topic(PARTITIONS)
        for number in range(WARM_UP + MEASURED):
            _produce(broker, names["readings"], RECORDS, number)
            with _Processor(broker.pid) as at_broker:
                turn = side.take(MEASURE)
            with _Processor(broker.pid) as at_broker_too, _Processor(java.pid) as of_peer:
                java("totals", "totals", names["readings"], theirs, str(COMMIT_MS))
            each = (turn.cpu, of_peer.seconds, at_broker.seconds, at_broker_too.seconds)
            for seconds, found in zip(each, runs.values(), strict=True):
                found.append(seconds)
    cpu = {side: round(statistics.median(found[WARM_UP:]), 2) for side, found in runs.items()}
    rates = {
        side: [RECORDS / sum(each) for each in list(zip(runs[side], runs[f"{side}, broker"], strict=True))[WARM_UP:]]
        for side in ("ours", "peer")
    }
    yield Measurement.from_runs(
        "kafka_count",
        "records/s",
        rates,
        ratio=round(statistics.median(rates["ours"]) / statistics.median(rates["peer"]), 2),
        target=2,
        cpu=cpu,
        note=f"{_NOTE}The broker's time counts too: Headwater took {cpu['ours']} s and the broker "
        f"{cpu['ours, broker']} s, Kafka Streams {cpu['peer']} s and the broker {cpu['peer, broker']} s. Kafka Streams "
        f"4.4.0 has `exactly_once_v2`, two threads, RocksDB, a cache for all keys, and a commit every {COMMIT_MS} ms. "
        "Headwater commits a backlog in larger epochs, so it writes fewer updates of a key. Both begin anew in each "
        "turn, Kafka Streams in a JVM that stays.",
    )


def kafka_memory(bench: Bench) -> Iterator[Measurement]:
    """The highest memory of a run that reads 64 partitions of Kafka, beside the same run without Kafka."""
    peaks: dict[str, list[float]] = {"kafka": [], "local": []}
    with _broker(bench) as broker:
        names = _topics(broker, MANY, "totals")
        _produce(broker, names["readings"], RECORDS, 0)
        for number in range(MEASURED):
            root = bench.folder(f"kafka-memory-{number}")
            write_project(root, "counts", MANY, {"servers": broker.bootstrap, **names})
            Project(root, target="local").append("readings", _rows(RECORDS, 0))
            for target, found in peaks.items():
                with Side(SIDE, str(root), target, "all") as side, Peak(side.pid) as peak:
                    side.take(MEASURE)
                found.append(peak.bytes / 2**20)
            names["totals"] = broker.topic(MANY)
    most, without = (statistics.median(peaks[target]) for target in ("kafka", "local"))
    yield Measurement(
        "kafka_memory",
        "MiB",
        rounded(most),
        None,
        round(most - without),
        300,
        {target: [rounded(each) for each in found] for target, found in peaks.items()},
        at_most=True,
        note=f"The most that a process without Spark held while it copied {RECORDS:,} records of {MANY} partitions, "
        f"counted them and wrote the counts; the ratio is the difference to the same run without Kafka, in MiB. "
        f"Medians of {MEASURED} runs.",
    )


def _alone(bench: Bench, name: str, topology: str | None, measured: str, wanted: float) -> Measurement:
    """One of the applications that copy, by itself; its ratio is to what is wanted."""
    runs: list[float] = []
    with _broker(bench) as broker:
        names = _topics(broker, PARTITIONS, "copied")
        with _side(bench, broker, topology, names, measured) as side:
            for number in range(WARM_UP + MEASURED):
                _produce(broker, names["readings"], RECORDS, number)
                side.take(PREPARE)
                runs.append(RECORDS / side.take(MEASURE).cpu)
    median = statistics.median(runs[WARM_UP:])
    return Measurement.from_runs(
        name,
        "records/s",
        {"ours": runs[WARM_UP:]},
        ratio=round(median / wanted, 2),
        target=1,
        note=_NOTE + f"The broker's time does not count. The ratio is to {wanted:,.0f} records a second and core.",
    )


class _Processor:
    """The seconds of processor time that processes have used in its `with` block."""

    def __init__(self, *pids: int) -> None:
        self.seconds = 0.0
        self._processes = [psutil.Process(pid) for pid in pids]

    def __enter__(self) -> _Processor:
        self.seconds = -sum(map(processor_seconds, self._processes))
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += sum(map(processor_seconds, self._processes))


@contextmanager
def _broker(bench: Bench) -> Iterator[KafkaBroker]:
    with kafka_broker(bench.folder("broker"), BROKER) as broker:
        yield broker


def _topics(broker: KafkaBroker, partitions: int, target: str) -> dict[str, str]:
    return {name: broker.topic(partitions) for name in ("readings", target)}


def _side(bench: Bench, broker: KafkaBroker, topology: str | None, names: dict[str, str], measured: str) -> Side:
    root = bench.folder("ours-kafka")
    write_project(root, topology, PARTITIONS, {"servers": broker.bootstrap, **names})
    return Side(SIDE, str(root), "kafka", measured)


def _rows(count: int, seed: int) -> Iterator[dict[str, object]]:
    """Readings of about 100 bytes of JSON."""
    chance = random.Random(seed)
    for number in range(count):
        key = f"sensor-{chance.randrange(KEYS):06}"
        yield {"sensor": key, "n": number, "degrees": chance.randrange(-200, 400) / 10, "note": "x" * 56}


def _produce(broker: KafkaBroker, topic: str, count: int, seed: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "partitioner": "murmur2_random",
            "compression.type": "lz4",
            "linger.ms": 50,
            "queue.buffering.max.messages": count,
        }
    )
    for row in _rows(count, seed):
        key = row.pop("sensor")
        assert isinstance(key, str)
        producer.produce(topic, json.dumps(row).encode(), key)
    producer.flush()
