"""`reduce`: a Python function makes one row of the row of a key, or of a key and window, and of each record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from ...runtime.ir.declarations import Emit, Reduce
from ...runtime.ir.functions import PythonFunction
from ...runtime.ir.topology import Store
from ..entries import Reader, scalar
from ..reading.source import MappingNode, Node, ScalarNode
from .base.context import FlowContext, References, Rejection, Step, StepAction, streams_only
from .base.operation import EVERY_CHANGE, Description, Processor, PythonOperation, TableUse
from .base.site import UNKNOWN, PythonLayout, Shape, Site
from .parts.aggregation import behind_group, closed, closes, final, group_store, on_close


@dataclass(frozen=True)
class ReduceStep(StepAction):
    """`reduce:`, by the key, and by window if a `window` step stands before."""

    function: ScalarNode
    store: ScalarNode | None
    emit: Emit
    on_close: ScalarNode | None = None

    passes_tombstones = False

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        if not isinstance(node, MappingNode):
            return None
        function = scalar(node, "function")
        return None if function is None else cls(function, scalar(node, "store"), reader.emit(node), on_close(node))

    def references(self) -> References:
        return References(stores=(self.store,) if self.store is not None else (), stores_result=True)

    def rejection(self, word: str, shape: Shape) -> Rejection | None:
        return streams_only(word, shape)

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Require a key, and a function of two values."""
        if not closes(context, self.on_close, shape):
            return UNKNOWN
        found = context.functions.find(self.function)
        what = "`reduce` calls its function"
        fits = found is not None and context.functions.fits(self.function, found.loaded, ("old", "new"), what)
        has_key = shape.open or context.has_key(step, shape)
        after = behind_group(shape, shape.value, self.emit)
        if found is None or not fits or not has_key or shape.open:
            return final(after, self.on_close)
        shape = context.rekeyed(shape, step)
        store = group_store(context, self.store, shape, shape.value)
        after = replace(after, partitions=shape.partitions, store=store)
        table = context.add(Reduction(store, found.function, self.on_close is not None), shape, after, step)
        return closed(context, store, self.on_close, table, step)


@dataclass(frozen=True)
class Reduction(PythonOperation):
    """Reduces the values of each group by a Python function. `final`: whether only final rows go on."""

    store: Store
    function: PythonFunction
    final: bool

    has_effect = True
    null_keys = "dropped"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """A function gets all columns."""
        return offered

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """Its input is never a table."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        text = f"reduce by {self.function.name}"
        return Description(text, (Processor("KSTREAM-REDUCE", stores=(self.store.name,)),))

    def in_python(self, site: Site) -> PythonLayout:
        edge, shape = site.input, site.output.shape
        site.declared.stores[self.store.name] = self.store
        emit, old = site.changes(frozenset(), True)
        headers = self.final and self.store.type == "session"
        node = Reduce(edge.name, self.store, self.function, emit, old, headers, site.at)
        return PythonLayout((node,), (replace(edge, shape=shape, value=tuple(shape.value)),))
