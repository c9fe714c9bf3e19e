"""Renaming and selecting columns."""

from __future__ import annotations

from dataclasses import dataclass

from . import declarations
from .node import Edges
from .task_epoch import TaskEpoch


@dataclass(frozen=True)
class Project(declarations.Project):
    """See `declarations.Project`."""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:  # noqa: ARG002
        """See `Node`."""
        rows = edges[self.flow]
        key, value = (
            None if side is None else {new: rows.columns[name] for new, name in side.items()}
            for side in (self.key, self.value)
        )
        edges[self.flow] = rows.with_columns(key, value)
