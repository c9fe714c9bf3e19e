"""Clusters whose tasks were measured. Tasks are 0_0, 0_1, ...; sizes and rates in order of the tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from headwater.runtime.assignment.cluster import (
    LATEST_OFFSET,
    ApplicationState,
    AssignmentConfigs,
    ClientState,
    ProcessId,
    TaskInfo,
    TaskTopicPartition,
)
from headwater.runtime.task_id import TaskId

MEGABYTE = 1_000_000
WHOLE = 1000
"""Lag of a client that has nothing of a task."""


def cluster(
    sizes: Sequence[int | None],
    running: Mapping[str, Sequence[int]],
    lags: Mapping[str, Mapping[int, int]] | None = None,
    rates: Sequence[float | None] = (),
    racks: Sequence[str] = (),
    client_racks: Mapping[str, str] | None = None,
    **configs: object,
) -> ApplicationState:
    """`running`: what each client runs now. `lags`: of other copies, WHOLE where not given."""
    infos, states = {}, {}
    for number, size in enumerate(sizes):
        where = frozenset(racks[number].split()) if racks else None
        partitions = frozenset(
            TaskTopicPartition("changelog" if changelog else "in", number, not changelog, changelog, where)
            for changelog in (False, True)
        )
        rate = rates[number] if rates else None
        infos[TaskId(0, number)] = TaskInfo(TaskId(0, number), frozenset({"store"}), partitions, size, rate)
    for name, own in running.items():
        lag = {TaskId(0, number): WHOLE for number in range(len(sizes))}
        lag |= {TaskId(0, number): behind for number, behind in (lags or {}).get(name, {}).items()}
        lag |= {TaskId(0, number): LATEST_OFFSET for number in own}
        previous = frozenset(TaskId(0, number) for number in own)
        rack = (client_racks or {}).get(name)
        states[ProcessId(name)] = ClientState(ProcessId(name), 1, previous, rack_id=rack, lags=lag)
    return ApplicationState(infos, states, AssignmentConfigs(acceptable_recovery_lag=10, **configs))


@st.composite
def clusters(draw: st.DrawFn, most: int = 9) -> ApplicationState:
    names = draw(st.lists(st.sampled_from("abcd"), unique=True, min_size=1))
    count = draw(st.integers(0, most))
    owners = [draw(st.sampled_from([*names, "gone"])) for _ in range(count)]
    lags = {
        name: draw(st.dictionaries(st.integers(0, count - 1), st.integers(-3, WHOLE))) if count else {}
        for name in names
    }
    return cluster(
        [draw(st.none() | st.integers(0, 1000).map(MEGABYTE.__mul__)) for _ in range(count)],
        {name: [task for task in range(count) if owners[task] == name] for name in names},
        {name: {task: lag for task, lag in own.items() if lag != LATEST_OFFSET} for name, own in lags.items()},
        [draw(st.none() | st.floats(0, 1e5)) for _ in range(count)],
        [draw(st.sampled_from(["r0", "r1", "r0 r1"])) for _ in range(count)],
        {name: draw(st.sampled_from(["r0", "r1"])) for name in names},
        num_standby_replicas=draw(st.integers(0, 2)),
        max_warmup_replicas=draw(st.integers(1, 3)),
        rack_aware_assignment_strategy=draw(st.sampled_from(["none", "min_traffic"])),
    )
