"""Sets of text iterate in another order in each process; placements must not."""

from __future__ import annotations

import os
import subprocess
import sys

PRINT_PLACEMENTS = """
from dataclasses import replace

from headwater.runtime.assignment.balanced import Balanced
from headwater.runtime.assignment.balanced import BalancedCount
from headwater.runtime.assignment.cluster import AssignmentConfigs
from headwater.runtime.assignment.sticky import Fallback
from headwater.runtime.assignment.high_availability import HighAvailability
from headwater.runtime.assignment.sticky import Sticky
from headwater.tests.runtime.assignment.clusters import One, cluster, placed

stateful = " ".join(f"{subtopology}_{partition}" for subtopology in range(3) for partition in range(9))
configs = AssignmentConfigs(
    num_standby_replicas=2,
    rack_aware_assignment_tags=("zone", "cluster"),
    rack_aware_traffic_cost=10,
    rack_aware_non_overlap_cost=1,
)
clients = {
    f"client-{number}": One(
        1 + number % 3,
        active=f"0_{number} 1_{number}" if number < 5 else "",
        standby=f"2_{number}",
        lags=10_000 * (number + 1),
        tags={"zone": f"z{number % 3}", "cluster": f"k{number % 2}"},
    )
    for number in range(8)
}
state = cluster(clients, stateful, "3_0 3_1 3_2", configs)
state = replace(
    state,
    all_tasks={
        task: replace(
            info,
            topic_partitions=frozenset(
                replace(each, racks=frozenset({f"r{task.partition % 3}", f"r{(task.partition + 1) % 3}"}))
                for each in info.topic_partitions
            ),
            state_bytes=1_000 * (1 + task.partition),
            records_per_second=float(task.subtopology),
        )
        for task, info in state.all_tasks.items()
    },
    clients={name: replace(client, rack_id=f"r{int(name[-1]) % 3}") for name, client in state.clients.items()},
)
for strategy in ("none", "min_traffic", "balance_subtopology"):
    asked = replace(state, assignment_configs=replace(configs, rack_aware_assignment_strategy=strategy))
    for assignor in (HighAvailability(), Sticky(), Fallback(), Balanced(), BalancedCount()):
        print(placed(assignor.assign(asked)))
"""


def test_hash_seed_makes_no_difference() -> None:
    def shown(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PRINT_PLACEMENTS]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    first = shown("1")

    lines = first.splitlines()
    assert len(lines) == 15
    assert len({lines[number] for number in (0, 5, 10)}) > 1  # racks make a difference
    assert [shown(seed) for seed in ("2", "3")] == [first, first]
