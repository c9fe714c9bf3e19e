"""What the tasks of an application write to a topic in Kafka is there once, whichever processes have tried."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.engine.execution.kafka import produce
from headwater.runtime.engine.execution.node import TaskEpoch
from headwater.runtime.engine.execution.order.origins import Origins
from headwater.runtime.engine.execution.rows import Rows
from headwater.runtime.engine.operators.kafka import Produce
from headwater.runtime.ir.topology import KafkaTopic, PluginRef, Topic
from headwater.runtime.kafka.admin import KafkaAdmin
from headwater.runtime.kafka.mirror import KafkaMirror
from headwater.runtime.kafka.outgoing import (
    OtherMirrorError,
    Outgoing,
    PositionMovedError,
    ResultReplacedError,
    Standing,
    TransactionLostError,
)
from headwater.runtime.kafka.reader import KafkaReader
from headwater.runtime.kafka.worker import KafkaOfWorker
from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.placed_log import PlacedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.progress.committer import Committer
from headwater.runtime.records.types import Kind
from headwater.runtime.serdes.json import JsonSerde
from headwater.tests.kafka.broker import KafkaBroker
from headwater.tests.kafka.copying import read_all
from headwater.tests.runtime.kafka.topics import TIME, cluster_of, range_of, values

pytestmark = pytest.mark.kafka

WORDS = Topic("words", 1, "word string", "n bigint", writer="p-words")
JSON = PluginRef("json")

Place = tuple[int, int]
"""Lane and position of a record in `WORDS`."""


def run_epoch(
    kafka: KafkaBroker,
    log: PlacedLog,
    target: str,
    taken: Sequence[Place],
    positions: Mapping[int, int],
    result: str = "one",
) -> None:
    """An epoch of a task that writes `WORDS` to Kafka. The values say the places. `result`: its result."""
    numbers = np.arange(len(taken))
    lanes, at = (np.array([place[side] for place in taken], np.int64) for side in (0, 1))
    rows = Rows((numbers,), np.full(len(taken), Kind.VALUE, np.int8), numbers + TIME, numbers + TIME).with_columns(
        {"word": pa.array(["k"] * len(taken))}, {"n": pa.array(lanes * 100 + at)}
    )
    origins = Origins(-1, rows.order, (("words", numbers, numbers),), lanes=((lanes, at),))
    access = KafkaOfWorker("p-kafka-out", {"main": cluster_of(kafka)}, lambda _: JsonSerde(), lambda: log)
    epoch = TaskEpoch(
        0,
        0,
        {},
        None,
        None,
        origins=origins,
        task=target,
        kafka=access,
        positions={"words": dict(positions)},
        results={"words": result},
        begins=taken[0][1] == 0,
    )
    produce(Produce("words", WORDS, KafkaTopic(target), JSON, JSON, "append"), {"words": rows}, epoch)


def written(admin: KafkaAdmin, reader: KafkaReader, topic: str) -> list[bytes | None]:
    return [value for _, value in values(reader, range_of(admin, topic))]


def test_epoch_that_takes_lanes_in_another_order_writes_no_record_again(
    kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader, tmp_path: Path
) -> None:
    """A driver has ended before its commit. The next one finds more in one lane, so it takes less of the other."""
    target, log = kafka.topic(), PlacedLog(EmbeddedLog(tmp_path))
    run_epoch(kafka, log, target, [(0, 0), (0, 1)], {0: 2, 1: 0})
    run_epoch(kafka, log, target, [(1, 0), (0, 0)], {0: 1, 1: 1})
    run_epoch(kafka, log, target, [(0, 1), (0, 2)], {0: 3, 1: 1})
    assert written(admin, reader, target) == [b'{"n":%d}' % number for number in (0, 1, 100, 2)]


def test_task_with_an_old_result_does_not_follow_the_new_one(
    kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader, tmp_path: Path
) -> None:
    """It was suspended before the switch, and its records would follow those of the new result."""
    target, log = kafka.topic(), PlacedLog(EmbeddedLog(tmp_path))
    run_epoch(kafka, log, target, [(0, 0)], {0: 1})
    Committer(LogState.load(log.commits("p-words"))).claim(TopologyDescription(incarnation="two"))
    run_epoch(kafka, log, target, [(0, 0), (0, 1)], {0: 2}, "two")
    with pytest.raises(ResultReplacedError):
        run_epoch(kafka, log, target, [(0, 0)], {0: 1})
    with pytest.raises(PositionMovedError):
        run_epoch(kafka, log, target, [(0, 1)], {0: 2})
    assert written(admin, reader, target) == [b'{"n":%d}' % number for number in (0, 0, 1)]


def test_mirror_that_another_one_has_replaced_says_so(kafka: KafkaBroker) -> None:
    target = kafka.topic()
    first, second = (KafkaMirror(cluster_of(kafka), target, target, "one") for _ in range(2))
    records = Outgoing(
        pa.array([b"k"], pa.binary()), pa.array([b"v"], pa.binary()), np.zeros(1, np.int64), np.full(1, TIME)
    )
    assert (first.standing("r"), second.standing("r")) == (Standing(), Standing())
    with pytest.raises(TransactionLostError, match=f"test-{target} belongs to another producer now") as failed:
        first.produce(records, "r", {0: 1})
    assert "give each target another `prefix`" in str(failed.value)
    assert first.standing("r") == Standing()
    first.produce(records, "r", {0: 1})
    assert first.standing("r") == Standing({0: 1})


FOUR_MIRRORS = """
import sys
from pathlib import Path
from headwater.runtime.ir.topology import KafkaCluster
from headwater.runtime.kafka.mirror import mirrors_of
cluster, target = KafkaCluster(sys.argv[1], {}, "test-"), sys.argv[2]
of = mirrors_of(cluster)
mirrors = [of.mirror(target, f"{target}-{task}", "one", "", float(task)) for task in range(4)]
assert of.mirror(target, f"{target}-1", "one", "", 1.0) is mirrors[1]
assert not any(mirror.standing("r").positions for mirror in mirrors)
print([path.read_text() for path in Path("/proc/self/task").glob("*/comm")].count("rdk:main\\n"))
assert of.mirror(target, f"{target}-0", "one", "", 3602.5) is mirrors[0]
del mirrors
while [path.read_text() for path in Path("/proc/self/task").glob("*/comm")].count("rdk:main\\n") > 3:
    pass
