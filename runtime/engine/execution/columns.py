"""Operators that keep no state: keys, columns, forks, merges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir import declarations
from ...records.types import Kind
from .node import Edges, TaskEpoch
from .rows import after_old, interleave, is_old

# Operators that rename and drop columns of the value or of the key. They compute nothing.


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


# Operators that only change which rows are on which edge: copies, merges, and parts of a table's changes.


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
