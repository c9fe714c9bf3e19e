"""Joins of tables with windows, and what stands behind them, beside steps that take one record at a time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headwater.tests.conformance.by_record.groups import Regrouped
from headwater.tests.conformance.by_record.joins import HOWS, How, Joined, Kept
from headwater.tests.conformance.by_record.nodes import Node, Record, Rows, Suppressed, Written
from headwater.tests.conformance.by_record.scenarios import KINDS, UNTIL, WAITS, Built, Scenario, Sizes, aggregate
from headwater.tests.conformance.by_record.test_windows import InBothWays
from headwater.tests.conformance.driving import WHOLE

SIDES = {"a": Sizes(grace=25), "b": Sizes(grace=2), "c": Sizes()}
"""The tables that are joined, of the topics of these names. Their windows differ in grace alone: rows of `b` are
forgotten while those of `a` may still change.
"""

Step = tuple[Mapping[str, Any], Callable[[], Node]]
"""A step in YAML, and the same one."""


def over(column: str, least: int) -> Step:
    """A filter of the rows in which a column is greater."""

    def passing(row: Any) -> Any:
        return row if row[column] is not None and row[column] > least else None

    return {"filter": f"{column} > {least}"}, lambda: Rows(passing)


def pairs(group: Callable[[Any], Any]) -> Step:
    """An aggregate of joined rows, in groups by what the function gives."""
    values = {"rows": "count(*)", "total": "sum(theirs)"}
    step = {"aggregate": {"emit": "each_update", "values": values}}
    return step, lambda: Regrouped(group, lambda row: row["theirs"])


BY_G: Step = {"key_by": {"g": "coalesce(by, '-')"}}, Node


def by_g(row: Any) -> Any:
    """The group of `BY_G`."""
    return row["by"] or "-"


WAITING: Step = WAITS[None], lambda: Suppressed(9)


@dataclass
class Joins:
    """A topology of tables with windows of a kind. `ends`: for each flow the step that makes its rows. `joined`: the
    flows that join.
    """

    kind: str
    sources: dict[str, Node] = field(default_factory=dict)
    outputs: dict[str, Written] = field(default_factory=dict)
    flows: dict[str, dict[str, Any]] = field(default_factory=dict)
    ends: dict[str, Node] = field(default_factory=dict)
    joined: set[str] = field(default_factory=set)

    def table(self, name: str) -> None:
        """One of `SIDES`."""
        sizes, source = SIDES[name], Node()
        self.ends[name] = sizes.windows(self.kind)
        self.sources[name.upper()] = source.then(self.ends[name])
        self.flows[name] = {"from": name.upper(), "steps": [{"window": sizes.yaml(self.kind)}, aggregate()]}

    def flow(self, name: str, source: str, *steps: Step) -> None:
        """A flow that reads another one, written to a topic of its name in capitals."""
        end = self.ends[source]
        for _, make in steps:
            end.then(made := make())
            end = made
        self.flows[name] = {"from": source, "steps": [step for step, _ in steps]}
        self._write(name, end)

    def join(self, name: str, this: str, other: str, how: How, kept: tuple[int, int]) -> None:
        """A join of two flows. `kept`: for how long the rows of each are found."""
        by_end = self.kind == "session"
        mine, theirs = (Kept(each, by_end) for each in kept)
        join = Joined(how, mine, theirs, "more" if this in self.joined else "theirs")
        self.joined.add(name)
        self.ends[this].then(mine, join)
        self.ends[other].then(theirs, join.side)
        added = {join.column: f"{other}.total"}
        self.flows[name] = {"from": this, "steps": [{"join": {"table": other, "type": how, "values": added}}]}
        self._write(name, join)

    def _write(self, name: str, end: Node) -> None:
        self.ends[name] = end
        topic = name.upper()
        out = self.outputs[topic] = Written()
        end.then(out)
        self.flows[name]["to"] = topic


def kept(kind: str, name: str) -> int:
    """For how long a row is found after the start of its window; of a session, after its end."""
    sizes = SIDES[name]
    return {"sliding": 2, "session": 1}.get(kind, 1) * sizes.size + sizes.grace


def joins(kind: str) -> Joins:
    """All joins of two tables, and of what a filter makes of them; and behind each what else there is."""
    made = Joins(kind)
    for name in SIDES:
        made.table(name)
    mine, theirs, third = (kept(kind, name) for name in SIDES)
    made.flow("some_a", "a", over("total", 3))
    made.flow("some_b", "b", over("total", 6), over("n", 1))
    waits = (SIDES["a"].size if kind == "session" else 0) + max(SIDES[name].grace for name in "ab")
    for how in HOWS:
        made.join(f"{how}_ab", "a", "b", how, (mine, theirs))
        _behind(made, f"{how}_ab", waits)
    made.join("outer_some", "some_a", "some_b", "outer", (mine, theirs))
    _behind(made, "outer_some", waits)
    made.join("left_of_three", "left_ab", "c", "left", (max(mine, theirs), third))
    made.flow("left_of_three_grouped", "left_of_three", over("more", 6), BY_G, pairs(by_g))
    return made


def _behind(made: Joins, source: str, waits: int) -> None:
    made.flow(f"{source}_filtered", source, over("theirs", 6), over("total", 6))
    made.flow(f"{source}_grouped", source, BY_G, pairs(by_g))
    made.flow(f"{source}_grouped_over", source, over("theirs", 6), BY_G, pairs(by_g))
    made.flow(f"{source}_waits", source, WAITING)
    made.flow(f"{source}_waits_over", source, WAITING, over("theirs", 6))
    made.flow(f"{source}_final", source, (UNTIL, lambda: Suppressed(waits, final=True)))
    made.flow(f"{source}_final_over", source, over("theirs", 6), (UNTIL, lambda: Suppressed(waits, final=True)))


def scenario(kind: str) -> Scenario:
    """The same as a scenario."""

    def build() -> Built:
        made = joins(kind)
        return made.sources, made.outputs

    return Scenario({"flows": joins(kind).flows}, build)


def given(seed: str, records: int) -> dict[str, list[Record]]:
    """Records of all topics, many of them late, with nulls. Half are those of another topic, so that rows meet."""
    rng = random.Random(seed)
    made: dict[str, list[Record]] = {"A": [], "B": [], "C": []}
    for topic, each in made.items():
        time = 0
        for number in range(records):
            time += rng.choice([0, 0, 1, 2, 3, 8])
            key = None if rng.random() < 0.05 else rng.choice("ab")
            value = None if rng.random() < 0.1 else {"v": rng.choice([number, None]), "g": rng.choice("xyz")}
            late = rng.choice([0, 0, 0, 1, 8, 13, 16, 20])
            record: Record = key, value, max(0, time - late), {"number": str(number)}
            each.append(rng.choice([record, made["A"][number]]) if topic != "A" else record)
    return made


EPOCHS = ((5, 1), (21, 7), (80, WHOLE))
"""Records of each topic, and most of them in an epoch."""


@pytest.mark.parametrize(
    ("kind", "epochs"),
    [
        ("hopping", EPOCHS[1:]),
        ("session", (EPOCHS[2],)),
        ("sliding", (EPOCHS[0], EPOCHS[2])),
        *(pytest.param(kind, EPOCHS, marks=pytest.mark.soak) for kind in KINDS),
    ],
)
def test_joined_tables_with_windows_are_tables_as_all_others(
    tmp_path: Path, kind: str, epochs: Sequence[tuple[int, int]]
) -> None:
    both, made = InBothWays(tmp_path, scenario(kind)), 0
    for number, most in epochs:
        records = given(f"{kind} {most}", number)
        found, expected = both.by_runtime([records], most), both.by_record([records])
        for topic, each in expected[0].items():
            assert found[0][topic] == each, (topic, most)
        assert found[1] == expected[1]
        made += sum(map(len, found[0].values()))
    assert made > 500
