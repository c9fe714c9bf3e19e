"""Balances tasks over clients and threads."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from ..ir.topology import Assignment, Subtopology, Topology
from ..log.state import LogState
from ..records.schema import changelog_topic
from ..task_id import TaskId
from .cluster import AssignmentConfigs, TaskInfo, TaskTopicPartition
from .placement import Placement

# Balances loads: moves tasks from heavier to lighter clients while that brings their loads closer together.


def balance_actives(placement: Placement) -> None:
    """Move active tasks until no move improves the balance. Call it before any standby is placed."""

    _balance(placement, placement.active, placement.move_active, None)


def balance_standbys(placement: Placement, allowed: Callable[[int, int], bool] | None) -> None:
    """Move standbys until no move improves the balance.

    `allowed`: whether standbys may move from one client to another; None: always.
    """
    _balance(placement, placement.standby, placement.move_standby, allowed)


def _balance(
    placement: Placement,
    tasks: list[set[int]],
    move: Callable[[int, int, int], None],
    allowed: Callable[[int, int], bool] | None,
) -> None:
    """Visit all ordered pairs of clients, and repeat until a whole round moves nothing."""
    load = placement.load
    clients = range(len(load))
    moved = True
    while moved:
        moved = False
        for source in clients:
            for destination in clients:
                # `_closer` compares loads too. The comparison here saves most of its calls.
                if load[source] <= load[destination] or not _closer(placement, source, destination):
                    continue
                if allowed is not None and not allowed(source, destination):
                    continue
                for task in sorted(tasks[source]):
                    if not placement.has(destination, task):
                        move(source, destination, task)
                        moved = True
                        if not _closer(placement, source, destination):
                            break


def _closer(placement: Placement, source: int, destination: int) -> bool:
    """Whether moving one task leaves the source no lighter than the destination, and their loads closer together."""
    threads, count = placement.threads, placement.count
    skew = placement.load[source] - placement.load[destination]
    after = (count[source] - 1) / threads[source] - (count[destination] + 1) / threads[destination]
    return skew > 0 and 0 <= after < skew


# Assigns the tasks of a client to its threads.


def assign_to_threads(tasks: Collection[TaskId], threads: int) -> tuple[tuple[TaskId, ...], ...]:
    """The tasks of each thread, in the order in which they run.

    Tasks are dealt by id, so the numbers of tasks differ by at most one, and partitions of one subtopology go to
    different threads. The result is deterministic.
    """
    in_order = sorted(tasks)
    return tuple(tuple(in_order[thread::threads]) for thread in range(threads))


# Tasks and settings for assignors, from the topology and from measurements in the log.

Racks = Callable[[int], frozenset[str] | None]
"""Number of a partition -> the racks with its replicas; None: unknown."""


def tasks_of(topology: Topology) -> dict[TaskId, Subtopology]:
    """All tasks with their subtopologies."""
    return {
        TaskId(part.number, partition, part.name): part
        for part in topology.subtopologies
        for partition in range(part.partitions)
    }


def task_info(application: str, task: TaskId, part: Subtopology, racks: Racks = lambda _: None) -> TaskInfo:
    """A task with its stores, its source partitions and its changelogs."""
    sources = [topic.name for topic in part.sources if task.partition < topic.partitions]
    changelogs = [changelog_topic(application, store.name) for store in part.stores if store.changelog]
    replicas = racks(task.partition)
    return TaskInfo(
        task,
        frozenset(store.name for store in part.stores),
        frozenset(
            [TaskTopicPartition(name, task.partition, True, False, replicas) for name in sources]
            + [TaskTopicPartition(name, task.partition, False, True, replicas) for name in changelogs]
        ),
    )


def measured(task: TaskInfo, log: LogState) -> TaskInfo:
    """The task with the measured size of its changelogs and rate of its records."""
    changelogs = [partition.topic for partition in task.topic_partitions if partition.is_changelog]
    return replace(
        task,
        state_bytes=sum(log.size(name, task.id.partition) for name in changelogs) if task.is_stateful else None,
        records_per_second=log.tasks.records_per_second(task.id.key(log.application)),
    )


def configs_of(assignment: Assignment) -> AssignmentConfigs:
    """The `assignment:` section as an assignor's settings."""
    return AssignmentConfigs(
        acceptable_recovery_lag=assignment.acceptable_recovery_lag,
        max_warmup_replicas=assignment.max_warmup_replicas,
        num_standby_replicas=assignment.standby_replicas,
        probing_rebalance_interval_ms=assignment.probing_rebalance_interval_ms,
        rack_aware_assignment_tags=assignment.rack_aware_tags,
        rack_aware_traffic_cost=assignment.rack_aware_traffic_cost,
        rack_aware_non_overlap_cost=assignment.rack_aware_non_overlap_cost,
        rack_aware_assignment_strategy=assignment.rack_aware_strategy,
    )
