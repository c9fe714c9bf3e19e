"""Reads a topic into edges. `order.partition_group.read_task` decides the order among all sources of a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..log.log import Log
from ..tasks.plan import TaskPlan
from . import declarations
from .batch_columns import source_columns
from .node import Edges
from .order.partition_group import Reading, TakenRecords, read_task
from .task_epoch import TaskEpoch


@dataclass(frozen=True)
class Source(declarations.Source):
    """See `declarations.Source`."""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Nothing: `take` has put the records there."""


def take(
    plan: TaskPlan, sources: Sequence[Source], log: Log, *, refuse_times: bool = True
) -> tuple[TakenRecords, Edges]:
    """Read a task's records of an epoch onto the sources' edges, but for those that the plan leaves out."""
    readings = [Reading(source.topic, source_columns(source), rank) for rank, source in enumerate(sources)]
    taken = read_task(plan, readings, log, refuse_times=refuse_times)
    edges: Edges = {}
    for source, rows in zip(sources, taken.kept, strict=True):
        for number, name in enumerate(source.edges):
            edges[name] = rows if len(source.edges) == 1 else rows.deeper(np.full(len(rows), number))
    return taken, edges


def take_bare(plan: TaskPlan, sources: Sequence[declarations.Source], log: Log, count: int) -> TakenRecords:
    """The `count` records that `take` has taken, without columns."""
    readings = [Reading(source.topic, declarations.Flow("", ""), rank) for rank, source in enumerate(sources)]
    # Without columns records are smaller, so their bytes would end the epoch elsewhere.
    return read_task(replace(plan, max_records=count, max_bytes=None), readings, log, refuse_times=False)
