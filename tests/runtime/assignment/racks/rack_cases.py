"""Clusters on racks, drawn by hypothesis or built; and what the least cost of one is, found by trying everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from hypothesis import strategies as st

from headwater.runtime.assignment.cluster import (
    ApplicationState,
    AssignmentConfigs,
    ClientState,
    ProcessId,
    TaskInfo,
    TaskTopicPartition,
)
from headwater.runtime.task_id import TaskId

Placement = dict[ProcessId, set[TaskId]]


def ids(text: str) -> set[TaskId]:
    """`"0_0 1_2"` -> tasks."""
    return {TaskId.parse(word) for word in text.split()}


def placement(text: Mapping[str, str]) -> Placement:
    """`{"1": "0_0 1_2"}` -> a placement."""
    return {ProcessId(name): ids(words) for name, words in text.items()}


def racked(
    replicas: Mapping[str, str], clients: Mapping[str, str | None], stateful: bool = True, **configs: object
) -> ApplicationState:
    """Tasks with one input and, if stateful, one changelog, on the racks named in `replicas`; clients and their racks.

    `configs`: of AssignmentConfigs, without `rack_aware_`.
    """
    infos = {}
    for word, racks in replicas.items():
        task, where = TaskId.parse(word), frozenset(racks.split())
        source = TaskTopicPartition(f"in{task.subtopology}", task.partition, True, False, where)
        changelog = TaskTopicPartition(f"changelog{task.subtopology}", task.partition, False, True, where)
        store = frozenset({"store"} if stateful else ())
        infos[task] = TaskInfo(task, store, frozenset({source, changelog} if stateful else {source}))
    states = {ProcessId(name): ClientState(ProcessId(name), 1, rack_id=rack) for name, rack in clients.items()}
    return ApplicationState(
        infos, states, AssignmentConfigs(**{f"rack_aware_{name}": value for name, value in configs.items()})
    )


@dataclass(frozen=True)
class Case:
    """A placement to be optimised."""

    state: ApplicationState
    actives: Placement
    standbys: Placement
    traffic_cost: int
    non_overlap_cost: int


@st.composite
def cases(draw: st.DrawFn, strategy: str | None = None, most_tasks: int = 8) -> Case:
    """Up to four clients on three racks, tasks in up to three subtopologies, up to two standbys of each."""
    racks = st.sampled_from(["r0", "r1", "r2"])
    names = [f"c{number}" for number in range(draw(st.integers(1, 4)))]
    replicas = st.lists(racks, min_size=1, max_size=3, unique=True).map(" ".join)
    tasks = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), unique=True, max_size=most_tasks))
    chosen = strategy or draw(st.sampled_from(["min_traffic", "balance_subtopology"]))
    state = racked(
        {f"{subtopology}_{partition}": draw(replicas) for subtopology, partition in tasks},
        {name: draw(racks) for name in names},
        assignment_strategy=chosen,
    )
    actives: Placement = {ProcessId(name): set() for name in names}
    standbys: Placement = {ProcessId(name): set() for name in names}
    for task in state.all_tasks:
        first, *others = draw(st.permutations(names))
        actives[ProcessId(first)].add(task)
        for other in others[: draw(st.integers(0, 2))]:
            standbys[ProcessId(other)].add(task)
    return Case(state, actives, standbys, draw(st.integers(0, 12)), draw(st.integers(0, 12)))


def least(case: Case) -> tuple[int, int]:
    """The least cost of the actives with as many on each client, and the fewest moves at that cost: all ways tried."""
    clients = sorted(case.actives)
    owner = {task: client for client, own in case.actives.items() for task in own}
    tasks = sorted(owner)
    numbers = tuple(len(case.actives[client]) for client in clients)
    sizes = Counter(task.subtopology for task in tasks)
    balance = case.state.assignment_configs.rack_aware_assignment_strategy == "balance_subtopology"

    def rooms(task: TaskId) -> tuple[int, ...]:
        share = [-(-number * sizes[task.subtopology] // len(tasks)) for number in numbers]
        return tuple(share) if balance else numbers

    @cache
    def rest(at: int, free: tuple[int, ...], room: tuple[int, ...]) -> tuple[float, int]:
        if at == len(tasks):
            return 0, 0
        task = tasks[at]
        if at == 0 or tasks[at - 1].subtopology != task.subtopology:
            room = rooms(task)
        return min(ways(at, task, free, room), default=(float("inf"), 0))

    def ways(at: int, task: TaskId, free: tuple[int, ...], room: tuple[int, ...]) -> Iterator[tuple[float, int]]:
        for number, client in enumerate(clients):
            if free[number] and room[number]:
                cost, moves = rest(at + 1, one_less(free, number), one_less(room, number))
                moved = owner[task] != client
                yield cost + price(case, task, client, moved), moves + moved

    cost, moves = rest(0, numbers, numbers)
    return int(cost), moves


def one_less(numbers: tuple[int, ...], at: int) -> tuple[int, ...]:
    return (*numbers[:at], numbers[at] - 1, *numbers[at + 1 :])


def price(case: Case, task: TaskId, client: ProcessId, moved: bool) -> int:
    """What an active costs on a client."""
    rack = case.state.clients[client].rack_id
    partitions = case.state.all_tasks[task].topic_partitions
    far = sum(each.is_source and rack not in (each.racks or ()) for each in partitions)
    return case.traffic_cost * far + case.non_overlap_cost * moved


def moves(before: Placement, after: Placement) -> int:
    return sum(len(after[name] - before[name]) for name in before)
