"""How long rack-aware optimisation takes: actives and one standby of each task, on built inputs.

Prints, for each size and strategy, medians of five runs in seconds (of actives and standbys alone, placed by chance,
with their costs before and after; and of the whole assignor high_availability, started on clients without state), and
what the same assignor of Kafka Streams 4.1.0 takes (warmed JVM, two cores).
"""

from __future__ import annotations

import random
import time
from statistics import median

from headwater.runtime.assignment.cluster import (
    ApplicationState,
    AssignmentConfigs,
    ClientState,
    ProcessId,
    TaskInfo,
    TaskTopicPartition,
)
from headwater.runtime.assignment.high_availability import HighAvailability
from headwater.runtime.assignment.racks import active_cost, optimize_actives, optimize_standbys, standby_cost
from headwater.runtime.task_id import TaskId

RUNS = 5
SUBTOPOLOGIES = 10
REPLICAS = 2
COSTS = 10, 1
SIZES = [(200, 20, 5), (400, 20, 5), (10_000, 200, 5), (10_000, 200, 50)]
KAFKA = {
    (200, 20, "min_traffic"): "0.35 s",
    (200, 20, "balance_subtopology"): "0.72 s",
    (400, 20, "min_traffic"): "2.5 s",
    (400, 20, "balance_subtopology"): "7.3 s",
}

Placement = dict[ProcessId, set[TaskId]]


def cluster(tasks: int, clients: int, racks: int, strategy: str) -> tuple[ApplicationState, Placement, Placement]:
    """Clients dealt over racks, replicas on two racks by chance; and balanced actives and standbys, by chance too."""
    chance = random.Random(1)
    names = [f"rack-{number}" for number in range(racks)]

    def partition(topic: str, number: int, source: bool) -> TaskTopicPartition:
        return TaskTopicPartition(topic, number, source, not source, frozenset(chance.sample(names, REPLICAS)))

    infos = {}
    for number in range(tasks):
        task = TaskId(number % SUBTOPOLOGIES, number // SUBTOPOLOGIES)
        partitions = {partition("input", number, True), partition("changelog", number, False)}
        infos[task] = TaskInfo(task, frozenset({"store"}), frozenset(partitions))
    ids = [ProcessId(f"client-{number:03}") for number in range(clients)]
    lags = dict.fromkeys(infos, 0)
    states = {name: ClientState(name, 1, rack_id=names[number % racks], lags=lags) for number, name in enumerate(ids)}
    configs = AssignmentConfigs(num_standby_replicas=1, rack_aware_assignment_strategy=strategy)
    order = sorted(infos)
    chance.shuffle(order)
    actives: Placement = {name: set(order[number::clients]) for number, name in enumerate(ids)}
    standbys: Placement = {name: set() for name in ids}
    for number, task in enumerate(order):
        standbys[ids[(number + 1 + number // clients % (clients - 1)) % clients]].add(task)
    return ApplicationState(infos, states, configs), actives, standbys


def anywhere(*_: object) -> bool:
    return True


def measure(tasks: int, clients: int, racks: int, strategy: str) -> None:
    """One line of the table."""
    state, actives, standbys = cluster(tasks, clients, racks, strategy)
    of_actives, of_standbys, of_assignor = [], [], []
    for _ in range(RUNS):
        start = time.perf_counter()
        placed = optimize_actives(state, state.all_tasks, actives, *COSTS)
        middle = time.perf_counter()
        replicas = optimize_standbys(state, standbys, placed, anywhere, *COSTS)
        of_actives.append(middle - start)
        end = time.perf_counter()
        HighAvailability().assign(state)
        of_standbys.append(end - middle)
        of_assignor.append(time.perf_counter() - end)
    print(
        f"{tasks:>6} {clients:>4} {racks:>3}  {strategy:<20}"
        f"{median(of_actives):>8.3f}{median(of_standbys):>10.3f}"
        f"{active_cost(state, actives, *COSTS):>9} -> {active_cost(state, placed, *COSTS, actives):<7}"
        f"{standby_cost(state, standbys, *COSTS):>7} -> {standby_cost(state, replicas, *COSTS, standbys):<7}"
        f"{median(of_assignor):>10.3f}  {KAFKA.get((tasks, clients, strategy), 'cannot')}"
    )


def main() -> None:
    """The table."""
    print(
        f"{'tasks':>6} {'cl.':>4} {'r.':>3}  {'strategy':<20}{'actives':>8}{'standbys':>10}"
        f"{'cost of actives':>20}{'of standbys':>18}{'assignor':>10}  Kafka's"
    )
    for size in SIZES:
        for strategy in ("min_traffic", "balance_subtopology"):
            measure(*size, strategy)


if __name__ == "__main__":
    main()
