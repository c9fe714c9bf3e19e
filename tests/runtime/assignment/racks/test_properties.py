"""What holds of every optimisation; and, of each property, that a broken optimisation is caught by it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headwater.runtime.assignment.cluster import ProcessId
from headwater.runtime.assignment.racks import RackRules, active_cost, optimize_actives, optimize_standbys, standby_cost
from headwater.runtime.task_id import TaskId
from headwater.tests.runtime.assignment.racks.rack_cases import Case, Placement, cases, least, moves

Optimise = Callable[[Case], Placement]
Property = Callable[[Optimise, Case], None]


def actives(case: Case) -> Placement:
    return optimize_actives(case.state, case.state.all_tasks, case.actives, case.traffic_cost, case.non_overlap_cost)


def pair_may(source: ProcessId, destination: ProcessId, task: TaskId) -> bool:
    """Some moves are not allowed: an arbitrary rule."""
    return task.partition != 3 or source < destination


def standbys(case: Case, rules: RackRules = RackRules.HIGH_AVAILABILITY) -> Placement:
    return optimize_standbys(
        case.state,
        case.standbys,
        case.actives,
        pair_may,
        case.traffic_cost,
        case.non_overlap_cost,
        rules,
    )


def standbys_as_utility(case: Case) -> Placement:
    return standbys(case, RackRules.UTILITY)


def cost_of_actives(case: Case, after: Placement) -> int:
    return active_cost(case.state, after, case.traffic_cost, case.non_overlap_cost, case.actives)


def cost_of_standbys(case: Case, after: Placement) -> int:
    return standby_cost(case.state, after, case.traffic_cost, case.non_overlap_cost, case.standbys)


def keeps_numbers(optimise: Optimise, case: Case) -> None:
    after = optimise(case)
    assert {name: len(own) for name, own in after.items()} == {name: len(own) for name, own in case.actives.items()}
    assert Counter(task for own in after.values() for task in own) == Counter(case.state.all_tasks.keys())


def costs_least_with_fewest_moves(optimise: Optimise, case: Case) -> None:
    after = optimise(case)
    assert (cost_of_actives(case, after), moves(case.actives, after)) == least(case)


def moves_only_with_gain(optimise: Optimise, case: Case) -> None:
    after = optimise(case)
    assert after == case.actives or cost_of_actives(case, after) < cost_of_actives(case, case.actives)


def spreads_subtopologies(optimise: Optimise, case: Case) -> None:
    sizes = Counter(task.subtopology for task in case.state.all_tasks)
    for name, own in optimise(case).items():
        for subtopology, number in Counter(task.subtopology for task in own).items():
            share = -(-len(case.actives[name]) * sizes[subtopology] // len(case.state.all_tasks))
            assert number <= share


def ignores_order(optimise: Optimise, case: Case) -> None:
    chance = random.Random(0)

    def shuffled(mapping: dict) -> dict:
        return dict(chance.sample(list(mapping.items()), len(mapping)))

    state = replace(
        case.state, all_tasks=shuffled(dict(case.state.all_tasks)), clients=shuffled(dict(case.state.clients))
    )
    other = replace(case, state=state, actives=shuffled(case.actives), standbys=shuffled(case.standbys))
    assert optimise(other) == optimise(case)


def keeps_numbers_of_standbys(optimise: Optimise, case: Case) -> None:
    after = optimise(case)
    assert {name: len(own) for name, own in after.items()} == {name: len(own) for name, own in case.standbys.items()}
    assert Counter(task for own in after.values() for task in own) == Counter(
        task for own in case.standbys.values() for task in own
    )


def keeps_standbys_off_actives(optimise: Optimise, case: Case) -> None:
    assert all(not own & case.actives[name] for name, own in optimise(case).items())


def moves_standbys_only_with_gain(optimise: Optimise, case: Case) -> None:
    after = optimise(case)
    assert after == case.standbys or cost_of_standbys(case, after) < cost_of_standbys(case, case.standbys)


def moves_standbys_only_where_allowed(optimise: Optimise, case: Case) -> None:
    for name, own in optimise(case).items():
        for task in own - case.standbys[name]:
            assert any(pair_may(other, name, task) for other in case.standbys if task in case.standbys[other])


MIN_TRAFFIC, BALANCE, ANY = cases("min_traffic"), cases("balance_subtopology"), cases()

HOLDS = [
    (keeps_numbers, actives, ANY),
    (costs_least_with_fewest_moves, actives, ANY),
    (moves_only_with_gain, actives, MIN_TRAFFIC),
    (spreads_subtopologies, actives, BALANCE),
    (ignores_order, actives, ANY),
    (keeps_numbers_of_standbys, standbys, ANY),
    (keeps_numbers_of_standbys, standbys_as_utility, ANY),
    (keeps_standbys_off_actives, standbys, ANY),
    (keeps_standbys_off_actives, standbys_as_utility, ANY),
    (moves_standbys_only_with_gain, standbys, ANY),
    (moves_standbys_only_where_allowed, standbys, MIN_TRAFFIC),
    (ignores_order, standbys, ANY),
]


@pytest.mark.parametrize(("holds", "optimise", "drawn"), HOLDS)
def test_every_optimisation_holds(holds: Property, optimise: Optimise, drawn: st.SearchStrategy[Case]) -> None:
    @given(drawn)
    def run(case: Case) -> None:
        holds(optimise, case)

    run()


def greedy(case: Case) -> Placement:
    """Each task to the first client on a rack of its replicas, however many that has."""
    after: Placement = {name: set() for name in case.actives}
    for task, info in case.state.all_tasks.items():
        racks = {rack for each in info.topic_partitions for rack in each.racks or ()}
        near = [name for name in sorted(after) if case.state.clients[name].rack_id in racks]
        after[min(near or after)].add(task)
    return after


def rotated(source: Placement) -> Placement:
    """Equal numbers of tasks go round the clients, whatever that costs."""
    names = sorted(source)
    same = [name for name in names if len(source[name]) == len(source[names[0]])]
    return source | {name: set(source[before]) for name, before in zip(same, same[-1:] + same[:-1], strict=True)}


def lazy(case: Case) -> Placement:
    """Nothing ever moves."""
    return case.actives


def restless(case: Case) -> Placement:
    """The least cost, but tasks that may as well be elsewhere are: a move is rewarded where it should cost."""
    free = replace(case, actives=rotated(case.actives), non_overlap_cost=0)
    return actives(free)


def without_rooms(case: Case) -> Placement:
    """The least traffic, also where subtopologies should be spread."""
    configs = replace(case.state.assignment_configs, rack_aware_assignment_strategy="min_traffic")
    return actives(replace(case, state=replace(case.state, assignment_configs=configs)))


def as_it_comes(case: Case) -> Placement:
    """Whoever is first in the mapping takes the tasks of whoever is last."""
    first, last = next(iter(case.actives)), next(reversed(case.actives))
    return case.actives | {first: case.actives[last], last: case.actives[first]}


def one_sided(case: Case) -> Placement:
    """Standbys are given without taking."""
    after, names = {name: set(own) for name, own in case.standbys.items()}, sorted(case.standbys)
    for name, other in pairwise(names):
        given = after[name] - after[other] - case.actives[other]
        after[name] -= given
        after[other] |= given
    return after


def rotated_standbys(case: Case) -> Placement:
    return rotated(case.standbys)


def unasked(case: Case) -> Placement:
    """Standbys are swapped without asking whether they may."""
    costs = case.traffic_cost, case.non_overlap_cost
    return optimize_standbys(case.state, case.standbys, case.actives, lambda *_: True, *costs)


CAUGHT = [
    (keeps_numbers, greedy, ANY),
    (costs_least_with_fewest_moves, lazy, MIN_TRAFFIC),
    (costs_least_with_fewest_moves, restless, MIN_TRAFFIC),
    (costs_least_with_fewest_moves, without_rooms, BALANCE),
    (moves_only_with_gain, restless, MIN_TRAFFIC),
    (spreads_subtopologies, without_rooms, BALANCE),
    (ignores_order, as_it_comes, ANY),
    (keeps_numbers_of_standbys, one_sided, ANY),
    (keeps_standbys_off_actives, rotated_standbys, ANY),
    (moves_standbys_only_with_gain, rotated_standbys, ANY),
    (moves_standbys_only_where_allowed, unasked, MIN_TRAFFIC),
]


@pytest.mark.parametrize(("holds", "broken", "drawn"), CAUGHT)
def test_broken_optimisation_is_caught(holds: Property, broken: Optimise, drawn: st.SearchStrategy[Case]) -> None:
    @settings(
        deadline=None,
        max_examples=2000,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(drawn)
    def run(case: Case) -> None:
        holds(broken, case)

    with pytest.raises(AssertionError):
        run()


def test_every_property_is_shown_to_catch_something() -> None:
    assert {holds for holds, _, _ in HOLDS} == {holds for holds, _, _ in CAUGHT}
