"""`join`, as it is read: which of the joins it is follows from what is written and from what the flow is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ...language.node_values import entries, mapping, pairs, scalar, text
from ...language.reader import Reader
from ...reading.nodes import Mapping as MappingNode
from ...reading.nodes import Node
from ..base.context import FlowContext
from ..base.shape import Shape
from ..base.step import References, Refusal, Step, StepAction
from .columns import WrittenJoin
from .lookup import check_lookup


@dataclass(frozen=True)
class JoinStep(StepAction):
    """`join:` with a table or a global table."""

    join: WrittenJoin

    passes_tombstones = False

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        if not isinstance(node, MappingNode):
            return None
        if "stream" in node:
            reader.later(node.key_position("stream"), "The join of two streams is")
            return None
        table = scalar(node, "table")
        if table is None:
            return None
        by = mapping(node, "by")
        return cls(
            WrittenJoin(
                table,
                "left" if text(node, "type", "inner") == "left" else "inner",
                None if by is None else tuple(entries(by)),
                None if by is None else node.key_position("by"),
                reader.columns(pairs(node, "values")) if "values" in node else None,
            )
        )

    def references(self) -> References:
        return References(tables=(self.join.table,))

    def refusal(self, word: str, shape: Shape) -> Refusal | None:
        if not shape.is_table:
            return None
        message = "The join of two tables is not there yet; 'join' of a table is reserved for it."
        return Refusal("HW502", message, "Put `to_stream` before it.")

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Check the kind of join that it is for such a flow."""
        return check_lookup(context, step, self.join, shape)
