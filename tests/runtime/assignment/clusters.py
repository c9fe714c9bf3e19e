"""Clusters to assign: built by hand in a line, or drawn at random."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from hypothesis import strategies as st

from headwater.runtime.assignment.assignor import TaskAssignment, TaskType
from headwater.runtime.assignment.cluster import (
    LATEST_OFFSET,
    UNBOUNDED_LAG,
    UNKNOWN_LAG,
    ApplicationState,
    AssignmentConfigs,
    ClientState,
    ProcessId,
    TaskInfo,
    TaskTopicPartition,
)
from headwater.runtime.task_id import TaskId

Placed = dict[str, tuple[list[str], list[str]]]
"""Client -> its actives and its standbys, by name."""


def ids(text: str) -> list[TaskId]:
    """`0_0 0_1` -> task ids."""
    return [TaskId.parse(each) for each in text.split()]


def task(task_id: TaskId, stateful: bool = True, changelogged: bool = True) -> TaskInfo:
    """A task that reads one partition; with state it has a store, whose changelog may be turned off."""
    partitions = {TaskTopicPartition(f"in{task_id.subtopology}", task_id.partition, True, False)}
    if stateful and changelogged:
        partitions.add(TaskTopicPartition(f"log{task_id.subtopology}", task_id.partition, False, True))
    return TaskInfo(task_id, frozenset({"store"} if stateful else ()), frozenset(partitions))


@dataclass
class One:
    """A client to build. `lags`: a lag of all tasks, or one of each."""

    threads: int = 1
    active: str = ""
    standby: str = ""
    lags: int | Mapping[str, int] = 0
    tags: Mapping[str, str] = field(default_factory=dict)


def cluster(
    clients: Mapping[str, One],
    stateful: str = "",
    stateless: str = "",
    configs: AssignmentConfigs | None = None,
    now_ms: int = 0,
    leader: str | None = None,
) -> ApplicationState:
    """Clients by name; all tasks with state have a changelog."""
    tasks = {each: task(each) for each in ids(stateful)} | {each: task(each, stateful=False) for each in ids(stateless)}
    states = {
        ProcessId(name): ClientState(
            ProcessId(name),
            one.threads,
            frozenset(ids(one.active)),
            frozenset(ids(one.standby)),
            one.tags,
            lags={
                each: one.lags if isinstance(one.lags, int) else one.lags[str(each)]
                for each in (ids(stateful) if isinstance(one.lags, int) else ids(" ".join(one.lags)))
            },
        )
        for name, one in clients.items()
    }
    configs = configs or AssignmentConfigs()
    return ApplicationState(tasks, states, configs, leader=None if leader is None else ProcessId(leader), now_ms=now_ms)


def placed(assignment: TaskAssignment) -> Placed:
    """Who has what, to be compared."""
    return {
        client.process_id: (
            [str(each) for each in client.of_type(TaskType.ACTIVE)],
            [str(each) for each in client.of_type(TaskType.STANDBY)],
        )
        for client in assignment.assignment
    }


def sets(assignment: TaskAssignment) -> dict[ProcessId, tuple[set[TaskId], set[TaskId]]]:
    """Who has what, to be counted."""
    return {
        client.process_id: (set(client.of_type(TaskType.ACTIVE)), set(client.of_type(TaskType.STANDBY)))
        for client in assignment.assignment
    }


def deadlines(assignment: TaskAssignment) -> dict[str, int]:
    """Who asks for a follow-up, and when."""
    return {
        client.process_id: client.followup_rebalance_deadline
        for client in assignment.assignment
        if client.followup_rebalance_deadline is not None
    }


LAGS = st.sampled_from([LATEST_OFFSET, UNKNOWN_LAG, 0, 0, 5, 10, 11, 10_000, 10_001, 50_000, 2**62, 2**63 - 1])
TAGS = {"zone": ("a", "b", "c"), "cluster": ("x", "y"), "other": ("p", "q")}


@st.composite
def clusters(draw: st.DrawFn) -> ApplicationState:
    """Up to 8 clients and 24 tasks, with whatever they had before, and all configurations but racks."""
    sizes = draw(st.lists(st.integers(1, 8), min_size=1, max_size=3))
    tasks = [TaskId(number, partition) for number, size in enumerate(sizes) for partition in range(size)]
    kinds = draw(st.lists(st.sampled_from("lllsn"), min_size=len(tasks), max_size=len(tasks)))
    infos = {each: task(each, kind != "n", kind == "l") for each, kind in zip(tasks, kinds, strict=True)}
    stateful = [each for each, info in infos.items() if info.is_stateful]
    count = draw(st.integers(1, 8))
    tagged = draw(st.booleans())
    some = st.frozensets(st.sampled_from(tasks), max_size=8)
    clients = {}
    for number in range(count):
        active = draw(some)
        standby = draw(some) - active
        clients[ProcessId(f"c{number}")] = ClientState(
            ProcessId(f"c{number}"),
            draw(st.sampled_from([1, 1, 2, 3, 5])),
            active,
            frozenset(each for each in standby if infos[each].is_stateful),
            {key: draw(st.sampled_from(values)) for key, values in TAGS.items() if tagged and draw(st.booleans())},
            lags=dict(zip(stateful, draw(st.lists(LAGS, min_size=len(stateful), max_size=len(stateful))), strict=True)),
        )
    configs = AssignmentConfigs(
        acceptable_recovery_lag=draw(st.sampled_from([0, 10, 10_000, UNBOUNDED_LAG])),
        max_warmup_replicas=draw(st.sampled_from([1, 2, 20])),
        num_standby_replicas=draw(st.integers(0, 3)),
        rack_aware_assignment_tags=draw(st.sampled_from([(), ("zone",), ("zone", "cluster")])) if tagged else (),
    )
    return ApplicationState(infos, clients, configs)


def shares(tasks: Collection[TaskId], threads: Mapping[ProcessId, int]) -> dict[ProcessId, float]:
    """How many of the tasks each client would have if they could be divided."""
    total = sum(threads.values())
    return {name: len(tasks) * own / total for name, own in threads.items()}
