"""Windows, final results and what waits, through YAML and the runtime, beside steps that take one record at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from conformance.by_record.facts import COLUMNS, facts, in_record_form
from conformance.by_record.functions import FUNCTIONS
from conformance.by_record.nodes import Collapsed, Key, Node, Record
from conformance.by_record.scenarios import Scenario, Sizes, scenarios
from conformance.in_process import InProcess

Batches = Sequence[Mapping[str, Sequence[Record]]]
Found = tuple[Mapping[str, Sequence[Record]], Mapping[str, int]]
"""The records of each output topic, and how many were dropped, by reason."""

SIZES = Sizes()
SCENARIOS = scenarios(SIZES)
NO_GRACE = Sizes(6, 6, 0)
WHOLE = 10**6


class Compared:
    """Scenarios as the topologies of a project."""

    def __init__(self, root: Path, given: Mapping[str, Scenario]) -> None:
        self._scenarios = given
        self._numbers = {name: number for number, name in enumerate(given)}
        columns = {"partitions": 1, "key": {"k": "string"}, "value": COLUMNS}
        profile = {"target": "t", "targets": {"t": {"log": {"type": "embedded", "path": "log"}}}}
        files: dict[str, Any] = {
            "headwater.yml": {"name": "windows", "version": "1", "profile": "windows"},
            "profiles.yml": {"windows": profile},
            "topics/inputs.yml": {"topics": {"A": columns, "B": columns}},
            "functions/windows.py": FUNCTIONS,
        }
        for name, number in self._numbers.items():
            text = yaml.safe_dump({"topology": f"t{number}", **given[name].topology}, sort_keys=False)
            for topic in given[name].build()[1]:
                text = text.replace(f"to: {topic}\n", f"to: {topic}{number}\n")
            files[f"topologies/t{number}.yml"] = text
        for path, content in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
        self._project = InProcess(root)

    def by_runtime(self, name: str, batches: Batches, max_records: int) -> Found:
        """What the topology makes of batches, each of which is processed before the next one is there."""
        number = self._numbers[name]
        with self._project.driven(f"t{number}", max_records) as run:
            for batch in batches:
                run.feed({topic: in_record_form(records) for topic, records in batch.items()})
            outputs = self._scenarios[name].build()[1]
            written = {topic: run.records(f"{topic}{number}") for topic in outputs}
            found = {
                topic: [(_plain(each.key), each.value, each.timestamp, each.headers) for each in records]
                for topic, records in written.items()
            }
            return found, +Counter(run.dropped)

    def by_record(self, name: str, batches: Batches) -> Found:
        """What single steps make of the same. Each batch is an epoch."""
        sources, outputs = self._scenarios[name].build()
        steps = set[Node]().union(*(source.steps() for source in sources.values()))
        for batch in batches:
            for topic, records in batch.items():
                for record in records:
                    sources[topic].take(*record)
            for step in steps:
                if isinstance(step, Collapsed):
                    step.flush()
        dropped = sum((step.dropped for step in steps), Counter[str]())
        return {topic: out.records for topic, out in outputs.items()}, +dropped


def _plain(key: Mapping[str, Any] | None) -> Key:
    if key is None:
        return None
    return tuple(key.values()) if len(key) > 1 else next(iter(key.values()))


def batches_of(name: str, records: Sequence[Record], size: int) -> Batches:
    """The records in batches; where there are two topics, by turns of these."""
    topics = "BA" if "looked up" in name else "A"
    parts = [records[at : at + size] for at in range(0, len(records), size)]
    return [{topics[number % len(topics)]: part} for number, part in enumerate(parts)]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    return Compared(tmp_path_factory.mktemp("windows"), SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_records_are_those_of_one_record_after_another_in_any_epochs(compared: Compared, name: str) -> None:
    made = 0
    for seed, (records, start, batch, max_records) in enumerate([(24, 0, 24, 3), (90, 900, 45, WHOLE)]):
        if "per epoch" in name and max_records < batch:
            continue
        batches = batches_of(name, facts(f"{name} {seed}", records, SIZES.near, start), batch)
        found = compared.by_runtime(name, batches, max_records)
        assert found == compared.by_record(name, batches)
        made += len(found[0]["O"])
    assert made > 5


@pytest.fixture(scope="module")
def without_grace(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    return Compared(tmp_path_factory.mktemp("no_grace"), scenarios(NO_GRACE))


@pytest.mark.parametrize("ending", ["", " on close", " suppressed"])
@pytest.mark.parametrize("kind", ["tumbling", "hopping", "session", "sliding"])
def test_windows_without_grace_are_those_of_one_record_after_another(
    without_grace: Compared, kind: str, ending: str
) -> None:
    batches = [{"A": facts(kind, 60, NO_GRACE.near)}]
    found = without_grace.by_runtime(f"{kind}{ending}", batches, 13)
    assert found == without_grace.by_record(f"{kind}{ending}", batches)
