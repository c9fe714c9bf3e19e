"""What an operator is: a step that changes the edges of one task's epoch."""

from __future__ import annotations

from typing import Protocol

from .declarations import Place
from .rows import Rows
from .task_epoch import TaskEpoch

Edges = dict[str, Rows]
"""The rows of a task's epoch by edge. Edges are named by flow or table; a step on an edge rebinds it."""


class Node(Protocol):
    """An operator, declared by generated code. `at`: its step's place in the YAML."""

    @property
    def at(self) -> Place: ...  # noqa: D102

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Take rows from `edges` and put what comes out there."""


def step_name(node: Node) -> str:
    """What drops are counted under: the step's position."""
    return str(node.at) or type(node).__name__
