"""`join`, as it is read: which of the joins it is follows from what is written and from what the flow is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ....runtime.operators.declarations import TableHow
from ...entries.node_values import entries, mapping, pairs, scalar
from ...entries.reader import Reader
from ...reading.nodes import Mapping as MappingNode
from ...reading.nodes import Node
from ..base.context import FlowContext
from ..base.shape import Shape
from ..base.step import References, Refusal, Step, StepAction
from .columns import WrittenJoin
from .foreign_key import EXPIRED, FOREIGN_KEY_STORES, check_foreign_key
from .lookup import check_lookup
from .streams import StreamJoinStep
from .tables import check_tables

_COLUMN = re.compile(r"((key|value)\.)?\w+")
"""An expression that is a column of the flow, and has not to be computed."""

_HOW: Mapping[str, TableHow] = {"inner": "inner", "left": "left", "outer": "outer"}


@dataclass(frozen=True)
class JoinStep(StepAction):
    """`join:` with a table or a global table; with a stream it is another kind."""

    join: WrittenJoin

    kinds = (StreamJoinStep,)
    passes_tombstones = False

    @classmethod
    def read(cls, node: Node, reader: Reader) -> StepAction | None:
        if not isinstance(node, MappingNode):
            return None
        if "stream" in node:
            return StreamJoinStep.read(node, reader)
        table = scalar(node, "table")
        if table is None:
            return None
        by, how = mapping(node, "by"), scalar(node, "type")
        return cls(
            WrittenJoin(
                table,
                "inner" if how is None else _HOW[how.text],
                table.position if how is None else how.position,
                None if by is None else tuple(entries(by)),
                None if by is None else node.key_position("by"),
                reader.columns(pairs(node, "values")) if "values" in node else None,
            )
        )

    def references(self) -> References:
        return References(tables=(self.join.table,))

    def foreign_key_stores(self, stored: bool, expires: bool) -> tuple[str, ...]:
        """The ends of the names of the stores of a join by a foreign key.

        `stored`: whether its input is in a store. `expires`: whether the rows of its input do.
        """
        given = stored and all(_COLUMN.fullmatch(sql.text) for _, sql in self.join.by or ())
        return (*FOREIGN_KEY_STORES[given:], *((EXPIRED,) if expires else ()))

    def refusal(self, word: str, shape: Shape) -> Refusal | None:
        return None

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Check the kind of join that it is for such a flow."""
        if shape.is_table:
            kind = check_tables if self.join.by is None else check_foreign_key
            return kind(context, step, self.join, shape)
        return check_lookup(context, step, self.join, shape)