assert of.mirror(target, f"{target}-1", "one", "", 3602.5).standing("r").positions == {}
print([path.read_text() for path in Path("/proc/self/task").glob("*/comm")].count("rdk:main\\n"))
"""
"""Prints the clients of librdkafka in its process, at first and an hour later: each has a thread of this name."""


def test_mirrors_of_a_process_have_one_client_each_and_one_together(kafka: KafkaBroker) -> None:
    command = [sys.executable, "-c", FOUR_MIRRORS, kafka.bootstrap, kafka.topic()]
    # Two are closed after an hour without use, and one of them is opened again.
    assert subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout == b"5\n4\n"


PARTITIONS = 2


def outgoing(first: int, count: int, partitions: int = PARTITIONS) -> Outgoing:
    """Records whose values count from `first`."""
    numbers = np.arange(first, first + count)
    values = pa.array([str(number).encode() for number in numbers], pa.binary())
    return Outgoing(values, values, numbers % partitions, np.full(count, 1000))


def test_mirrors_of_one_task_in_two_processes_take_over_from_each_other(kafka: KafkaBroker) -> None:
    """Spark runs a task in any of its workers. So many records that a transaction fails while they are produced."""
    topic, count = kafka.topic(PARTITIONS), 20_000
    mirrors = [KafkaMirror(cluster_of(kafka), topic, f"{topic}-mirror", "one") for _ in range(2)]
    lost = 0
    for epoch in range(5):
        mirror = mirrors[epoch % 2]
        while mirror.standing("r").positions.get(0, 0) < (epoch + 1) * count:
            try:
                mirror.produce(outgoing(epoch * count, count), "r", {0: (epoch + 1) * count})
            except TransactionLostError:
                lost += 1
    assert lost == 3  # the first mirror that is not new, and every one after it
    written = [int(message.value() or b"") for messages in read_all(kafka, topic, PARTITIONS) for message in messages]
    assert sorted(written) == [*range(5 * count)]


def test_position_is_that_of_a_result_in_a_log(kafka: KafkaBroker) -> None:
    topic = kafka.topic(PARTITIONS)
    one, other = (KafkaMirror(cluster_of(kafka), topic, f"{topic}-mirror", log) for log in ("one", "other"))
    assert one.standing("r") == Standing()
    one.produce(outgoing(0, 3), "r", {0: 3, 2: 1})
    assert one.standing("r") == Standing({0: 3, 1: 0, 2: 1})
    assert one.standing("s") == Standing(replaces="r")
    with pytest.raises(OtherMirrorError, match=f"is in the consumer group test-{topic}-mirror"):
        other.standing("r")


def test_position_of_two_thousand_lanes_is_kept(kafka: KafkaBroker) -> None:
    topic, chance = kafka.topic(), random.Random(1)
    positions = {lane: chance.randrange(10**12) for lane in range(2000)}

    def mirror() -> KafkaMirror:
        return KafkaMirror(cluster_of(kafka), topic, f"{topic}-mirror", "log")

    first = mirror()
    first.produce(outgoing(0, 3, 1), "r", positions)
    assert mirror().standing("r") == Standing(positions)
    first = mirror()
    first.produce(outgoing(3, 1, 1), "s", {0: 1})  # fewer pieces than before
    assert mirror().standing("s") == Standing({0: 1})
