"""Sets of text iterate in another order in each process; placements must not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PRINT_PLACEMENTS = """
from clusters import One, cluster, placed
from headwater.runtime.assignment.cluster import AssignmentConfigs
from headwater.runtime.assignment.fallback import Fallback
from headwater.runtime.assignment.high_availability import HighAvailability
from headwater.runtime.assignment.sticky import Sticky

stateful = " ".join(f"{subtopology}_{partition}" for subtopology in range(3) for partition in range(9))
configs = AssignmentConfigs(num_standby_replicas=2, rack_aware_assignment_tags=("zone", "cluster"))
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
for assignor in (HighAvailability(), Sticky(), Fallback()):
    print(placed(assignor.assign(state)))
"""


def test_hash_seed_makes_no_difference() -> None:
    def shown(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parent)}
        command = [sys.executable, "-c", PRINT_PLACEMENTS]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    first = shown("1")

    assert first.count("\n") == 3
    assert [shown(seed) for seed in ("2", "3")] == [first, first]
