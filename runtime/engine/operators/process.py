"""The operator of the `process` step: an object of a project's class processes one record after another."""

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
    """Passes each record to an object of a project's class, which forwards records and keeps rows in stores.

    `name`: of the processor in its topology. Its schedules are kept under this name. `into`: output edge -> the columns
    of the forwarded records. If empty, records are forwarded to `flow`, with the columns of the input. `named`: whether
    the class names the output edge of each record. `options`: arguments of the class. The pipe adds `sources`, the
    sources of the task, if another stage reads them, and `turn`, its place among the processors of the subtopology.

    If the class fails for a record, a RowFailedError is raised. The epoch is then rebuilt without the record, so no
    store has changes from it. An error in `init`, `close` or a punctuation belongs to no record.
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

    is_stateful = True
    """True even without a store, because its object may remember records."""

    @property
    def makes(self) -> tuple[str, ...]:
        return tuple(self.into) or (self.flow,)

    @property
    def touches(self) -> Touched:
        """All input and output. Input that it does not store may still influence other records."""
        return Touched(before=self.reads, after=self.makes)

    @property
    def text(self) -> str:
        """The step without its code, which is in `settings`."""
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
