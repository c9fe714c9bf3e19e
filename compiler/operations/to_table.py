"""The steps `to_table` and `to_stream`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from ...runtime.engine.operators.operator import Emit
from ..entries import Reader, scalar
from ..reading.source import MappingNode, Node, ScalarNode
from .base.context import FlowContext, References, Rejection, Step, StepAction
from .base.site import Shape
from .parts.tables import ToStream, ToTable

# `to_table`: makes a stream of upserts a table with the last row per key.


@dataclass(frozen=True)
class ToTableStep(StepAction):
    """`to_table:`, with an optional store."""

    store: ScalarNode | None
    emit: Emit

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        options = node if isinstance(node, MappingNode) else None
        return cls(scalar(options, "store"), reader.emit(options))

    def references(self) -> References:
        return References(stores=(self.store,) if self.store is not None else (), stores_result=True)

    def rejection(self, word: str, shape: Shape) -> Rejection | None:
        if not shape.is_table:
            return None
        return Rejection("HW501", f"'{word}' is for streams; this is already a table.", "Remove it.")

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Require a key."""
        if shape.open or not context.has_key(step, shape):
            return replace(shape, kind="table", rekey=None)
        shape = context.rekeyed(shape, step)
        store, _ = context.store(self.store, "key_value", shape.key, shape.value, shape)
        after = replace(shape, kind="table", emit=self.emit, store=store)
        return context.add(ToTable(store), shape, after, step)


# `to_stream`: makes each change of a table a record.


@dataclass(frozen=True)
class ToStreamStep(StepAction):
    """`to_stream`."""

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        return cls()

    def rejection(self, word: str, shape: Shape) -> Rejection | None:
        if shape.is_table:
            return None
        return Rejection("HW501", f"'{word}' is for tables; this is already a stream.", "Remove it.")

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        return context.add(ToStream(), shape, replace(shape, kind="stream", store=None), step)
