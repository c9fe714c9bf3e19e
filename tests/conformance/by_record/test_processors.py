"""Random topologies of processors, punctuations and named flows, beside steps that take one record at a time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from headwater.runtime.ir.topology import MAX_BYTES
from headwater.tests.conformance.by_record.drawn import CODE, COLUMNS, KEY, Drawn
from headwater.tests.conformance.by_record.facts import in_record_form
from headwater.tests.conformance.by_record.nodes import Record
from headwater.tests.conformance.driving import WHOLE, Compiled

Found = tuple[Mapping[str, Sequence[Record]], Mapping[str, int]]
"""The records of each output topic, and how many were dropped, by reason."""

SEEDS = (32, 37, 41, 54, 58)
"""Of small topologies, in which all kinds of steps are."""

EPOCHS = (1, 7, WHOLE)
"""How many records an epoch may have."""

BYTES = (1, 100, 700)
"""How many bytes of records an epoch may have."""

SHARING = (9, 28, 57)
"""Of small ones whose processors have the same stores, with steps between them."""


def in_turn(seeds: Sequence[int], limits: Sequence[int]) -> list[Any]:
    """Each seed with each limit of epochs. `make test` has one limit of a seed, in turn, and `make soak` the others."""
    return [
        pytest.param(seed, limit, marks=[pytest.mark.soak] if (turn + number) % len(limits) else [])
        for turn, seed in enumerate(seeds)
        for number, limit in enumerate(limits)
    ]


def write(root: Path, drawn: Drawn, partitions: int) -> Compiled:
    """The topology as a project."""
    topics = {name: {"partitions": partitions, "key": KEY, "value": COLUMNS} for name in "ABT"}
    profile = {"target": "t", "targets": {"t": {"log": {"type": "embedded", "path": "log"}}}}
    files: Mapping[str, Any] = {
        "headwater.yml": {"name": "drawn", "version": "1", "profile": "drawn"},
        "profiles.yml": {"drawn": profile},
        "topics/inputs.yml": {"topics": topics},
        "topologies/case.yml": drawn.topology(),
    }
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(yaml.safe_dump(content, sort_keys=False))
    (root / "functions").mkdir(exist_ok=True)
    (root / "functions" / "doing.py").write_text(CODE)
    return Compiled(root, "case")


def records(seed: int | str, count: int = 50, partition: int = 0) -> Mapping[str, Sequence[Record]]:
    """Of all topics: late ones, jumps, nulls, and no two topics with the same time. Texts begin with the partition."""
    chances, time = random.Random(f"records {seed}"), 0
    made: dict[str, list[Record]] = {"A": [], "B": [], "T": []}
    for number in range(count):
        time += chances.choice([0, 0, 1, 1, 2, 3, 8, 25])
        key = None if chances.random() < 0.08 else chances.choice(["a", "b", "ab", "", "é"])
        value = None if chances.random() < 0.12 else {"n": number % 11, "s": f"{partition}{number}"}
        at = max(0, time - chances.choice([0, 0, 0, 1, 9, 30, 60]))
        topic = chances.choice("AABT")
        made[topic].append((key, value, at * 3 + "ABT".index(topic), {"h": str(number)} if number % 3 else {}))
    return made


def expected(drawn: Drawn, given: Mapping[str, Sequence[Record]]) -> Found:
    """What single steps make of the records, and how many they have dropped, by reason."""
    drawn.task.take_all(given)
    dropped = sum((step.dropped for step in drawn.steps()), Counter[str]())
    return {topic: out.records for topic, out in drawn.outputs.items()}, +dropped


def found(
    compiled: Compiled,
    topics: Sequence[str],
    given: Sequence[Mapping[str, Any]],
    max_records: int,
    max_bytes: int = MAX_BYTES,
) -> Found:
    """The same of the runtime. `given`: records of each partition."""
    with compiled.driven(max_records, max_bytes) as driven:
        parts = [
            {topic: in_record_form(records, number) for topic, records in each.items()}
            for number, each in enumerate(given)
        ]
        driven.together({topic: [each for part in parts for each in part[topic]] for topic in "ABT"})
        written = {
            topic: [(each.key and each.key["k"], each.value, each.timestamp, each.headers) for each in written]
            for topic in topics
            for written in [driven.written(topic)]
        }
        return written, +driven.dropped


@pytest.mark.parametrize(("seed", "max_records"), in_turn(SEEDS, EPOCHS))
def test_records_are_those_of_one_record_after_another_in_any_epochs(
    tmp_path: Path, seed: int, max_records: int
) -> None:
    drawn, given = Drawn(seed), records(seed)
    compiled = write(tmp_path, drawn, 1)
    assert found(compiled, [*drawn.outputs], [given], max_records) == expected(drawn, given)


@pytest.mark.parametrize(("seed", "max_bytes"), in_turn(SEEDS[:3], BYTES))
def test_records_are_those_of_one_record_after_another_wherever_bytes_end_epochs(
    tmp_path: Path, seed: int, max_bytes: int
) -> None:
    drawn, given = Drawn(seed), records(seed)
    compiled = write(tmp_path, drawn, 1)
    assert found(compiled, [*drawn.outputs], [given], WHOLE, max_bytes) == expected(drawn, given)


@pytest.mark.parametrize(("seed", "max_records"), in_turn(SHARING, EPOCHS))
def test_processors_of_one_store_with_steps_between_are_those_of_one_record_after_another(
    tmp_path: Path, seed: int, max_records: int
) -> None:
    drawn, given = Drawn(seed, shared=True), records(seed, 20)
    compiled = write(tmp_path, drawn, 1)
    assert found(compiled, [*drawn.outputs], [given], max_records) == expected(drawn, given)


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_each_partition_has_times_and_stores_of_its_own(tmp_path: Path, seed: int) -> None:
    given = [records(f"{seed} {partition}", 30, partition) for partition in range(2)]
    tasks = [Drawn(seed, partition, rekeyed=False) for partition in range(2)]
    compiled = write(tmp_path, tasks[0], 2)
    parts = [expected(drawn, of) for drawn, of in zip(tasks, given, strict=True)]
    made, dropped = found(compiled, [*tasks[0].outputs], given, 13)
    assert dropped == parts[0][1] + parts[1][1]
    for topic, written in made.items():
        wanted = [part[0][topic] for part in parts]
        for partition, records_of in enumerate(wanted):
            # Of one key they are in order.
            mine = [each for each in written if each[1] and each[1]["s"][0] == str(partition)]
            assert sorted(mine, key=by_key) == sorted((each for each in records_of if each[1]), key=by_key)
        assert Counter(map(str, written)) == Counter(str(each) for of in wanted for each in of)


def by_key(record: Record) -> str:
    return str(record[0])
