"""`reduce`: a Python function combines the row of a key, or of a key and window, with each new record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from ...runtime.engine.operators.aggregations import Reduce
from ...runtime.engine.operators.operator import Emit
from ...runtime.ir.functions import PythonFunction
from ...runtime.ir.topology import Store
from ..entries import Reader, scalar
from ..reading.source import MappingNode, Node, ScalarNode
from .base.context import FlowContext, References, Step, StepAction
from .base.operation import Description, Processor, PythonOperation
from .base.site import UNKNOWN, PythonLayout, Shape, Site
from .parts.aggregation import add_on_close, check_on_close, final_results, group_store, grouped_shape, on_close


@dataclass(frozen=True)
class ReduceStep(StepAction):
    """`reduce:`, by the key, and by window behind a `window` step."""

    function: ScalarNode
    store: ScalarNode | None
    emit: Emit
    on_close: ScalarNode | None = None

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        if not isinstance(node, MappingNode):
            return None
        function = scalar(node, "function")
        return None if function is None else cls(function, scalar(node, "store"), reader.emit(node), on_close(node))

    def references(self) -> References:
        return References(stores=(self.store,) if self.store is not None else (), stores_result=True)

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Require a key, and a function with two parameters."""
        if not check_on_close(context, self.on_close, shape):
            return UNKNOWN
        reducer = context.functions.find(self.function)
        what = "`reduce` calls its function"
        fits = reducer is not None and context.functions.fits(self.function, reducer.loaded, ("old", "new"), what)
        has_key = shape.open or context.has_key(step, shape)
        after = grouped_shape(shape, shape.value, self.emit)
        if reducer is None or not fits or not has_key or shape.open:
            return final_results(after, self.on_close)
        shape = context.rekeyed(shape, step)
        store = group_store(context, self.store, shape, shape.value)
        after = replace(after, partitions=shape.partitions, store=store)
        table = context.add(Reduction(store, reducer.function, self.on_close is not None), shape, after, step)
        return add_on_close(context, store, self.on_close, table, step)


@dataclass(frozen=True)
class Reduction(PythonOperation):
    """Reduces the values of a group by a Python function. `final`: only final rows are emitted."""

    store: Store
    function: PythonFunction
    final: bool

    has_effect = True
    null_keys = "dropped"

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        text = f"reduce by {self.function.name}"
        return Description(text, (Processor("KSTREAM-REDUCE", stores=(self.store.name,)),))

    def in_python(self, site: Site) -> PythonLayout:
        site.declare(self.store)
        emit, old = site.changes(frozenset(), True)
        headers = self.final and self.store.type == "session"
        node = Reduce(site.input.name, self.store, self.function, emit, old, headers, site.at)
        return PythonLayout((node,), (site.whole,))
