"""The model, by figures that can be worked out by hand: 1,000 records at 100 a second are 10 s."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.runtime.simulation.fleet import EventError
from headwater.runtime.simulation.model import Rate
from headwater.runtime.simulation.rounds import MOST_ROUNDS
from headwater.runtime.task_id import TaskId
from headwater.tests.runtime.simulation.simulated import STILL, Scripted, simulate, task

T0, T1, T2 = TaskId(0, 0), TaskId(0, 1), TaskId(0, 2)


def test_start_restores_nothing_and_no_task_is_down() -> None:
    (start,) = simulate([task(0), task(1)]).rounds

    assert (start.moves, start.new_standbys, start.down_ms, start.restored.bytes) == ((), 0, 0, 0)
    assert {name: placed.active for name, placed in start.placements.items()} == {"c1": (T0,), "c2": (T1,)}
    assert start.settled


def test_killed_client_s_tasks_are_down_until_they_are_restored_one_after_the_other() -> None:
    _, kill = simulate([task(0), task(1), task(2, 500), task(3)], "kill c1").rounds

    assert [(str(move.task), move.source, move.target) for move in kill.moves] == [
        ("0_0", "c1", "c2"),
        ("0_2", "c1", "c2"),
    ]
    assert kill.restored.down == {T0: 10_000, T2: 15_000}
    assert (kill.restored.records, kill.restored.bytes) == (1_500, 15_000)
    assert (kill.at_ms, kill.until_ms) == (0, 15_000)


def test_rate_of_bytes_counts_the_bytes_of_each_record() -> None:
    assumptions = replace(STILL, restore=Rate(bytes=500))

    assert simulate([task(0), task(1)], "kill c1", assumptions=assumptions).rounds[1].restored.down == {T0: 20_000}


def test_task_without_state_runs_again_at_once() -> None:
    _, kill = simulate([task(0, 0), task(1, 0)], "kill c1").rounds

    assert len(kill.moves) == 1
    assert (kill.down_ms, kill.restored.bytes) == (0, 0)


def test_clients_restore_at_the_same_time() -> None:
    _, kill = simulate([task(number) for number in range(6)], "kill c1", clients=3).rounds

    assert sorted(kill.restored.down.values()) == [10_000, 10_000]


def test_standby_takes_over_without_a_break() -> None:
    assignor = Scripted(
        {"c1": ("0_0", ""), "c2": ("", "0_0")},
        {"c2": ("0_0", "")},
    )
    start, kill = simulate([task(0)], "kill c1", assignor=assignor).rounds

    assert start.placements["c2"].standby == (T0,)
    assert assignor.lags[1] == {"c2": {"0_0": 0}}
    assert (len(kill.moves), kill.down_ms, kill.restored.bytes) == (1, 0, 0)


def test_new_standby_is_restored_after_the_tasks_that_are_down() -> None:
    assignor = Scripted({"c1": ("0_1", ""), "c2": ("0_0", "")}, {"c2": ("0_0", ""), "c3": ("0_1", "0_0")})
    _, kill = simulate([task(0), task(1)], "kill c1", clients=3, assignor=assignor).rounds

    assert kill.restored.by_task == {("c3", T1): 1_000, ("c3", T0): 1_000}
    assert kill.restored.down == {T1: 10_000}
    assert (kill.new_standbys, kill.until_ms) == (1, 20_000)


def test_owner_is_known_to_the_assignor_with_its_lag() -> None:
    assignor = Scripted({"c1": ("0_0 0_1", ""), "c2": ("", "0_0")})
    simulate([task(0), task(1)], "add 1", assignor=assignor)

    state = assignor.seen[1]
    assert state.clients["c1"].previous_active_tasks == {T0, T1}
    assert state.clients["c2"].previous_standby_tasks == {T0}
    assert assignor.lags[1] == {
        "c1": {"0_0": -2, "0_1": -2},
        "c2": {"0_0": 0, "0_1": 1_000},
        "c3": {"0_0": 1_000, "0_1": 1_000},
    }
    assert state.leader == "c1"


def test_follow_up_comes_at_its_deadline_and_ends_what_was_still_restored() -> None:
    assignor = Scripted(
        {"c1": ("0_0", ""), "c2": ("", "")},
        {"c2": ("0_0", "")},
        pauses=(None, 4_000, None),
    )
    _, kill, follow_up = simulate([task(0)], "kill c1", assignor=assignor).rounds

    assert (kill.cause, follow_up.cause) == ("kill c1", "follow-up")
    assert (kill.until_ms, follow_up.at_ms, follow_up.until_ms) == (4_000, 4_000, 10_000)
    assert assignor.lags[2] == {"c2": {"0_0": 600}}
    assert assignor.seen[2].now_ms == 4_000
    assert (kill.restored.down, follow_up.restored.down) == ({T0: 4_000}, {T0: 10_000})
    assert (kill.settled, follow_up.settled) == (False, True)


def test_assignor_that_always_asks_again_is_settled_once_it_changes_nothing() -> None:
    assignor = Scripted({"c1": ("0_0", "")}, pauses=(5_000,) * 50)

    assert [each.cause for each in simulate([task(0)], clients=1, assignor=assignor).rounds] == ["start", "follow-up"]


def test_assignor_that_moves_tasks_for_ever_is_stopped_and_told() -> None:
    there, back = {"c1": ("0_0", ""), "c2": ("", "")}, {"c1": ("", ""), "c2": ("0_0", "")}
    assignor = Scripted(*[there, back] * MOST_ROUNDS, pauses=(1_000,) * 3 * MOST_ROUNDS)
    simulation = simulate([task(0)], assignor=assignor)

    assert len(simulation.rounds) == MOST_ROUNDS
    assert simulation.doubts() == [f"demo: 'start' has not settled after {MOST_ROUNDS} rounds"]


def test_restart_brings_a_client_back_with_what_it_had() -> None:
    there, away = {"c1": ("0_0", ""), "c2": ("0_1", "")}, {"c2": ("0_0 0_1", "")}
    assignor = Scripted(there, away, there)
    assumptions = replace(STILL, updates=10.0)
    _, gone, back = simulate([task(0), task(1)], "restart c1 30s", assignor=assignor, assumptions=assumptions).rounds

    assert (gone.cause, gone.until_ms, back.cause) == ("restart c1 30s", 30_000, "c1 back")
    assert gone.restored.down == {T0: 10_000}
    # 0_0 ran for 20 s on c2 and wrote 200 records meanwhile.
    assert assignor.lags[2]["c1"] == {"0_0": 200, "0_1": 1_300}
    assert assignor.seen[2].clients["c1"].previous_standby_tasks == {T0}
    assert back.restored.down == {T0: 2_000}


def test_roll_restarts_each_client_in_turn() -> None:
    rounds = simulate([task(number) for number in range(4)], "roll 1m", clients=3).rounds

    assert [each.cause for each in rounds[1:]] == [
        "roll 1m: c1", "c1 back", "roll 1m: c2", "c2 back", "roll 1m: c3", "c3 back"
    ]  # fmt: skip
    assert {each.event for each in rounds[1:]} == {1}
    assert all(each.until_ms - each.at_ms == 60_000 for each in rounds[1::2])


def test_copy_that_nobody_uses_is_gone_after_ten_minutes() -> None:
    assignor = Scripted({"c1": ("0_0", "")}, {"c2": ("0_0", "")}, pauses=(None, None, 589_000, None, 1_000, None))
    simulate([task(0)], "add 1; add 1; add 1", assignor=assignor)

    assert [state.now_ms for state in assignor.seen] == [0, 0, 10_000, 599_000, 599_000, 600_000]
    assert [lags["c1"]["0_0"] for lags in assignor.lags] == [0, -2, 0, 0, 0, 1_000]


def test_added_clients_are_named_and_racked_in_turn() -> None:
    *_, last = simulate([task(0)], "kill c3; add 2; add 1 b", clients=3, racks=("a", "b")).rounds

    assert [(each.name, each.rack) for each in last.clients] == [
        ("c1", "a"), ("c2", "b"), ("c4", "b"), ("c5", "a"), ("c6", "b")
    ]  # fmt: skip


def test_lost_rack_takes_all_its_clients() -> None:
    *_, last = simulate([task(0)], "kill rack a", clients=4, racks=("a", "b")).rounds

    assert [each.name for each in last.clients] == ["c2", "c4"]


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ("kill c1; kill c1", "there is no client 'c1' then (clients: c2, c3)"),
        ("restart c4", "there is no client 'c4' then"),
        ("kill c1 c2 c3", "no client would be left"),
        ("restart c1 c2 c3", "no client would be left"),
        ("kill rack z", "no client is on a rack 'z' then (racks: a, b)"),
        ("add 1 z", "there is no rack 'z' (racks: a, b)"),
    ],
)
def test_event_that_cannot_happen_is_refused(events: str, problem: str) -> None:
    with pytest.raises(EventError) as refused:
        simulate([task(0)], events, clients=3, racks=("a", "b"))

    assert problem in str(refused.value)


def test_same_question_has_the_same_answer() -> None:
    tasks = [task(number, 100 * number) for number in range(12)]

    assert simulate(tasks, "kill c2; add 3; roll").rounds == simulate(tasks[::-1], "kill c2; add 3; roll").rounds
