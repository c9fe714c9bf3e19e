"""The input of an assignor: tasks, clients and settings. Names are those of KIP-924.

All of it is immutable plain data. Mappings and sets have no fixed order, so a deterministic assignor has to sort them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NewType, TypeVar

from ...errors import HeadwaterError
from ..task_id import LATEST_OFFSET as LATEST_OFFSET
from ..task_id import TaskId

ProcessId = NewType("ProcessId", str)
"""The name of a client. It belongs to the client's state directory and survives restarts."""

UNKNOWN_LAG = -3
"""An unknown lag."""

UNBOUNDED_LAG = 2**63 - 1
"""An acceptable recovery lag with which every copy counts as caught up."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class UnknownLagError(HeadwaterError, LookupError):
    """A requested lag was not computed: see `ApplicationState.client_states`.

    `task`, `process_id`: of the lag; None if no lag is known at all.
    """

    def __init__(self, problem: str, task: TaskId | None = None, process_id: ProcessId | None = None) -> None:
        super().__init__(problem)
        self.task = task
        self.process_id = process_id


class NoClientsError(HeadwaterError):
    """There are no clients to assign tasks to."""

    def __init__(self) -> None:
        super().__init__("there are no clients to assign tasks to")


class AssignmentConfigError(HeadwaterError):
    """A setting of the assignment is too small. `field`: of AssignmentConfigs; `least`: the smallest valid value."""

    def __init__(self, field: str, value: int, least: int) -> None:
        super().__init__(f"{field} is {value}, but must be at least {least}")
        self.field = field
        self.value = value
        self.least = least


@dataclass(frozen=True)
class TaskInfo:
    """A task to be assigned. `state_store_names`: its local stores. `topic_partitions`: its sources and changelogs.

    Measured values, which KIP-924 does not have, None if unknown: `state_bytes`, the size of its stores;
    `records_per_second`, its input rate.
    """

    id: TaskId
    state_store_names: frozenset[str] = frozenset()
    topic_partitions: frozenset[TaskTopicPartition] = frozenset()
    state_bytes: int | None = None
    records_per_second: float | None = None

    @property
    def is_stateful(self) -> bool:
        """Whether it has a local store."""
        return bool(self.state_store_names)

    @property
    def is_changelogged(self) -> bool:
        """Whether one of its stores has a changelog. Only such a task can have standbys."""
        return any(partition.is_changelog for partition in self.topic_partitions)


@dataclass(frozen=True)
class TaskTopicPartition:
    """A source or changelog partition of a task. `racks`: the racks with its replicas; None: unknown."""

    topic: str
    partition: int
    is_source: bool
    is_changelog: bool
    racks: frozenset[str] | None = None


@dataclass(frozen=True)
class AssignmentConfigs:
    """The settings of the topology. A cost of None: the assignor's default. The interval is in ms."""

    acceptable_recovery_lag: int = 10_000
    max_warmup_replicas: int = 2
    num_standby_replicas: int = 0
    probing_rebalance_interval_ms: int = 600_000
    rack_aware_assignment_tags: tuple[str, ...] = ()
    rack_aware_traffic_cost: int | None = None
    rack_aware_non_overlap_cost: int | None = None
    rack_aware_assignment_strategy: str = "none"

    def __post_init__(self) -> None:
        """Raises AssignmentConfigError."""
        for name, least in (("acceptable_recovery_lag", 0), ("max_warmup_replicas", 1), ("num_standby_replicas", 0)):
            if getattr(self, name) < least:
                raise AssignmentConfigError(name, getattr(self, name), least)


@dataclass(frozen=True)
class ClientState:
    """One client (KIP-924: KafkaStreamsState).

    `consumer_ids`: names of its threads. `lags`: stateful task -> lag of the client's copy, in changelog records;
    LATEST_OFFSET (-2) for the running owner, UNKNOWN_LAG (-3) for an unknown lag. None: lags were not computed.
    """

    process_id: ProcessId
    num_processing_threads: int
    previous_active_tasks: frozenset[TaskId] = frozenset()
    previous_standby_tasks: frozenset[TaskId] = frozenset()
    client_tags: Mapping[str, str] = field(default_factory=dict)
    rack_id: str | None = None
    host: str = ""
    lags: Mapping[TaskId, int] | None = None
    consumer_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Make the mappings read-only, so that an assignor cannot change them."""
        object.__setattr__(self, "client_tags", _read_only(self.client_tags))
        object.__setattr__(self, "lags", None if self.lags is None else _read_only(self.lags))

    def lag_for(self, task: TaskId) -> int:
        """The lag of this client's copy of a stateful task, in changelog records. Raises UnknownLagError."""
        if self.lags is None or task not in self.lags:
            raise UnknownLagError(f"no lag of task {task} on {self.process_id}", task, self.process_id)
        return self.lags[task]

    def prev_tasks_by_lag(self) -> list[TaskId]:
        """The previous tasks by ascending lag. Raises UnknownLagError."""
        return sorted(
            self.previous_active_tasks | self.previous_standby_tasks, key=lambda task: (self.lag_for(task), task)
        )


Lags = Mapping[ProcessId, Mapping[TaskId, int]]
"""Client -> stateful task -> lag, see `ClientState.lags`."""


@dataclass(frozen=True)
class ApplicationState:
    """The tasks to be assigned, and the clients.

    `clients`: without lags. `lookup_lags`: returns the lags of all clients; it is called only if an assignor needs
    them. `leader`: the client that requests follow-up assignments, None: the first by process id. `now_ms`: since 1970.
    """

    all_tasks: Mapping[TaskId, TaskInfo]
    clients: Mapping[ProcessId, ClientState]
    assignment_configs: AssignmentConfigs = AssignmentConfigs()
    lookup_lags: Callable[[], Lags] | None = None
    leader: ProcessId | None = None
    now_ms: int = 0

    def __post_init__(self) -> None:
        """Make the mappings read-only, so that an assignor cannot change them."""
        object.__setattr__(self, "all_tasks", _read_only(self.all_tasks))
        object.__setattr__(self, "clients", _read_only(self.clients))

    def client_states(self, compute_task_lags: bool) -> Mapping[ProcessId, ClientState]:
        """The clients (KIP-924: kafkaStreamsStates). `compute_task_lags`: with their lags.

        Raises all errors of the lookup, and UnknownLagError if lags cannot be looked up.
        """
        if not compute_task_lags:
            return self.clients
        if self.lookup_lags is None:
            if all(client.lags is not None for client in self.clients.values()):
                return self.clients
            raise UnknownLagError("the lags of the clients' copies are unknown")
        lags = self.lookup_lags()
        return _read_only({name: replace(client, lags=lags.get(name, {})) for name, client in self.clients.items()})


def _read_only(mapping: Mapping[_Key, _Value]) -> Mapping[_Key, _Value]:
    """A read-only view of a mapping."""
    return mapping if isinstance(mapping, MappingProxyType) else MappingProxyType(mapping)
