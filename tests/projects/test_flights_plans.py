"""Changes of the example project, planned against what is deployed, without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headwater import Project
from headwater.runtime.changes.plan import Plan
from headwater.tests.projects.flights_run import EVERYTHING, copy_of_flights
from headwater.tests.sampled import sampled


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copy_of_flights(tmp_path_factory.mktemp("deployed"), EVERYTHING)
    Project(root).compile()
    return root


@pytest.fixture
def flights(deployed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(deployed, tmp_path / "flights"))


def edit(root: Path, file: str, old: str, new: str) -> None:
    path = root / file
    text = path.read_text()
    assert old in text, f"{old!r} is not in {file}"
    path.write_text(text.replace(old, new))


def planned(root: Path, deployed: Path, topology: str, *, go_on: bool = False) -> Plan:
    return Project(root, select=[topology]).plan(against=deployed / "target" / "manifest.json", go_on=go_on)


CARRIERS, OUTPUTS = "topologies/carrier_delays.yml", "topics/outputs.yml"
Edit = tuple[str, str, str]
AGAIN = "topology.recomputed"

MAY_GO_ON = ("a variable", "grace", "retention", "a join", "a filter", "an expression")
"""Changes that count from the next record on with `--continue`."""

CHANGES: dict[str, tuple[list[Edit], str, list[str]]] = {
    "a variable": ([("headwater.yml", "late_minutes: 15", "late_minutes: 30")], "replace", ["flow.steps", AGAIN]),
    "grace": ([(CARRIERS, "grace: 10m", "grace: 1h")], "replace", ["store.grace", AGAIN]),
    "retention": ([(CARRIERS, "retention: 2d", "retention: 9d")], "replace", ["store.retention", AGAIN]),
    "a window": ([(CARRIERS, "tumbling: 1h", "tumbling: 2h")], "replace", ["store.window", AGAIN]),
    "an aggregate": ([(CARRIERS, "max(dep_delay)", "min(dep_delay)")], "replace", ["store.aggregates", AGAIN]),
    "an aggregate dropped": (
        [
            (CARRIERS, "            flights: count(*)\n", ""),
            (OUTPUTS, "      flights: bigint\n      total", "      total"),
        ],
        "replace",
        ["store.aggregates", "topic.columns", AGAIN],
    ),
    "a join": ([(CARRIERS, "type: left", "type: inner")], "replace", ["flow.steps", AGAIN]),
    "a filter": ([(CARRIERS, "dep_delay >= 300", "dep_delay >= 240")], "replace", ["flow.steps", AGAIN]),
    "an expression": ([(CARRIERS, "dep_delay / 60", "dep_delay / 3600")], "replace", ["flow.steps", AGAIN]),
    "the first flow renamed": (
        [(CARRIERS, "  late:\n", "  behind:\n"), (CARRIERS, "from: late\n", "from: behind\n")],
        "replace",
        ["topic.reader", AGAIN],
    ),
    "a store renamed": ([(CARRIERS, "delay_totals", "delays")], "replace", ["store.removed", "store.added", AGAIN]),
    "a flow renamed": ([(CARRIERS, "  very_late:", "  hours_late:")], "compatible", ["flow.renamed"]),
    "a description": ([(CARRIERS, "description: One record for", "description: A record for")], "nothing", []),
    "partitions": ([(OUTPUTS, "partitions: 4", "partitions: 8")], "replace", ["topic.partitions", AGAIN]),
}


@pytest.mark.parametrize("name", sampled(CHANGES, 3))
def test_change_of_the_example_is_planned_without_spark(flights: Path, deployed: Path, name: str) -> None:
    edits, verdict, kinds = CHANGES[name]
    for each in edits:
        edit(flights, *each)

    plan = planned(flights, deployed, "carrier_delays")

    assert str(plan.verdict) == verdict, [str(each) for each in plan.changes]
    assert {each.kind for each in plan.changes} >= set(kinds)
    assert all(each.place for each in plan.changes if each.subject.kind == "flow" and each.kind != "flow.removed")
    with_continue = planned(flights, deployed, "carrier_delays", go_on=True)
    assert str(with_continue.verdict) == ("compatible" if name in MAY_GO_ON else verdict)
