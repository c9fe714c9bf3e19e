"""What an assignor sees: tasks, clients, and what was asked for. Names are those of KIP-924.

Everything is plain data; mappings and sets iterate in any order, so an assignor that must be deterministic visits
them sorted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NewType

from ..tasks.task_id import TaskId

ProcessId = NewType("ProcessId", str)
"""Names a client; stays with its state directory over restarts."""


class UnknownLagError(LookupError):
    """A lag was asked for that was not computed: see `ApplicationState.client_states`."""


@dataclass(frozen=True)
class TaskInfo:
    """A task to be assigned. `state_store_names`: its local stores; `topic_partitions`: its input and changelogs."""

    id: TaskId
    state_store_names: frozenset[str] = frozenset()
    topic_partitions: frozenset[TaskTopicPartition] = frozenset()

    @property
    def is_stateful(self) -> bool:
        """Whether it has a local store."""
        return bool(self.state_store_names)


@dataclass(frozen=True)
class TaskTopicPartition:
    """A partition that a task reads, or writes as a changelog. `racks`: where replicas lie; None: unknown."""

    topic: str
    partition: int
    is_source: bool
    is_changelog: bool
    racks: frozenset[str] | None = None


@dataclass(frozen=True)
class AssignmentConfigs:
    """What the topology asks for. Costs of None: the assignor's own defaults. The interval is in ms."""

    acceptable_recovery_lag: int = 10_000
    max_warmup_replicas: int = 2
    num_standby_replicas: int = 0
    probing_rebalance_interval_ms: int = 600_000
    rack_aware_assignment_tags: tuple[str, ...] = ()
    rack_aware_traffic_cost: int | None = None
    rack_aware_non_overlap_cost: int | None = None
    rack_aware_assignment_strategy: str = "none"


@dataclass(frozen=True)
class ClientState:
    """One client (KIP-924: KafkaStreamsState).

    `lags`: changelog records that its copy of a stateful task is behind, -2 for a running owner, -3 unknown; None
    where lags were not computed.
    """

    process_id: ProcessId
    num_processing_threads: int
    previous_active_tasks: frozenset[TaskId] = frozenset()
    previous_standby_tasks: frozenset[TaskId] = frozenset()
    client_tags: Mapping[str, str] = field(default_factory=dict)
    rack_id: str | None = None
    host: str = ""
    lags: Mapping[TaskId, int] | None = None

    def lag_for(self, task: TaskId) -> int:
        """How far this client's copy of a stateful task is behind. Raises UnknownLagError."""
        if self.lags is None or task not in self.lags:
            raise UnknownLagError(f"no lag of task {task} on {self.process_id}")
        return self.lags[task]

    def prev_tasks_by_lag(self) -> list[TaskId]:
        """The tasks it had, those with the least lag first. Raises UnknownLagError."""
        return sorted(
            self.previous_active_tasks | self.previous_standby_tasks, key=lambda task: (self.lag_for(task), task)
        )


@dataclass(frozen=True)
class ApplicationState:
    """All that is to be assigned, and to whom."""

    all_tasks: Mapping[TaskId, TaskInfo]
    clients: Mapping[ProcessId, ClientState]
    assignment_configs: AssignmentConfigs = AssignmentConfigs()
