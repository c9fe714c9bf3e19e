from __future__ import annotations

from clusters import ids
from hypothesis import given
from hypothesis import strategies as st

from headwater.runtime.assignment.balance import ConsumerTasks, assign_to_consumers
from headwater.runtime.task_id import TaskId


def shown(dealt: dict[str, ConsumerTasks]) -> dict[str, tuple[str, str]]:
    return {name: (" ".join(map(str, own.active)), " ".join(map(str, own.standby))) for name, own in dealt.items()}


def test_tasks_without_owners_are_dealt_in_turn_over_subtopologies() -> None:
    dealt = assign_to_consumers(["c1", "c2"], ids("0_0 0_1 1_0 1_1"), [], [])

    assert shown(dealt) == {"c1": ("0_0 1_0", ""), "c2": ("0_1 1_1", "")}


def test_consumer_keeps_what_it_had_the_least_lag_first() -> None:
    previous = {"c1": ids("0_3 0_0 0_1"), "c2": ids("0_2")}

    dealt = assign_to_consumers(["c1", "c2"], ids("0_0 0_1 0_2 0_3"), [], [], previous)

    assert shown(dealt) == {"c1": ("0_3 0_0", ""), "c2": ("0_2 0_1", "")}


def test_one_more_goes_to_the_previous_owner() -> None:
    previous = {"c2": ids("0_0 0_2")}

    dealt = assign_to_consumers(["c1", "c2"], ids("0_0 0_1 0_2"), [], [], previous)

    assert shown(dealt) == {"c1": ("0_1", ""), "c2": ("0_0 0_2", "")}


def test_kinds_are_dealt_one_after_another_with_numbers_carried_over() -> None:
    dealt = assign_to_consumers(["c1", "c2", "c3"], ids("0_0"), ids("1_0"), ids("2_0 2_1"))

    assert shown(dealt) == {"c1": ("0_0 2_1", ""), "c2": ("", "1_0"), "c3": ("2_0", "")}


def test_tasks_without_state_have_no_owners() -> None:
    dealt = assign_to_consumers(["c1", "c2"], [], [], ids("0_0 0_1"), {"c1": ids("0_1"), "c2": ids("0_0")})

    assert shown(dealt) == {"c1": ("0_0", ""), "c2": ("0_1", "")}


def test_previous_task_that_went_elsewhere_is_not_dealt() -> None:
    assert shown(assign_to_consumers(["c1"], ids("0_0"), [], [], {"c1": ids("0_5 0_0")})) == {"c1": ("0_0", "")}


def test_without_consumers_nobody_has_anything() -> None:
    assert assign_to_consumers([], ids("0_0"), [], []) == {}


TASKS = st.frozensets(st.builds(TaskId, st.integers(0, 3), st.integers(0, 5)))


@given(st.data(), st.integers(1, 5), TASKS, TASKS)
def test_any_deal_is_whole_and_even(
    data: st.DataObject, count: int, tasks: frozenset[TaskId], copies: frozenset[TaskId]
) -> None:
    consumers = [f"c{number}" for number in range(count)]
    stateful = [task for task in tasks if task.partition % 2]
    standbys = sorted(copies - tasks)
    owners = {task: data.draw(st.sampled_from(consumers)) for task in sorted(tasks | copies)}
    previous = {name: [task for task, owner in owners.items() if owner == name] for name in consumers}

    dealt = assign_to_consumers(consumers, stateful, standbys, tasks - set(stateful), previous)

    assert sorted(task for own in dealt.values() for task in own.active) == sorted(tasks)
    assert sorted(task for own in dealt.values() for task in own.standby) == standbys
    assert max(map(len, dealt.values())) - min(map(len, dealt.values())) <= 1
