"""The assignors regard racks where they are asked to, and nothing of the solver is loaded where they are not."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from headwater.runtime.assignment.assignor import TaskAssignor
from headwater.runtime.assignment.cluster import ApplicationState, AssignmentConfigs
from headwater.runtime.assignment.high_availability import HighAvailability
from headwater.runtime.assignment.racks import active_cost, standby_cost
from headwater.runtime.assignment.sticky import Sticky
from headwater.tests.runtime.assignment.clusters import One, cluster, placed, sets

STATEFUL = "0_0 0_1 0_2 0_3 0_4 0_5"
STATELESS = "1_0 1_1 1_2 1_3"


def racked(configs: AssignmentConfigs, **tags: str) -> ApplicationState:
    """Four clients on two racks; what belongs to a task lies on the rack that its client does not have."""
    state = cluster({name: One(tags=tags) for name in "abcd"}, STATEFUL, STATELESS, configs)
    tasks = {
        task: replace(
            info,
            topic_partitions=frozenset(
                replace(each, racks=frozenset({f"r{(task.partition + 1) % 2}"})) for each in info.topic_partitions
            ),
        )
        for task, info in state.all_tasks.items()
    }
    clients = {
        name: replace(client, rack_id=f"r{number % 2}") for number, (name, client) in enumerate(state.clients.items())
    }
    return replace(state, all_tasks=tasks, clients=clients)


def costs(state: ApplicationState, assignor: TaskAssignor) -> tuple[int, int]:
    """What actives and standbys read from other racks."""
    assignment = sets(assignor.assign(state))
    actives = {name: active for name, (active, _) in assignment.items()}
    standbys = {name: standby for name, (_, standby) in assignment.items()}
    return active_cost(state, actives, 1, 0), standby_cost(state, standbys, 1, 0)


@pytest.mark.parametrize("strategy", ["min_traffic", "balance_subtopology"])
def test_high_availability_reads_less_from_other_racks_and_keeps_its_numbers(strategy: str) -> None:
    without = racked(AssignmentConfigs(num_standby_replicas=1))
    configs = replace(without.assignment_configs, rack_aware_assignment_strategy=strategy)
    with_racks = replace(without, assignment_configs=configs)

    before, after = costs(without, HighAvailability()), costs(with_racks, HighAvailability())

    assert after[0] < before[0]
    assert after[1] <= before[1]
    numbers = [
        [(len(active), len(standby)) for active, standby in placed(HighAvailability().assign(state)).values()]
        for state in (without, with_racks)
    ]
    assert numbers[0] == numbers[1]


def test_sticky_regards_racks_only_where_both_costs_are_configured() -> None:
    unset = AssignmentConfigs(num_standby_replicas=1, rack_aware_assignment_strategy="min_traffic")
    configured = replace(unset, rack_aware_traffic_cost=10, rack_aware_non_overlap_cost=1)
    without = racked(AssignmentConfigs(num_standby_replicas=1))

    assert placed(Sticky().assign(racked(unset))) == placed(Sticky().assign(without))
    before, after = costs(without, Sticky()), costs(racked(configured), Sticky())
    assert after[0] < before[0]
    assert after[1] <= before[1]


def test_standbys_keep_apart_by_tags_when_racks_are_regarded() -> None:
    configs = AssignmentConfigs(
        num_standby_replicas=1,
        rack_aware_assignment_strategy="min_traffic",
        rack_aware_assignment_tags=("zone",),
    )
    state = racked(configs)
    clients = {
        name: replace(client, client_tags={"zone": "near" if name in "ab" else "far"})
        for name, client in state.clients.items()
    }
    state = replace(state, clients=clients)
    everywhere = replace(configs, rack_aware_traffic_cost=0, rack_aware_non_overlap_cost=1)

    def zones(of: ApplicationState) -> list[int]:
        assignment = sets(HighAvailability().assign(of))
        return [
            len(
                {
                    clients[name].client_tags["zone"]
                    for name, (active, standby) in assignment.items()
                    if task in active | standby
                }
            )
            for task, info in sorted(of.all_tasks.items())
            if info.is_stateful
        ]

    untouched = zones(replace(state, assignment_configs=everywhere))
    assert all(now >= before for now, before in zip(zones(state), untouched, strict=True))


def test_solver_is_not_loaded_without_a_strategy() -> None:
    code = """
import sys
from headwater.runtime.assignment.cluster import AssignmentConfigs
from headwater.runtime.assignment.high_availability import HighAvailability
from headwater.runtime.assignment.sticky import Sticky
from headwater.tests.runtime.assignment.clusters import One, cluster
for assignor in (HighAvailability(), Sticky()):
    assignor.assign(cluster({"a": One(), "b": One()}, "0_0 0_1", configs=AssignmentConfigs(num_standby_replicas=1)))
print([name for name in sys.modules if "ortools" in name or name.endswith((".flow", ".solver"))])
"""
    command = [sys.executable, "-c", code]

    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"
