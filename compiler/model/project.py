"""A project as typed data: topics, and topologies with their tables, stores, flows and steps.

Names, durations and missing values are as in `entries.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...runtime.ir.topology import Assignment, OnError
from ..entries import PluginUse, StoreModel, TableModel, TopicModel
from ..operations.base.context import References, Step
from ..reading.source import ScalarNode


@dataclass(frozen=True)
class FlowModel:
    """An entry of `flows:`.

    `to`: the topics that it writes. `route`: the expression that chooses one of them for each record; None if it writes
    at most one. `on_error`: None if the policies of its topics apply. `on_error_at`: the scalar of `on_error`. `start`:
    where it starts in its topics; None: at the first records. `lost`: its `to` could not be read, which was reported.
    `was`: its former names, the latest first.
    """

    name: ScalarNode
    sources: tuple[ScalarNode, ...]
    steps: tuple[Step, ...]
    to: tuple[ScalarNode, ...] = ()
    route: ScalarNode | None = None
    description: str = ""
    on_error: OnError | None = None
    on_error_at: ScalarNode | None = None
    start: ScalarNode | None = None
    lost: bool = False
    was: tuple[ScalarNode, ...] = ()

    @property
    def reads(self) -> tuple[ScalarNode, ...]:
        """Its sources, and the streams that its steps join."""
        return (*self.sources, *(stream for step in self.references for stream in step.streams))

    @property
    def references(self) -> tuple[References, ...]:
        """The names in its steps, without steps that could not be read."""
        return tuple(step.action.references() for step in self.steps if step.action is not None)


@dataclass(frozen=True)
class AssignmentModel:
    """The `assignment:` section. `settings`: without the assignor. `rack_aware`: the scalar of the strategy."""

    assignor: PluginUse | None = None
    settings: Assignment = field(default_factory=Assignment)
    rack_aware: ScalarNode | None = None


@dataclass(frozen=True)
class TopologyModel:
    """A file of `topologies/`.

    `lost`: its sections that could not be read, which was reported. `was`: its former names, the latest first.
    """

    name: ScalarNode
    description: str
    tables: Mapping[str, TableModel]
    stores: Mapping[str, StoreModel]
    flows: Mapping[str, FlowModel]
    assignment: AssignmentModel = AssignmentModel()
    restore: PluginUse | None = None
    lost: frozenset[str] = frozenset()
    was: tuple[ScalarNode, ...] = ()

    @property
    def file(self) -> str:
        """Its file, relative to the project's root."""
        return self.name.position.file


@dataclass(frozen=True)
class ProjectModel:
    """The whole project.

    `complete`: all topics are known, including those written by flows. Otherwise a part that may name a topic could not
    be read, which was reported.
    """

    name: str
    version: str
    topics: Mapping[str, TopicModel] = field(default_factory=dict)
    topologies: Mapping[str, TopologyModel] = field(default_factory=dict)
    complete: bool = True
