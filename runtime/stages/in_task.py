"""SQL steps as operators of the Python stage beside them, so that no row goes to Spark SQL and back.

Only where each expression of a step is proven to be computed here as Spark does (`expressions/reading.py`). The
operators get and give exactly the edges and columns that the step has in the pipe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..expressions.promotion import UnprovenError
from ..expressions.reading import node_of, predicate_of
from ..operators.computing import Branch, Compute, Where
from ..operators.declarations import Flow, Place
from ..operators.edges import Fork, Merge
from ..operators.node import Edges
from ..operators.rows import physical_columns
from ..operators.task_epoch import TaskEpoch
from ..records.kinds import Kind
from ..records.types import TIMESTAMP, arrow_type
from .pipe import conform
from .sql_step import SqlStep


@dataclass(frozen=True)
class Handover:
    """What the pipe does between two steps: only these edges go on, with exactly these columns."""

    flows: Mapping[str, Flow]
    at: Place = ""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        going = {name: conform(edges[name], flow, epoch.now) for name, flow in self.flows.items()}
        edges.clear()
        edges.update(going)


def operators_of(step: SqlStep, before: Mapping[str, Flow], behind: Mapping[str, Flow]) -> tuple[Any, ...]:
    """The operators that do a step. `before`: the edges that it is given; `behind`: those that go on.

    Raises UnprovenError.
    """
    read = before[step.flow]
    columns = {**physical_columns(read), "_ts": pa.int64(), "_now": TIMESTAMP}
    match step.kind:
        case "where":
            return (Where(step.flow, predicate_of(step.condition, columns), step.table, step.at),)
        case "select" | "with_columns" | "key_by":
            nodes = {name: node_of(sql, columns, arrow_type(step.types[name])) for name, sql in step.columns.items()}
            of_key = step.kind == "key_by"
            least = Kind.TOMBSTONE if of_key or step.null_values else Kind.VALUE
            return (Compute(step.flow, nodes, step.keep, of_key, least, step.at),)
        case "branch":
            asked = {
                name: None if condition is None else predicate_of(condition, columns)
                for name, condition in step.branches.items()
            }
            into = tuple(name for name in step.branches if name in behind)
            return (Branch(step.flow, tuple(asked.items()), into, step.keep, step.at),)
        case "fork":
            return (Fork(step.flow, step.into, step.at), Handover(behind, step.at))
        case "merge":
            made = behind[step.into[0]]
            rest = {name: flow for name, flow in before.items() if name not in step.flows}
            return (
                Handover({**rest, **dict.fromkeys(step.flows, made)}, step.at),
                Merge(step.flows, step.into[0], step.at),
            )
        case _:
            raise UnprovenError(f"`{step.kind}` is only done by Spark SQL")
