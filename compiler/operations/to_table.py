"""`to_table`: turns a stream of upserts into a table with the last row of each key."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from ...runtime.operators.declarations import Emit
from ..entries.node_values import scalar
from ..entries.reader import Reader
from ..reading.nodes import Mapping, Node, Scalar
from .base.context import FlowContext
from .base.shape import Shape
from .base.step import References, Refusal, Step, StepAction
from .parts.tables import ToTable


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
