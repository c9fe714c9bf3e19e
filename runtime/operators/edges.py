"""Operators that only change which rows are on which edge: copies, merges, and parts of a table's changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..records.kinds import Kind
from . import declarations
from .node import Edges
from .rows import after_old, interleave, is_old
from .task_epoch import TaskEpoch


@dataclass(frozen=True)
class Fork(declarations.Fork):
    """A copy of each row for each reader.

    Everything that the first reader does with a row comes before the second sees it.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:  # noqa: ARG002
        """See `Node`."""
        rows = edges[self.flow]
        for number, name in enumerate(self.into):
            edges[name] = rows.deeper(np.full(len(rows), number))


@dataclass(frozen=True)
class Merge(declarations.Merge):
    """The rows of edges with equal columns, in the order of processing."""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:  # noqa: ARG002
        """See `Node`."""
        edges[self.into] = interleave([edges[flow] for flow in self.flows])


@dataclass(frozen=True)
class Settle(declarations.Settle):
    """Removes deletions of rows that did not exist, after a filter on a table."""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:  # noqa: ARG002
        """See `Node`."""
        rows = edges[self.flow]
        edges[self.flow] = rows.filter((rows.kind != Kind.TOMBSTONE) | after_old(rows.kind))


@dataclass(frozen=True)
class ToStream(declarations.ToStream):
    """Turns a table's changes into records. Replaced rows are dropped."""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:  # noqa: ARG002
        """See `Node`."""
        rows = edges[self.flow]
        edges[self.flow] = rows.filter(~is_old(rows.kind))
