"""What an operator is: a step that changes the edges of one task's epoch."""

from __future__ import annotations

from typing import Protocol

from ...errors import HeadwaterError
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

    `cause`: what it raised.
    """

    def __init__(self, order: int, cause: HeadwaterError) -> None:
        super().__init__(cause.message, cause.hint)
        self.order = order
        self.cause = cause


def step_name(node: Node) -> str:
    """The name under which drops are counted: the step's place."""
    return str(node.at) or type(node).__name__
