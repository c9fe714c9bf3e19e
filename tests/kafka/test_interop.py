"""What Java's clients and Kafka Streams write is read here, and what is written here is read there."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Message, Producer

from headwater import Project
from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.runs import run_topologies
from headwater.tests.kafka.broker import KafkaBroker
from headwater.tests.kafka.copying import read_all
from headwater.tests.kafka.interop import Jvm, jvm
from headwater.tests.projects.flights_run import table

pytestmark = pytest.mark.kafka

PARTITIONS = 3
MINUTE = 60_000
HOURS = {"format": "string", "windows": "java_time", "window_size": "1h"}
SESSIONS = {"format": "string", "windows": "java_session"}
EVEN = "string"
"""The keys of the results: counts by the hour, counts of sessions, and a table of the counts that are even."""
FORMATS = {
    "string": "string",
    "uuid": "string",
    "binary": "binary",
    "boolean": "boolean",
    "smallint": "smallint",
    "int": "int",
    "bigint": "bigint",
    "float": "float",
    "double": "double",
    "json": "string",
}
COUNTS = """topology: counts
flows:
  hours:
    from: words
    steps:
      - window: {tumbling: 1h, grace: 1h}
      - aggregate: {values: {n: count(*)}}
    to: our_hours
  sessions:
    from: words
    steps:
      - window: {session: 30m, grace: 1h}
      - aggregate: {values: {n: count(*)}}
    to: our_sessions
  even:
    from: words
    steps:
      - aggregate: {values: {n: count(*)}}
      - filter: n % 2 = 0
    to: our_even
