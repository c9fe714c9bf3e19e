"""Tasks and settings as assignors see them, made from the topology and from what the log has measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..log.state import LogState
from ..records.schema import changelog_topic
from ..task_id import TaskId
from ..topology import Assignment, Subtopology, Topology
from .api.cluster import AssignmentConfigs, TaskInfo, TaskTopicPartition

Racks = Callable[[int], frozenset[str] | None]
"""The racks with replicas of a partition, by its number; None: unknown."""


def tasks_of(topology: Topology) -> dict[TaskId, Subtopology]:
    """All tasks, each with the subtopology that it runs."""
    return {
        TaskId(part.number, partition, part.name): part
        for part in topology.subtopologies
        for partition in range(part.partitions)
    }


def task_info(application: str, task: TaskId, part: Subtopology, racks: Racks = lambda _: None) -> TaskInfo:
    """A task with its stores, the partitions it reads and the changelogs it writes."""
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
    """The task with the size of its changelogs and the rate at which it took records."""
    changelogs = [each.topic for each in task.topic_partitions if each.is_changelog]
    return replace(
        task,
        state_bytes=sum(log.size(name, task.id.partition) for name in changelogs) if task.is_stateful else None,
        records_per_second=log.tasks.records_per_second(task.id.key(log.application)),
    )


def configs_of(assignment: Assignment) -> AssignmentConfigs:
    """The settings of the `assignment:` section, as assignors see them."""
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
