"""Random changes of a project one after the other, and runs that are killed in between: the result stays right.

After each change the plan says what the run does, and in the end everything equals a project that has been so from the
start. `make soak` makes thirty changes in a row.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headwater.tests.runtime.cuts import changing
from headwater.tests.runtime.cuts.changing import FIRST, HOUR, Defined
from headwater.tests.runtime.cuts.cut_runs import Program, program_of

ORDERS = 8
"""Records that are appended after each change."""


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    with program_of("runtime.cuts.changing") as made:
        yield made


@dataclass
class Life:
    """A project that changes. `orders`: what was appended to it so far."""

    path: Path
    program: Program
    chances: random.Random
    defined: Defined = FIRST
    orders: list[dict[str, Any]] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    kills: int = 0

    def append(self) -> None:
        """More orders, each an hour after the one before."""
        new = []
        for number in range(len(self.orders), len(self.orders) + ORDERS):
            value = {
                "product": f"p{self.chances.randrange(3)}",
                "buyer": f"b{self.chances.randrange(4)}",
                "quantity": self.chances.randrange(5),
                **({"note": f"n{number}"} if self.defined.noted else {}),
            }
            new.append({"timestamp": HOUR * number, "key": {"order_id": number}, "value": value})
        changing.project(self.path).project.append("orders", new)
        self.orders += new

    def change(self) -> None:
        self.defined = changing.changed(self.defined, self.chances)
        self.defined.write(self.path)

    def plan(self) -> None:
        """What the next run would do. A topology that is gone and stands in its way is removed, as the plan says."""
        for _ in range(3):
            planned = changing.project(self.path).plan()
            if planned.plan["verdict"] != "error":
                break
            gone = {each for each in planned.commands if each.startswith("headwater remove ")}
            assert gone, planned.text
            for command in gone:
                removed = changing.project(self.path).headwater("remove", command.split()[2], "--yes")
                assert removed.exit_code == 0, removed.output
        assert planned.exit_code == (2 if planned.plan["verdict"] == "replace" else 0), planned.text

    def run_first(self) -> None:
        ended = self.program.ask("run", self.path)
        self.calls = Counter(ended["calls"])

    def run(self) -> None:
        """To its end, after up to two runs that are killed at any call that earlier runs have made."""
        for _ in range(self.chances.randrange(3)):
            name, times = self.chances.choice(sorted(self.calls.items()))
            cut = (name, self.chances.randrange(1, times + 1), self.chances.choice(["before", "after"]))
            self.kills += "killed" in self.program.ask("run", self.path, cut)
        ended = self.program.ask("run", self.path)
        assert {status for status, _ in ended["ended"]} == {"caught_up"}, (ended["ended"], self.defined)
        self.calls = Counter(ended["calls"]) or self.calls
        assert changing.project(self.path).plan().plan["verdict"] == "nothing"


def fresh(life: Life, path: Path) -> dict[str, Any]:
    """The result of a project that has been so from the start."""
    life.defined.write(path)
    project = changing.project(path)
    project.project.append("orders", fitting(life.orders, life.defined))
    assert {each.status for each in project.run()} == {"caught_up"}
    return project.result()


def fitting(orders: list[dict[str, Any]], defined: Defined) -> list[dict[str, Any]]:
    """Without a column that the topic does not have."""
    left_out = () if defined.noted else ("note",)
    return [{**each, "value": {k: v for k, v in each["value"].items() if k not in left_out}} for each in orders]


@pytest.mark.parametrize(
    ("changes", "seed"),
    [(3, 1), *(pytest.param(30, seed, marks=pytest.mark.soak) for seed in range(2, 6))],
)
def test_changes_in_a_row_with_kills_between_give_what_a_fresh_project_gives(
    changes: int, seed: int, program: Program, tmp_path: Path
) -> None:
    life = Life(tmp_path / "life", program, random.Random(seed))
    life.defined.write(life.path)
    life.append()
    life.run_first()
    for _ in range(changes):
        life.change()
        life.plan()
        life.append()
        life.run()
    assert life.kills >= changes // 3
    found = changing.project(life.path).result()
    expected = fresh(life, tmp_path / "fresh")
    assert list(found) == list(expected)
    for name, rows in expected.items():
        assert found[name] == rows, (name, seed, life.defined)
