"""Windows, final results and what waits, through YAML and the runtime, beside steps that take one record at a time."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import yaml

from headwater.tests.conformance.by_record.by_functions import by_functions
from headwater.tests.conformance.by_record.facts import COLUMNS, facts, in_record_form
from headwater.tests.conformance.by_record.functions import FUNCTIONS
from headwater.tests.conformance.by_record.nodes import Collapsed, Key, Node, Record
from headwater.tests.conformance.by_record.scenarios import KINDS, Scenario, Sizes, scenarios
from headwater.tests.conformance.driving import WHOLE, Compiled, Driven
from headwater.tests.sampled import sampled

Batches = Sequence[Mapping[str, Sequence[Record]]]
Found = tuple[Mapping[str, Sequence[Record]], Mapping[str, int]]
"""The records of each output topic, and how many were dropped, by reason."""

SIZES = Sizes()
SCENARIOS = scenarios(SIZES) | by_functions()
NO_GRACE = Sizes(6, 6, 0)
WITHOUT_GRACE = scenarios(NO_GRACE)
ENDINGS = [name.removeprefix("tumbling") for name in SCENARIOS if name.startswith("tumbling")]
OF_EACH_KIND = [f"{kind}{ending}" for ending in ENDINGS for kind in KINDS]
"""Scenarios of windows, with the kind as the inner loop."""


class InBothWays:
    """A scenario as a project in a folder, and as single steps."""

    def __init__(self, root: Path, scenario: Scenario, partitions: int = 1) -> None:
        self._build = scenario.build
        columns = {"partitions": partitions, "key": {"k": "string"}, "value": COLUMNS}
        profile = {"target": "t", "targets": {"t": {"log": {"type": "embedded", "path": "log"}}}}
        files: Mapping[str, Any] = {
            "headwater.yml": {"name": "windows", "version": "1", "profile": "windows"},
            "profiles.yml": {"windows": profile},
            "topics/inputs.yml": {"topics": dict.fromkeys("ABC", columns)},
            "topologies/case.yml": {"topology": "case", **scenario.topology},
        }
        for path, content in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(yaml.safe_dump(content, sort_keys=False))
        (root / "functions").mkdir()
        (root / "functions" / "windows.py").write_text(FUNCTIONS)
        self._compiled = Compiled(root, "case")

    def driven(self, max_records: int) -> AbstractContextManager[Driven]:
        """The topology with a log of its own."""
        return self._compiled.driven(max_records)

    def by_runtime(self, batches: Batches, max_records: int) -> Found:
        """What the topology makes of batches, each of which is processed before the next one is there."""
        forms = [{topic: in_record_form(records) for topic, records in batch.items()} for batch in batches]
        return self.of_forms(forms, max_records)

    def of_forms(self, batches: Sequence[Mapping[str, Any]], max_records: int) -> Found:
        """The same of records in record form."""
        with self._compiled.driven(max_records) as driven:
            for batch in batches:
                driven.together(batch)
            found = {
                topic: [(_plain(each.key), each.value, each.timestamp, each.headers) for each in driven.written(topic)]
                for topic in self._build()[1]
            }
            return found, +driven.dropped

    def by_record(self, batches: Batches) -> Found:
        """What single steps make of the same. Each batch is an epoch."""
        sources, outputs = self._build()
        steps = set[Node]().union(*(source.steps() for source in sources.values()))
        for batch in batches:
            for topic, record in as_taken(batch):
                sources[topic].take(*record)
            for step in steps:
                if isinstance(step, Collapsed):
                    step.flush()
        dropped = sum((step.dropped for step in steps), Counter[str]())
        return {topic: out.records for topic, out in outputs.items()}, +dropped


def as_taken(batch: Mapping[str, Sequence[Record]]) -> Iterator[tuple[str, Record]]:
    """Records as a task takes them: of the heads of all topics the earliest, of equal ones the topic named first."""
    left = {topic: deque(records) for topic, records in batch.items() if records}
    while left:
        topic = min(left, key=lambda each: left[each][0][2])
        yield topic, left[topic].popleft()
        if not left[topic]:
            del left[topic]


def _plain(key: Mapping[str, Any] | None) -> Key:
    if key is None:
        return None
    return tuple(key.values()) if len(key) > 1 else next(iter(key.values()))


def batches_of(name: str, records: Sequence[Record], size: int) -> Batches:
    """The records in batches; where there are two topics, by turns of these."""
    topics = "BA" if "looked up" in name else "A"
    parts = [records[at : at + size] for at in range(0, len(records), size)]
    return [{topics[number % len(topics)]: part} for number, part in enumerate(parts)]


@pytest.mark.parametrize("name", sampled(dict.fromkeys([*OF_EACH_KIND, *SCENARIOS]), 3))
def test_records_are_those_of_one_record_after_another_in_any_epochs(tmp_path: Path, name: str) -> None:
    scenario, made = InBothWays(tmp_path, SCENARIOS[name]), 0
    for seed, (records, start, batch, max_records) in enumerate([(24, 0, 24, 3), (90, 900, 45, WHOLE)]):
        if "per epoch" in name and max_records < batch:
            continue
        batches = batches_of(name, facts(f"{name} {seed}", records, SIZES.near, start), batch)
        found = scenario.by_runtime(batches, max_records)
        assert found == scenario.by_record(batches)
        made += len(found[0]["O"])
    assert made > 5


@pytest.mark.parametrize("ending", ["", " on close", " suppressed"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_partition_has_a_clock_of_its_own_also_without_grace(tmp_path: Path, kind: str, ending: str) -> None:
    scenario = InBothWays(tmp_path, WITHOUT_GRACE[f"{kind}{ending}"], partitions=3)
    given = [with_prefix(facts(f"{kind} {number}", 40, NO_GRACE.near), str(number)) for number in range(3)]
    forms = [form for number, records in enumerate(given) for form in in_record_form(records, number)]
    found, dropped = scenario.of_forms([{"A": forms}], 13)
    expected = [scenario.by_record([{"A": records}]) for records in given]
    # Of one key the records are in order.
    assert sorted(found["O"], key=key_of) == sorted((each for of, _ in expected for each in of["O"]), key=key_of)
    assert dropped == sum((Counter(counts) for _, counts in expected), Counter())


def with_prefix(records: Sequence[Record], prefix: str) -> list[Record]:
    """With keys that no other partition has."""
    return [(None if key is None else prefix + key, *rest) for key, *rest in records]


def key_of(record: Record) -> str:
    """Its key without the window."""
    return str(record[0][0])
