"""What a simulation comes to: measures, assertions, JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from headwater.runtime.simulation.report import MEASURES, check, to_json
from headwater.runtime.simulation.rounds import MOST_ROUNDS
from headwater.tests.runtime.simulation.simulated import STILL, Scripted, simulate, task

TASKS = [task(number) for number in range(4)]


def measured(name: str, *arguments: object, **options: object) -> float | None:
    return MEASURES[name].worst_value(simulate(*arguments, **options))  # type: ignore[arg-type]


def test_moves_are_counted_by_event() -> None:
    assert measured("max_moved", TASKS) == 0
    assert measured("max_moved", TASKS, "kill c1") == 2
    assert measured("max_moved", TASKS, "kill c1; add 1") == 2
    assert measured("max_moved", TASKS, "restart c1") == 4


def test_downtime_is_the_longest_of_one_task() -> None:
    assert measured("max_downtime", TASKS, "kill c1") == 20_000


def test_downtime_goes_on_over_rounds() -> None:
    assignor = Scripted({"c1": ("0_0", "")}, {"c2": ("0_0", "")}, pauses=(None, 4_000, 4_000, None))

    assert measured("max_downtime", [task(0)], "kill c1", assignor=assignor) == 10_000


def test_restored_bytes_are_those_of_an_event() -> None:
    assert measured("max_restored", TASKS, "kill c1") == 20_000


def test_rounds_are_those_of_an_event() -> None:
    assert measured("max_rounds", TASKS, "kill c1; add 1") == 1
    assert measured("max_rounds", TASKS, "roll") == 4


def test_spread_counts_standbys_and_threads() -> None:
    assignor = Scripted({"c1": ("0_0 0_1 0_2", "0_3"), "c2": ("0_3", "0_0")})

    assert measured("max_spread", TASKS, assignor=assignor, threads=2) == 1.0


def test_partitions_from_another_rack_are_input_of_actives_and_changelogs_of_standbys() -> None:
    tasks = [task(0, rack="a"), task(1, rack="b"), task(2, 0, rack="b")]
    assignor = Scripted({"c1": ("0_0 0_2", "0_1"), "c2": ("0_1", "0_0")})

    assert measured("max_cross_rack", tasks, assignor=assignor, racks=("a", "b")) == 3
    assert measured("max_cross_rack", tasks, assignor=assignor) is None


@pytest.mark.parametrize(
    ("name", "limit", "holds", "sentence"),
    [
        ("max_moved", "2", True, "demo: tasks moved in 'kill c1': 2; max_moved is 2"),
        ("max_moved", "1", False, "demo: tasks moved in 'kill c1': 2; max_moved is 1"),
        ("max_downtime", "20s", True, "demo: longest downtime of a task in 'kill c1': 20 s; max_downtime is 20 s"),
        ("max_downtime", "19.5", False, "demo: longest downtime of a task in 'kill c1': 20 s; max_downtime is 19.5 s"),
        ("max_restored", "1kB", False, "demo: restored in 'kill c1': 20 kB; max_restored is 1 kB"),
        ("max_rounds", "0", False, "demo: rounds of 'start': 1; max_rounds is 0"),
        (
            "max_spread",
            "0.5",
            True,
            "demo: difference between clients after 'start', in tasks for each thread: 0; max_spread is 0.5",
        ),
        ("max_cross_rack", "9", False, "demo: max_cross_rack needs racks"),
    ],
)
def test_assertion_holds_or_says_what_does_not(name: str, limit: str, holds: bool, sentence: str) -> None:
    found = check(simulate(TASKS, "kill c1"), name, MEASURES[name].read(limit))

    assert (found.holds, found.sentence) == (holds, sentence)


def test_tasks_that_nobody_was_given_are_told_and_nothing_holds() -> None:
    simulation = simulate(TASKS, assignor=Scripted({"c1": ("0_0", "0_3")}))

    assert simulation.doubts() == ["demo: 'start' leaves 3 tasks unassigned: 0_1 0_2 0_3"]
    assert to_json(simulation)["rounds"][0]["unassigned"] == ["0_1", "0_2", "0_3"]
    found = check(simulation, "max_downtime", 1e9)
    assert (found.holds, found.value) == (False, None)
    assert found.sentence.endswith("unassigned: 0_1 0_2 0_3, so max_downtime is unknown")


def test_limit_is_not_kept_where_an_event_has_not_settled() -> None:
    there, back = {"c1": ("0_0", "")}, {"c2": ("0_0", "")}
    assignor = Scripted(*[there, back] * MOST_ROUNDS, pauses=(1_000,) * 3 * MOST_ROUNDS)

    found = check(simulate([task(0)], assignor=assignor), "max_rounds", 10 * MOST_ROUNDS)
    assert not found.holds
    assert found.sentence == "demo: 'start' has not settled after 200 rounds, so max_rounds is unknown"


@pytest.mark.parametrize(
    ("name", "limit"),
    [("max_moved", "x"), ("max_moved", "-1"), ("max_moved", "1.5"), ("max_moved", "٣"), ("max_spread", "٣"),
     ("max_spread", "²"), ("max_downtime", "5 parsecs"),
     ("max_restored", "1 parsec"), ("max_spread", "nan"), ("max_spread", "")],
)  # fmt: skip
def test_limit_that_cannot_be_read_is_refused(name: str, limit: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        MEASURES[name].read(limit)


def test_json_has_every_round() -> None:
    found = json.loads(json.dumps(to_json(simulate(TASKS, "kill c1", assumptions=replace(STILL, updates=1.0)))))
    start, kill = found["rounds"]

    assert found["results"]["max_moved"] == 2
    assert start["clients"]["c1"] == {
        "threads": 1, "rack": None, "active": ["0_0", "0_2"], "standby": [], "restoring": []
    }  # fmt: skip
    assert kill["moves"] == [
        {"task": "0_0", "from": "c1", "to": "c2", "down_ms": 10_000},
        {"task": "0_2", "from": "c1", "to": "c2", "down_ms": 20_000},
    ]
    assert kill["clients"] == {
        "c2": {
            "threads": 1,
            "rack": None,
            "active": ["0_0", "0_1", "0_2", "0_3"],
            "standby": [],
            "restoring": ["0_0", "0_2"],
        }
    }
    assert (kill["cause"], kill["at_ms"], kill["until_ms"], kill["settled"]) == ("kill c1", 0, 20_000, True)
    assert (kill["restored_records"], kill["restored_bytes"], kill["cross_rack"]) == (2_000, 20_000, None)
