"""A project as the compiler understands it: topics, tables, stores, flows and their steps, typed, with their places.

References are still names (`Scalar`s, which keep their position); durations are milliseconds. What a file said wrong
has been reported when this is built, and is simply missing here.
"""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, field
from typing import Literal

from ..diagnostics import Position
from ..reading.nodes import Mapping, Scalar

Columns = AbstractMapping[str, "Column"]


@dataclass(frozen=True)
class Column:
    """A declared column. `type`: canonical Spark SQL, None where it is not a type (reported)."""

    name: Scalar
    type: str | None


@dataclass(frozen=True)
class PluginUse:
    """A plugin by name, with its options as they are written. `name` is None where the default is meant."""

    name: Scalar
    options: Mapping | None = None


@dataclass(frozen=True)
class TopicModel:
    """A topic that a file of `topics/` declares."""

    name: Scalar
    partitions: int
    key: Columns
    value: Columns
    windowed: bool = False
    timestamp: Scalar | None = None
    cleanup: str = "delete"
    retention_ms: int | None = None
    seed: Mapping | None = None
    on_error: str = "fail"


@dataclass(frozen=True)
class TableModel:
    """An entry of `tables:`. `emit`: `per_epoch` or `each_update`."""

    name: Scalar
    topic: Scalar
    store: Scalar | None = None
    is_global: bool = False
    emit: str = "per_epoch"


@dataclass(frozen=True)
class StoreModel:
    """An entry of `stores:`. `type` is None where it is left to the step; `retention` keeps the place."""

    name: Scalar
    type: str | None = None
    backend: PluginUse | None = None
    retention_ms: int | None = None
    retention: Scalar | None = None
    changelog: bool = True
    cleanup: str | None = None


@dataclass(frozen=True)
class FilterStep:
    """`filter: <predicate>`."""

    predicate: Scalar


@dataclass(frozen=True)
class ColumnsStep:
    """`select`, `with_columns` and `key_by`: columns by name, each with an expression."""

    kind: Literal["select", "with_columns", "key_by"]
    columns: tuple[tuple[Scalar, Scalar], ...]


@dataclass(frozen=True)
class DropStep:
    """`drop: [column, ...]`."""

    columns: tuple[Scalar, ...]


@dataclass(frozen=True)
class ExplodeStep:
    """`explode:` one column from an array."""

    column: Scalar
    array: Scalar


@dataclass(frozen=True)
class RepartitionStep:
    """`repartition:`, perhaps with another number of partitions."""

    partitions: int | None


@dataclass(frozen=True)
class JoinStep:
    """`join:` of a table or global table. `values` and `by` are None where they are omitted."""

    table: Scalar
    how: Literal["inner", "left"]
    by: tuple[tuple[Scalar, Scalar], ...] | None
    by_position: Position | None
    values: tuple[tuple[Scalar, Scalar], ...] | None


@dataclass(frozen=True)
class WindowStep:
    """`window:` tumbling or hopping."""

    size_ms: int
    advance_ms: int
    grace_ms: int


@dataclass(frozen=True)
class AggregateStep:
    """`aggregate:`."""

    store: Scalar | None
    emit: str
    values: tuple[tuple[Scalar, Scalar], ...]


@dataclass(frozen=True)
class ToTableStep:
    """`to_table:`."""

    store: Scalar | None
    emit: str


@dataclass(frozen=True)
class ToStreamStep:
    """`to_stream`."""


@dataclass(frozen=True)
class BranchCase:
    """One flow of a `branch`; without `when`: the rest."""

    flow: Scalar
    when: Scalar | None


@dataclass(frozen=True)
class BranchStep:
    """`branch:`."""

    cases: tuple[BranchCase, ...]


@dataclass(frozen=True)
class LaterStep:
    """A step whose word is reserved; reported already."""


Action = (
    FilterStep
    | ColumnsStep
    | DropStep
    | ExplodeStep
    | RepartitionStep
    | JoinStep
    | WindowStep
    | AggregateStep
    | ToTableStep
    | ToStreamStep
    | BranchStep
    | LaterStep
)


@dataclass(frozen=True)
class Step:
    """One step: its word in the file, its optional name, and what it does (None where that was reported)."""

    word: Scalar
    name: Scalar | None
    action: Action | None

    @property
    def at(self) -> str:
        """`file:line`, as generated code names it."""
        return place(self.word.position)


@dataclass(frozen=True)
class FlowModel:
    """An entry of `flows:`."""

    name: Scalar
    sources: tuple[Scalar, ...]
    steps: tuple[Step, ...]
    to: Scalar | None = None


@dataclass(frozen=True)
class AssignmentModel:
    """The `assignment:` section; None for what is not said. `rack_aware`: the place of its strategy."""

    assignor: PluginUse | None = None
    standby_replicas: int = 0
    max_warmup_replicas: int = 2
    acceptable_recovery_lag: int = 10_000
    probing_rebalance_interval_ms: int = 600_000
    rack_aware_strategy: str = "none"
    rack_aware_tags: tuple[str, ...] = ()
    rack_aware_traffic_cost: int | None = None
    rack_aware_non_overlap_cost: int | None = None
    rack_aware: Scalar | None = None


@dataclass(frozen=True)
class TopologyModel:
    """A file of `topologies/`."""

    name: Scalar
    description: str
    tables: AbstractMapping[str, TableModel]
    stores: AbstractMapping[str, StoreModel]
    flows: AbstractMapping[str, FlowModel]
    assignment: AssignmentModel = AssignmentModel()
    restore: PluginUse | None = None

    @property
    def file(self) -> str:
        """Its file, relative to the project's root."""
        return self.name.position.file


@dataclass(frozen=True)
class ProjectModel:
    """The whole project."""

    name: str
    version: str
    topics: AbstractMapping[str, TopicModel] = field(default_factory=dict)
    topologies: AbstractMapping[str, TopologyModel] = field(default_factory=dict)


def place(position: Position) -> str:
    """`file:line`."""
    return f"{position.file}:{position.line}"
