"""What an operator is: a step that changes the edges of one task's epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...errors import HeadwaterError
from ..records.arrays import Int64s
from .declarations import Place
from .rows import Rows
from .task_epoch import TaskEpoch

Edges = dict[str, Rows]
"""The rows of a task's epoch by edge. Edges are named by flow or table; a step on an edge rebinds it."""


class Node(Protocol):
    """An operator, declared by generated code. `at`: the place of its step in the YAML."""

    @property
    def at(self) -> Place: ...  # noqa: D102

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Take rows from `edges`, and put the resulting rows there."""


class RowFailedError(HeadwaterError):
    """An operator cannot process a row: the first one, in the order of processing. `order`: its `_order`.

    `cause`: what it raised. `at`: the place of the step; empty for that of the operator.
    """

    def __init__(self, order: int, cause: HeadwaterError, at: Place = "") -> None:
        super().__init__(cause.message, cause.hint)
        self.order = order
        self.cause = cause
        self.at = at


class EachFailedError(HeadwaterError):
    """An operator cannot process some rows, for a reason of each. `rows`: their `_order`, and what it raised for them.

    `by_itself`: whether it fails for each of them whichever others there are.
    """

    def __init__(self, rows: Sequence[tuple[int, HeadwaterError]], by_itself: bool) -> None:
        first = rows[0][1]
        super().__init__(first.message, first.hint)
        self.rows = tuple(rows)
        self.by_itself = by_itself


class RowsFailedError(HeadwaterError):
    """An expression fails for rows. `records`: the first level of their paths; `orders`: their `_order`.

    Which error it is, only Spark tells: it computes the expression for these records alone.
    """

    def __init__(self, records: Int64s, orders: Int64s) -> None:
        super().__init__(
            "an expression cannot be computed: a number or a time has no place in its type, a number is divided by 0, "
            "or an array has no such element"
        )
        self.records = records
        self.orders = orders


def step_name(node: Node) -> str:
    """The name under which drops are counted: the step's place."""
    return str(node.at) or type(node).__name__
