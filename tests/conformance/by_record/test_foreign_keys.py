"""Joins of tables with windows by a foreign key, beside a join that takes one record of either side at a time.

Which updates there are depends on when answers come. The last rows do not, nor what is kept when all is processed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headwater.api.topology_test_driver import rows_of_store
from headwater.tests.conformance.by_record.facts import in_record_form
from headwater.tests.conformance.by_record.joins import ByForeignKey, How
from headwater.tests.conformance.by_record.nodes import Headers, Node, Record, Rows
from headwater.tests.conformance.by_record.scenarios import KINDS, Scenario, Sizes, aggregate
from headwater.tests.conformance.by_record.test_windows import InBothWays, as_taken
from headwater.tests.conformance.driving import WHOLE, Driven

SIZES = Sizes()
LONGER = 60
"""A retention that is longer than windows are open, in ms."""

JOINS: Mapping[str, tuple[str, How]] = {"inner": ("a", "inner"), "left": ("a", "left"), "some": ("long", "left")}
"""Flow -> the table on the left, and the type. That of `some` is what a filter leaves of a table that keeps longer."""


def passing(row: Any) -> Any:
    """The filter of `some`."""
    return row if (row["total"] or 0) > 3 else None


def topology(kind: str) -> dict[str, Any]:
    """Joins of windows of a kind with the rows of B, each with groups of its result behind it."""
    type_ = "session" if kind == "session" else "window"
    window = {"window": SIZES.yaml(kind)}
    join = {"table": "b", "by": {"k": "by"}, "values": {"theirs": "b.v"}}
    flows: dict[str, Any] = {
        "a": {"from": "A", "steps": [window, aggregate()]},
        "long": {"from": "A", "steps": [window, aggregate(store="kept"), {"filter": "total > 3"}]},
    }
    for name, (source, how) in JOINS.items():
        flows[name] = {"from": source, "steps": [{"join": {**join, "type": how}}], "to": name.upper()}
        groups = {"aggregate": {"values": {"rows": "count(*)", "sum": "sum(theirs)"}}}
        by = {"key_by": {"g": "coalesce(by, '-')"}}
        flows[f"{name}_groups"] = {"from": name, "steps": [by, groups], "to": f"{name.upper()}_GROUPS"}
    stores = {"kept": {"type": type_, "retention": f"{LONGER}ms"}}
    return {"tables": {"b": {"topic": "B"}}, "stores": stores, "flows": flows}


class Changes(Node):
    """The changes that come."""

    def __init__(self) -> None:
        super().__init__()
        self.come: list[Record] = []

    def take(self, key: Any, value: Any, time: int, headers: Headers) -> None:
        self.come.append((key, value, time, headers))


@dataclass
class Model:
    """The same, one record after another. The side of B takes records and what the other side asks by their times."""

    kind: str
    a: Node = field(default_factory=Node)
    joins: dict[str, ByForeignKey] = field(default_factory=dict)
    changes: dict[str, Changes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        by_end = self.kind == "session"
        kept = {"sliding": 2}.get(self.kind, 1) * SIZES.size + SIZES.grace
        for name, (source, how) in JOINS.items():
            longer = source == "long"
            self.joins[name] = ByForeignKey(how, LONGER if longer else kept, by_end)
            self.changes[name] = Changes()
            windows = SIZES.windows(self.kind, kept=LONGER if longer else None)
            self.a.then(windows, *([Rows(passing)] if longer else []), self.changes[name])

    def take(self, batch: Mapping[str, list[Record]]) -> None:
        """Records that are there at once."""
        for record in batch["A"]:
            self.a.take(*record)
        for name, join in self.joins.items():
            come, self.changes[name].come = self.changes[name].come, []
            for topic, (key, value, time, headers) in as_taken({"B": batch["B"], "A": come}):
                if topic == "A":
                    join.take(key, value, time, headers)
                else:
                    join.of_other(key, value)


def given(seed: str, records: int, start: int = 0) -> dict[str, list[Record]]:
    """Records of both topics: nulls, late ones, and jumps behind which nothing is kept. Rows of B come and go."""
    rng = random.Random(seed)
    time, made = start, {"B": list[Record](), "A": list[Record]()}
    for number in range(records):
        time += rng.choice([0, 0, 1, 2, 3, 8, 8, 90 if rng.random() < 0.2 else 0])
        late = rng.choice([0, 0, 0, 1, 8, 13, 16, 20])
        if rng.random() < 0.6:
            key = None if rng.random() < 0.05 else rng.choice("abc")
            value = None if rng.random() < 0.1 else {"v": rng.choice([number, None]), "g": rng.choice(["x", "y", None])}
            made["A"].append((key, value, max(0, time - late), {}))
        else:
            row = None if rng.random() < 0.3 else {"v": number, "g": None}
            made["B"].append((rng.choice("xy"), row, time, {}))
    return made


EPOCHS = ((40, 7), (28, 1), (80, WHOLE))
"""How many records there are, and how many an epoch may have."""

KINDS_IN_EPOCHS = [
    pytest.param(kind, *each, marks=[] if (kind, each) in zip(KINDS[1:], EPOCHS, strict=True) else [pytest.mark.soak])
    for kind in KINDS
    for each in EPOCHS
]
"""`make test` has one for each kind of window but tumbling ones, which are hopping ones that do not overlap."""


def last_rows(driven: Driven, topic: str) -> dict[Any, Any]:
    """Key -> the last row of a topic of a table."""
    last = {tuple(each.key.values()): each.value for each in driven.written(topic) if each.key is not None}
    return {key: row for key, row in last.items() if row is not None}


def groups(rows: Mapping[Any, Mapping[str, Any]]) -> dict[Any, Any]:
    """The groups of joined rows."""
    made: dict[Any, list[Any]] = {}
    for row in rows.values():
        made.setdefault((row["by"] or "-",), []).append(row["theirs"])
    return {
        group: {"rows": len(each), "sum": sum(known) if (known := [v for v in each if v is not None]) else None}
        for group, each in made.items()
    }


def assert_equal(driven: Driven, model: Model) -> None:
    """The last rows are those of the model, and what is kept is what the rows need that have not expired."""
    for name, join in model.joins.items():
        assert last_rows(driven, name.upper()) == join.results, name
        found = {key: row for key, row in last_rows(driven, f"{name.upper()}_GROUPS").items() if row["rows"]}
        assert found == groups(join.results), name

        def stored(what: str, flow: str = name) -> list[tuple[Any, ...]]:
            rows = rows_of_store(driven.topology, driven.surface, f"{flow}-{what}")
            return [tuple(row.key.values()) for row in rows]

        asking = {(row["by"], *key) for key, row in join.rows.items() if row["by"] is not None}
        assert Counter(stored("subscriptions")) == Counter(asking), name
        assert Counter(stored("joined")) == Counter(join.results.keys() & join.rows.keys()), name
        assert stored("expired") == []


@pytest.mark.parametrize(("kind", "records", "max_records"), KINDS_IN_EPOCHS)
def test_windows_joined_by_a_foreign_key_are_those_of_one_record_after_another(
    tmp_path: Path, kind: str, records: int, max_records: int
) -> None:
    both = InBothWays(tmp_path, Scenario(topology(kind), lambda: ({}, {})))
    model = Model(kind)
    batches = [given(f"{kind} {max_records} 1", records), given(f"{kind} {max_records} 2", records // 4)]
    later = max(time for _, _, time, _ in batches[0]["A"])
    batches[1] = {topic: [(k, v, t + later, h) for k, v, t, h in each] for topic, each in batches[1].items()}
    with both.driven(max_records) as driven:
        for batch in batches:
            model.take(batch)
            driven.together({topic: in_record_form(records) for topic, records in batch.items()})
            assert_equal(driven, model)
    assert min(each.expired for each in model.joins.values()) > 0
