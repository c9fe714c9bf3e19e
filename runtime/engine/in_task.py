"""SQL steps as operators of an adjacent Python stage, so that no row goes to Spark SQL and back.

This applies only if the type checker accepts every expression of a step (`expressions/reading.py`): then the task gives
the same results as Spark. The operators have exactly the input and output columns of the step in the pipe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import pyarrow as pa

from ..expressions.reading import node_of, predicate_of
from ..records.types import TIMESTAMP, arrow_type
from .execution.computing import Branch, Compute, Explode, Where
from .execution.node import Edges, TaskEpoch
from .execution.rows import physical_columns
from .operators.operator import Flow, Node, Place, Touched
from .operators.stateless import Fork, Merge
from .pipe import conform
from .sql_step import SqlStep


@dataclass(frozen=True)
class Handover(Node):
    """The work of the pipe between two steps: keeps the edges `going`, and casts those in `flows` to its columns."""

    going: tuple[str, ...]
    flows: Mapping[str, Flow]
    at: Place = ""

    touches = Touched()
    is_stateful = False

    @property
    def reads(self) -> tuple[str, ...]:
        """See `Node`."""
        return self.going

    @property
    def makes(self) -> tuple[str, ...]:
        """See `Node`."""
        return self.going

    @classmethod
    def between(cls, made: Mapping[str, Flow], wanted: Mapping[str, Flow], at: Place = "") -> tuple[Handover, ...]:
        """The operator that turns the edges `made` into the edges `wanted`. Empty if both are equal."""
        if made == wanted:
            return ()
        return (cls(tuple(wanted), {name: flow for name, flow in wanted.items() if made[name] != flow}, at),)

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        going = {name: edges[name] for name in self.going}
        edges.clear()
        edges.update(going)
        for name, flow in self.flows.items():
            edges[name] = conform(edges[name], flow, epoch.now)


def operators_of(step: SqlStep, before: Mapping[str, Flow], behind: Mapping[str, Flow]) -> tuple[Any, ...]:
    """The operators for a step. `before`: the edges before it. `behind`: the edges that are passed on after it.

    Raises UnprovenError.
    """
    read = before[step.flow]
    made: Mapping[str, Flow] = {**before, **{name: behind[name] for name in step.makes if name in behind}}
    operators: tuple[Any, ...]
    match step.kind:
        case "fork":
            operators, made = (Fork(step.flow, step.into, step.at),), {**before, **dict.fromkeys(step.into, read)}
        case "merge":
            alike = {**before, **dict.fromkeys(step.flows, behind[step.into[0]])}
            operators = (*Handover.between(before, alike, step.at), Merge(step.flows, step.into[0], step.at))
        case _:
            operators = (computing(step, read, tuple(name for name in step.makes if name in behind)),)
    return (*operators, *Handover.between(made, behind, step.at))


def computing(step: SqlStep, read: Flow, into: tuple[str, ...]) -> Where | Compute | Explode | Branch:
    """The operator of a step with expressions. `read`: the columns of its edge. `into`: the output edges that are used.

    Raises UnprovenError.
    """
    columns = {**physical_columns(read), "_ts": pa.int64(), "_now": TIMESTAMP}
    match step.kind:
        case "where":
            return Where(step, predicate_of(step.condition, columns))
        case "select" | "with_columns" | "key_by":
            nodes = {name: node_of(sql, columns, arrow_type(step.types[name])) for name, sql in step.columns.items()}
            return Compute(step, nodes)
        case "explode":
            ((name, sql),) = step.columns.items()
            elements = node_of(sql, columns, arrow_type(f"array<{step.types[name]}>"))
            return Explode(step, name, elements)
        case "branch":
            asked = {
                name: None if condition is None else predicate_of(condition, columns)
                for name, condition in step.branches.items()
            }
            return Branch(step, tuple(asked.items()), into)
        case "fork" | "merge":
            raise ValueError(f"a {step.kind} computes nothing")
        case unknown:
            assert_never(unknown)


def alone_in_sql(stay: Sequence[bool]) -> range:
    """The range of steps, between two Python stages, from the first to the last that stays in Spark SQL.

    `stay`: whether each step stays in Spark SQL. Steps outside the range are adjacent to a Python stage or to another
    step that is: they can run in that stage. For example, [False, True, False, True, False] gives range(1, 4).
    """
    staying = [number for number, stays in enumerate(stay) if stays]
    return range(staying[0], staying[-1] + 1) if staying else range(0)
