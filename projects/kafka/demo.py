"""`make demo-kafka`: flights go into a Kafka broker, their delays come out of it, and Kafka's own tools show both.

The broker, a copy of the project, its log and its state are in a temporary folder.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

from headwater.tests.kafka.broker import KafkaBroker, kafka_broker
from headwater.tests.kafka.jars import missing

PROJECT = Path(__file__).parent
PARTITIONS = 4
SECONDS_PER_DAY = 0.3
CONSUMER = (
    *("--topic", "hourly_delays", "--from-beginning", "--max-messages", "3", "--isolation-level", "read_committed"),
    *("--formatter-property", "print.key=true"),
)

Row = dict[str, Any]


def main() -> int:
    """The demo; 1 without what a broker needs."""
    if reason := missing():
        print(f"the demo cannot start: {reason}", file=sys.stderr)
        return 1
    with TemporaryDirectory(prefix="headwater-kafka-") as folder:
        project = Path(folder, "project")
        shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns(".headwater", "target", "__pycache__"))
        say("Starting a Kafka broker.")
        with kafka_broker(Path(folder, "broker")) as broker:
            show(broker, project)
    return 0


def show(broker: KafkaBroker, project: Path) -> None:
    """The demo with a broker that runs."""
    broker.topic(PARTITIONS, "flights")
    # Kafka's retention goes by the times of records. These are of 2013: with the default they would be removed at once.
    broker.topic(PARTITIONS, "hourly_delays", retention_ms="-1")
    rows = flights(project)
    departed = sum(row["dep_delay"] is not None for row in rows)
    say(f"Topics flights and hourly_delays are at {broker.bootstrap}. Now: headwater run --target kafka")
    with running(project, broker) as run, closing(Delays(broker)) as delays:
        for day, of_day in groupby(rows, key=lambda row: row["scheduled"].date()):
            produce(broker, list(of_day))
            delays.read_until(departed_until(rows, day) if day.day == 1 else None, run)
            if day.day % 5 == 0:
                say(f"{day:%d %B}: hourly_delays has counted {delays.flights:,} flights.")
        delays.read_until(departed, run)
        say(f"hourly_delays has counted {delays.flights:,} of {departed:,} flights, each once. Now: Ctrl-C")
    say("kafka-console-consumer shows records of hourly_delays:")
    print(broker.tool("kafka-console-consumer", *CONSUMER).strip())
    say("kafka-consumer-groups shows how far headwater has read flights:")
    print(broker.tool("kafka-consumer-groups", "--describe", "--group", "departures-kafka").strip())


def flights(project: Path) -> list[Row]:
    """The rows of the project's seed."""
    sys.path.insert(0, str(project))
    from functions import seeds

    return [row for table in seeds.flights() for row in table.to_pylist()]


def departed_until(rows: list[Row], day: Any) -> int:
    """How many flights have left until the end of a day."""
    return sum(row["dep_delay"] is not None and row["scheduled"].date() <= day for row in rows)


@contextmanager
def running(project: Path, broker: KafkaBroker) -> Iterator[subprocess.Popen[bytes]]:
    """`headwater run`, which ends as Ctrl-C would end it."""
    command = [sys.executable, "-m", "headwater.cli.main", "run", "--target", "kafka", "--project-dir", str(project)]
    # A dumb terminal gets lines, and no table that moves between those of the demo.
    environment = {**os.environ, "KAFKA": broker.bootstrap, "TERM": "dumb"}
    # In a session of its own, so that Ctrl-C ends the demo, which ends the run before the broker.
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def produce(broker: KafkaBroker, rows: list[Row]) -> None:
    """Write flights to Kafka: the carrier as key, the rest as JSON."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0, "partitioner": "murmur2_random"})
    for row in rows:
        value = {name: cell for name, cell in row.items() if name != "carrier"}
        producer.produce("flights", json.dumps(value, default=datetime.isoformat), row["carrier"])
    producer.flush()


class Delays:
    """The last record of each key of hourly_delays, as a consumer of committed records has it."""

    def __init__(self, broker: KafkaBroker) -> None:
        settings = {"bootstrap.servers": broker.bootstrap, "group.id": "demo", "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**settings, "log_level": 0, "isolation.level": "read_committed"})
        self._consumer.subscribe(["hourly_delays"])
        self._flights: dict[bytes, int] = {}

    @property
    def flights(self) -> int:
        """How many flights these records have."""
        return sum(self._flights.values())

    def read_until(self, count: int | None, run: subprocess.Popen[bytes]) -> None:
        """Consume until the records have so many flights; None: what is there in a moment."""
        while True:
            for message in self._consumer.consume(10_000, SECONDS_PER_DAY):
                if error := message.error():
                    raise KafkaException(error)
                self._flights[message.key()] = json.loads(message.value())["flights"]
            if count is None or self.flights >= count:
                return
            if run.poll() is not None:
                raise SystemExit("headwater run has ended")

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()


def say(line: str) -> None:
    """Print a line that is not of the run."""
    print(f"\n>>> {line}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
