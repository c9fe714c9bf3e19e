"""Which steps with expressions tasks can compute themselves, and why Spark SQL computes the others.

For information only: a run with `engine: task` decides by the same rules (`runtime/engine/steps.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...runtime.engine.execution.computing import alone_in_sql, operators_of
from ...runtime.engine.sql_step import SqlStep
from ...runtime.engine.steps import Columns, after, edges_of, flows
from ...runtime.expressions.promotion import UnprovenError
from .graph import SubtopologyGraph, TopologyGraph

ALONE = "the steps before and behind it stay there, and a task would take one more stage for it"
"""The reason for a step that tasks could compute, but whose rows are in Spark SQL already."""


@dataclass(frozen=True)
class StepEngine:
    """A step with expressions.

    `kind`: of the SQL step. `at`: `file:line`. `kept`: why Spark SQL computes it; empty if tasks can compute it.
    """

    topology: str
    kind: str
    at: str
    kept: str = ""


def step_engines(graph: TopologyGraph) -> tuple[StepEngine, ...]:
    """The steps of a topology with expressions, in their order."""
    return tuple(
        StepEngine(graph.name, step.kind, str(step.at), kept)
        for part in graph.subtopologies
        for stage, kept in zip(part.stages, spark_reasons(part), strict=True)
        for step in ((stage,) if isinstance(stage, SqlStep) else stage.nodes)
        if isinstance(step, SqlStep) and step.kind not in ("fork", "merge")
    )


def spark_reasons(part: SubtopologyGraph) -> tuple[str, ...]:
    """For each stage of a subtopology, why Spark SQL computes it; empty for Python, and if tasks can compute it."""
    edges: Columns = {}
    reasons: list[str] = []
    between: list[str] = []
    for stage in part.stages:
        if isinstance(stage, SqlStep):
            behind = after(stage, edges)
            between.append(_reason(stage, edges, behind))
            edges = behind
        else:
            reasons += [*_with_alone(between), ""]
            between, edges = [], edges_of(stage.yields)
    return (*reasons, *_with_alone(between))


def _reason(step: SqlStep, before: Columns, behind: Columns) -> str:
    try:
        operators_of(step, flows(before), flows(behind))
        return ""
    except UnprovenError as error:
        return error.reason


def _with_alone(reasons: list[str]) -> list[str]:
    """The reasons of the SQL steps between two Python stages, with `ALONE` for steps that stay in SQL without one."""
    alone = alone_in_sql([bool(reason) for reason in reasons])
    return [reason or (ALONE if number in alone else "") for number, reason in enumerate(reasons)]