"""

Times = list[tuple[int, str]]


@pytest.fixture(scope="module")
def java(kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    with jvm(kafka, tmp_path_factory.mktemp("java")) as program:
        yield program


def test_results_of_kafka_streams_and_ours_are_read_by_each_other(
    kafka: KafkaBroker, java: Jvm, tmp_path: Path
) -> None:
    names = ["words", *(f"{whose}_{what}" for whose in ("their", "our") for what in ("hours", "sessions", "even"))]
    topics = {name: kafka.topic(PARTITIONS) for name in names}
    given = times()
    produce_words(kafka, topics["words"], given)
    theirs = [topics[f"their_{what}"] for what in ("hours", "sessions", "even")]
    java("count", kafka.topic(), topics["words"], *theirs)

    declared = {"words": topic(topics["words"], "string")}
    for whose in ("their", "our"):
        declared |= {
            f"{whose}_hours": topic(topics[f"{whose}_hours"], HOURS),
            f"{whose}_sessions": topic(topics[f"{whose}_sessions"], SESSIONS),
            f"{whose}_even": topic(topics[f"{whose}_even"], EVEN),
        }
    project = run(kafka, tmp_path, declared, {"counts": COUNTS})

    for what, expected in {"hours": hours(given), "sessions": sessions(given), "even": even(given)}.items():
        assert table(project, f"their_{what}") == expected
        assert table(project, f"our_{what}") == expected
    for what in ("windows", "sessions"):
        ours, others = (
            java(what, topics[f"{whose}_{'hours' if what == 'windows' else what}"]) for whose in ("our", "their")
        )
        assert last(ours) == last(others)
    rows = java("global", kafka.topic(), topics["our_even"])
    assert rows == {word: row["n"] for (word,), row in even(given).items()}


def test_ten_thousand_keys_of_each_format_are_in_the_partitions_of_java(
    kafka: KafkaBroker, java: Jvm, tmp_path: Path
) -> None:
    declared, flows = {}, {}
    for form in FORMATS:
        for side in ("java", "ours"):
            name = f"{side}_{form}"
            declared[name] = topic(kafka.topic(partitions=7), form, {"id": FORMATS[form]})
        java("produce", form, declared[f"java_{form}"]["kafka"]["topic"])
        flows[form] = {"from": f"java_{form}", "to": f"ours_{form}"}
    run(kafka, tmp_path, declared, {"copies": yaml.safe_dump({"topology": "copies", "flows": flows})})

    for form in FORMATS:
        theirs, ours = (
            [
                sorted((message.key(), message.value()) for message in messages)
                for messages in read_all(kafka, declared[f"{side}_{form}"]["kafka"]["topic"], 7)
            ]
            for side in ("java", "ours")
        )
        assert sum(map(len, theirs)) == 10_000, form
        assert ours == theirs, form


def test_application_of_kafka_streams_is_replaced_in_the_midst_of_its_records(
    kafka: KafkaBroker, java: Jvm, tmp_path: Path
) -> None:
    source, target, old = kafka.topic(PARTITIONS), kafka.topic(PARTITIONS), kafka.topic()
    given = [(1000 + number, f"word-{number % 50}") for number in range(3000)]
    produce_words(kafka, source, given)
    done = java("forward", old, source, target, "500")
    assert 500 <= done < 3000

    declared = {"words": topic(source, "string"), "written": topic(target, "string")}
    declared["words"]["kafka"]["start"] = {"group": old}
    flows = {"copies": {"from": "words", "to": "written"}}
    run(kafka, tmp_path, declared, {"copies": yaml.safe_dump({"topology": "copies", "flows": flows})})

    for theirs, ours in zip(*(read_all(kafka, name, PARTITIONS) for name in (source, target)), strict=True):
        assert in_order(ours) == in_order(theirs)


def in_order(messages: list[Message]) -> dict[bytes, list[bytes]]:
    """The values of each key, in the order of their records."""
    values: dict[bytes, list[bytes]] = {}
    for message in messages:
        values.setdefault(message.key() or b"", []).append(message.value() or b"")
    return values


def times() -> Times:
    """Words with their times, in order: at most 20 minutes apart, so that no record of a task is late."""
    chance = random.Random(1)
    now = 1_700_000_000_000
    return [((now := now + chance.randrange(20 * MINUTE)), f"word-{chance.randrange(8)}") for _ in range(400)]


def hours(given: Times) -> dict[Any, Any]:
    counts: dict[Any, Any] = {}
    for time, word in given:
        start = time - time % (60 * MINUTE)
        counts.setdefault((word, (start, start + 60 * MINUTE)), {"n": 0})["n"] += 1
    return counts


def sessions(given: Times) -> dict[Any, Any]:
    counts: dict[Any, Any] = {}
    for word in {word for _, word in given}:
        found: list[list[int]] = []
        for time in (time for time, each in given if each == word):
            if found and time - found[-1][1] <= 30 * MINUTE:
                found[-1][1:] = [time, found[-1][2] + 1]
            else:
                found.append([time, time, 1])
        counts |= {(word, (start, end)): {"n": n} for start, end, n in found}
    return counts


def even(given: Times) -> dict[Any, Any]:
    counts = {word: sum(each == word for _, each in given) for _, word in given}
    return {(word,): {"n": n} for word, n in counts.items() if n % 2 == 0}


def last(records: list[list[Any]]) -> dict[tuple[Any, ...], int]:
    """The last value of each partition, key and window, without deleted ones."""
    values = {tuple(place): value for *place, value in records}
    return {place: value for place, value in values.items() if value is not None}


def produce_words(kafka: KafkaBroker, name: str, given: Times) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2_random"})
    for number, (time, word) in enumerate(given):
        producer.produce(name, struct.pack(">q", number), word, timestamp=time)
    producer.flush()


def topic(name: str, key: Any, columns: dict[str, str] | None = None) -> dict[str, Any]:
    """The declaration of a topic of Kafka with whole numbers as its values."""
    windowed = {"windowed": True} if isinstance(key, dict) else {}
    return {
        "partitions": PARTITIONS,
        "key": columns or {"word": "string"},
        "value": {"n": "bigint"},
        **windowed,
        "kafka": {"topic": name, "key": key, "value": "bigint"},
    }


def run(kafka: KafkaBroker, root: Path, topics: dict[str, Any], topologies: dict[str, str]) -> Project:
    """A project with these topics and topologies, run until it has caught up."""
    clusters = {"main": {"bootstrap_servers": kafka.bootstrap}}
    texts = {
        "headwater.yml": 'name: interop\nversion: "1"\nprofile: interop\n',
        "profiles.yml": yaml.safe_dump({"interop": {"target": "kafka", "targets": {"kafka": {"kafka": clusters}}}}),
        "topics/all.yml": yaml.safe_dump({"topics": topics}),
        **{f"topologies/{name}.yml": text for name, text in topologies.items()},
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    project = Project(root)
    results = run_topologies(project._code.topologies(), project.settings(), LocalCluster(), until_caught_up=True)
    assert [result.error for result in results.applications if result.error] == []
    return project
