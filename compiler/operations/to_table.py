"""`to_table`, and each entry of `tables:`: turns a stream of upserts into a table with the last row of each key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from ...runtime.operators.declarations import Emit, Table
from ...runtime.topology import Store
from ..language.node_values import scalar
from ..language.reader import Reader
from ..reading.nodes import Mapping, Node, Scalar
from .base.context import FlowContext
from .base.operation import EVERY_CHANGE, Description, Processor, PythonOperation, TableUse
from .base.shape import Shape
from .base.site import PythonLayout, Site
from .base.step import References, Refusal, Step, StepAction


@dataclass(frozen=True)
class ToTableStep(StepAction):
    """`to_table:`, with an optional store."""

    store: Scalar | None
    emit: Emit

    passes_tombstones = False

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        options = node if isinstance(node, Mapping) else None
        return cls(scalar(options, "store"), reader.emit(options))

    def references(self) -> References:
        return References(stores=(self.store,) if self.store is not None else (), stores_result=True)

    def refusal(self, word: str, shape: Shape) -> Refusal | None:
        if not shape.is_table:
            return None
        return Refusal("HW501", f"'{word}' is for streams; this is a table already.", "Remove it.")

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Require a key."""
        if shape.open or not context.has_key(step, shape):
            return replace(shape, kind="table", rekey=None)
        shape = context.rekeyed(shape, step)
        store, _ = context.store(self.store, "key_value", shape.key, shape.value, shape)
        after = replace(shape, kind="table", emit=self.emit, store=store)
        return context.add(ToTable(store), shape, after, step)


@dataclass(frozen=True)
class ToTable(PythonOperation):
    """Turns a stream of upserts into a table. `source`: whether it is an entry of `tables:`."""

    store: Store
    source: bool = False

    has_effect = True
    null_keys = "dropped"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """A store has all columns."""
        return offered

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """Its input is never a table."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        role = "KTABLE-SOURCE" if self.source else "KSTREAM-TOTABLE"
        return Description("" if self.source else "to_table", (Processor(role, stores=(self.store.name,)),))

    def in_python(self, site: Site) -> PythonLayout:
        edge, shape = site.input, site.output.shape
        site.declared.stores[self.store.name] = self.store
        emit, old = site.changes(frozenset(), True)
        node = Table(edge.name, self.store, emit, old, site.at)
        return PythonLayout((node,), (replace(edge, shape=shape, value=tuple(shape.value)),))
