"""Operators that rename and drop columns of the value or of the key. They compute nothing."""

from __future__ import annotations

from dataclasses import dataclass

from . import declarations
from .node import Edges
from .task_epoch import TaskEpoch


@dataclass(frozen=True)
class Select(declarations.Select):
    """See `declarations.Select`."""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:  # noqa: ARG002
        """See `Node`."""
        rows = edges[self.flow]
        columns = {name: name for name in self.keep} | dict(self.columns)
        edges[self.flow] = rows.with_columns(None, {new: rows.columns[name] for new, name in columns.items()})


@dataclass(frozen=True)
class KeyBy(declarations.KeyBy):
    """See `declarations.KeyBy`."""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:  # noqa: ARG002
        """See `Node`."""
        rows = edges[self.flow]
        edges[self.flow] = rows.with_columns({new: rows.columns[name] for new, name in self.key.items()})
