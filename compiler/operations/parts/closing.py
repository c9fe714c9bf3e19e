"""The operation of `emit: on_close`: of a windowed table, each row once, when its window closes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....runtime.operators.declarations import FinalResults
from ....runtime.topology import Store
from ...entries.node_values import scalar
from ...reading.nodes import Mapping, Scalar
from ..base.context import FlowContext, StepPlace
from ..base.edge import NOW
from ..base.operation import EVERY_CHANGE, Description, PythonOperation, TableUse
from ..base.shape import Shape
from ..base.site import PythonLayout, Site


def on_close(node: Mapping) -> Scalar | None:
    """The `emit: on_close` of a step; None if it has another `emit`, or none."""
    emit = scalar(node, "emit")
    return emit if emit is not None and emit.text == "on_close" else None


def closes(context: FlowContext, asked: Scalar | None, shape: Shape) -> bool:
    """Whether rows of this input have windows that close, if that is asked for; otherwise reports it."""
    if asked is None or shape.window is not None or shape.open:
        return True
    message = "Only windows close, and this aggregate has none."
    hint = "Put a `window` step right before it, or leave `emit` out."
    context.report("HW521", asked.position, message, hint)
    return False


def final(table: Shape, asked: Scalar | None) -> Shape:
    """What the steps behind it read: the table or, where it is asked for, a stream of its final rows."""
    return table if asked is None else replace(table, kind="stream", store=None)


def closed(context: FlowContext, store: Store, asked: Scalar | None, table: Shape, step: StepPlace) -> Shape:
    """The same, with the operation that makes that stream."""
    return table if asked is None else context.add(Closing(store), table, final(table, asked), step)


@dataclass(frozen=True)
class Closing(PythonOperation):
    """Turns a windowed table into a stream of its final rows."""

    store: Store

    has_effect = False
    null_keys = "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns read later."""
        return output - {NOW}

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """It knows by the updates which record closes a window."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """Nothing: it belongs to the aggregation."""
        return Description()

    def in_python(self, site: Site) -> PythonLayout:
        store = site.declared.stores[self.store.name]
        return PythonLayout((FinalResults(site.input.name, store, site.at),), (site.onward,))
