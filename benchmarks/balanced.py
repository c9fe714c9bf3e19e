"""What `balanced` gains over `high_availability`, and what it costs, on generated applications.

Each application starts on its clients, its state grows, then clients are lost, added and restarted. A simulation tells
what each assignor makes of it, round by round until all has settled. One line for each application, event and assignor,
means of five applications drawn alike:

    down      s, of the task that is down longest
    waiting   s, of all tasks together
    restored  GB, by all clients: actives, standbys and warm-ups
    rounds    of assignment, until all has settled
    load      the busiest client's records a second, by its share; at the end
    far       partitions that actives read from other racks, at the end
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan, nan
from statistics import fmean

from headwater.runtime.assignment.assignor import TaskAssignor
from headwater.runtime.assignment.balanced import Balanced
from headwater.runtime.assignment.cluster import AssignmentConfigs, TaskInfo, TaskTopicPartition
from headwater.runtime.assignment.high_availability import HighAvailability
from headwater.runtime.simulation.fleet import parse_events
from headwater.runtime.simulation.model import Application, Assumptions, Rate, SimulatedTask, Size, members
from headwater.runtime.simulation.report import Round, Simulation
from headwater.runtime.simulation.rounds import Simulator
from headwater.runtime.task_id import TaskId

ASSIGNORS: dict[str, Callable[[], TaskAssignor]] = {"high_availability": HighAvailability, "balanced": Balanced}
RESTORE_BYTES = 50_000_000
RECORD_BYTES = 100
SEEDS = range(1, 6)


@dataclass(frozen=True)
class Case:
    """An application. `sizes`, `rates`: sigma of the lognormal spread of GB and records a second; 0: all alike."""

    name: str
    sizes: float = 0.0
    rates: float = 0.0
    standbys: int = 0
    racks: Sequence[str] = ()
    clients: int = 8
    tasks: int = 64
    events: str = "kill c2; add 1; roll 30s"


RACKS = ("r1", "r2", "r3")
CASES = [
    Case("all tasks alike"),
    Case("sizes differ", sizes=1.2),
    Case("rates differ", rates=1.2),
    Case("sizes and rates differ", sizes=1.2, rates=1.2),
    Case("sizes and rates differ, 1 standby", sizes=1.2, rates=1.2, standbys=1),
    Case("sizes and rates differ, 3 racks", sizes=1.2, rates=1.2, racks=RACKS, clients=9),
    Case("1 standby, 3 racks, all alike", standbys=1, racks=RACKS, clients=9),
    Case("half of the clients at once", sizes=1.2, rates=1.2, events="kill c1 c2 c3 c4; add 4"),
    Case("few tasks", sizes=1.2, rates=1.2, tasks=12),
]


def tasks(case: Case, seed: int) -> tuple[SimulatedTask, ...]:
    """Mean size 1 GB, mean rate 1,000 records a second."""
    chance = random.Random(seed)
    found = []
    for number in range(case.tasks):
        size = int(1e9 * chance.lognormvariate(-(case.sizes**2) / 2, case.sizes))
        rate = 1000 * chance.lognormvariate(-(case.rates**2) / 2, case.rates)
        partitions = frozenset(
            TaskTopicPartition(
                "changelog" if changelog else "input",
                number,
                not changelog,
                changelog,
                frozenset(chance.sample(case.racks, 2)) if case.racks else None,
            )
            for changelog in (False, True)
        )
        task = TaskId(number % 4, number // 4)
        info = TaskInfo(task, frozenset({"store"}), partitions, size, rate)
        found.append(SimulatedTask(info, Size(size // RECORD_BYTES, size)))
    return tuple(found)


def simulate(case: Case, name: str, seed: int) -> Simulation:
    configs = AssignmentConfigs(
        num_standby_replicas=case.standbys,
        rack_aware_assignment_strategy="min_traffic" if case.racks else "none",
    )
    assumptions = Assumptions(restore=Rate(bytes=RESTORE_BYTES), updates=100.0)
    application = Application(case.name, name, configs, tasks(case, seed))
    clients = members(case.clients, 1, case.racks)
    simulator = Simulator(application, ASSIGNORS[name], clients, assumptions, case.racks)
    return simulator.run(parse_events(case.events))


def figures(simulation: Simulation, rounds: Sequence[Round]) -> tuple[float, ...]:
    """Of one event; partitions that are far: NaN where racks are unknown."""
    down: dict[TaskId, float] = {}
    for each in rounds:
        for task, ms in each.restored.down.items():
            down[task] = max(down.get(task, 0.0), ms)
    infos, last = {task.info.id: task.info for task in simulation.application.tasks}, rounds[-1]
    rates = [sum(infos[task].records_per_second or 0 for task in each.active) for each in last.placements.values()]
    racks = {client.name: client.rack for client in last.clients}
    far = sum(
        part.is_source and racks[name] not in (part.racks or ())
        for name, placed in last.placements.items()
        for task in placed.active
        for part in infos[task].topic_partitions
    )
    return (
        max(down.values(), default=0) / 1000,
        sum(down.values()) / 1000,
        sum(each.restored.bytes for each in rounds) / 1e9,
        len(rounds),
        max(rates) * len(rates) / sum(rates),
        nan if None in racks.values() else far,
    )


def compare(case: Case) -> None:
    """Print the lines of one application."""
    print(f"\n{case.name}: {case.tasks} tasks, {case.clients} clients")
    found = {name: [simulate(case, name, seed) for seed in SEEDS] for name in ASSIGNORS}
    for number, event in enumerate(parse_events(case.events), 1):
        for name, simulations in found.items():
            drawn = [figures(each, list(each.events())[number]) for each in simulations]
            down, waiting, restored, rounds, load, far = (fmean(column) for column in zip(*drawn, strict=True))
            print(
                f"  {event.text:<18}{name:<18}{down:8.1f}{waiting:10.0f}{restored:10.2f}{rounds:8.1f}{load:8.2f}"
                f"{'-' if isnan(far) else f'{far:.1f}':>6}"
            )


def main() -> None:
    """Print the table."""
    print(f"{'':38}    down   waiting  restored  rounds    load   far")
    for case in CASES:
        compare(case)


if __name__ == "__main__":
    main()
