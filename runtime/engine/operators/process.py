"""The operator of the `process` step: an object of a project's class gets one record after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...dataclass_json import compact
from ...ir.functions import PythonFunction
from ...ir.topology import Store
from .operator import EdgeColumns, Flow, Lineage, Place, Stores, Touched
from .topics import Source

if TYPE_CHECKING:
    from ..execution.node import Edges, TaskEpoch


@dataclass(frozen=True)
class Process(Stores):
    """Gives each record to an object of a project's class, which forwards records and keeps rows in stores.

    `name`: of the processor, in its topology: by it the times of its punctuations are kept. `into`: the columns of the
    records that it forwards, by edge; without any that is the flow, and their columns are those that come. `named`:
    whether it says to which of these edges each one goes. `options`: arguments of the class. The pipe adds `sources`,
    what the task reads, where another stage does that, and `turn`, its place among the processors of the subtopology.

    A record for which it fails is raised as RowFailedError: the epoch is then rebuilt without it, so nothing of it is
    left in stores. A failure elsewhere, in `init`, `close` or a punctuation, is no record's fault.
    """

    flow: str
    function: PythonFunction
    name: str
    into: Mapping[str, Flow] = field(default_factory=dict)
    named: bool = False
    stores: tuple[Store, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    at: Place = ""
    sources: tuple[Source, ...] = ()
    turn: int = 0

    old_rows = "derived"
    releases = "at once"
    needs_all = False

    is_stateful = True
    """Also without a store: its object may remember records."""

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.flow,)

    @property
    def makes(self) -> tuple[str, ...]:
        return tuple(self.into) or (self.flow,)

    @property
    def touches(self) -> Touched:
        """All that reaches it, as what it has not stored may decide about other records too; and all that it makes."""
        return Touched(before=self.reads, after=self.makes)

    @property
    def text(self) -> str:
        """Without the code, which is a setting."""
        parts = [f"process by {self.function.name}"]
        if self.options:
            parts.append(f"options {compact(dict(self.options))}")
        if self.stores:
            parts.append(f"stores {', '.join(store.name for store in self.stores)}")
        for name, flow in self.into.items():
            into = f" to {name}" if self.named else ""
            parts.append(f"forwards key ({flow.key}), value ({flow.value}){into}")
        return ", ".join(parts)

    @property
    def text_edges(self) -> tuple[str, ...]:
        return (self.flow,)

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        edge = edges[self.flow]
        inputs = edge.of_python()
        made = {name: EdgeColumns.from_flow(flow) for name, flow in self.into.items()} or {self.flow: edge}
        return {name: columns.with_inputs(inputs) for name, columns in made.items()}

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Raises RowFailedError, FunctionError."""
        from ..execution.processing.process import process

        process(self, edges, epoch)
