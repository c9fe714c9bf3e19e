"""Steps that only change which rows are on which edge: copies, merges, and what of a table's changes goes on."""

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
    """One copy of each row for each reader. All that the first does with a row comes before the second sees it."""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:  # noqa: ARG002
        """See `Node`."""
        rows = edges[self.flow]
        for number, name in enumerate(self.into):
            edges[name] = rows.deeper(np.full(len(rows), number))


@dataclass(frozen=True)
class Merge(declarations.Merge):
    """The rows of edges with equal columns, in the order in which they are processed."""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:  # noqa: ARG002
        """See `Node`."""
        edges[self.into] = interleave([edges[flow] for flow in self.flows])


@dataclass(frozen=True)
class Settle(declarations.Settle):
    """After a filter of a table: removes the deletions of rows that were not there."""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:  # noqa: ARG002
        """See `Node`."""
        rows = edges[self.flow]
        edges[self.flow] = rows.filter((rows.kind != Kind.TOMBSTONE) | after_old(rows.kind))


@dataclass(frozen=True)
class ToStream(declarations.ToStream):
    """A table's changes become records: replaced rows are dropped."""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:  # noqa: ARG002
        """See `Node`."""
        rows = edges[self.flow]
        edges[self.flow] = rows.filter(~is_old(rows.kind))
