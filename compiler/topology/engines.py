"""Which steps with expressions tasks can compute themselves, and what keeps the others with Spark SQL.

It decides nothing: a run with `engine: task` asks the same (`runtime/stages/in_task.py`), step by step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...runtime.expressions.promotion import UnprovenError
from ...runtime.stages.columns import Flows, behind_sql
from ...runtime.stages.in_task import operators_of
from ...runtime.stages.sql_step import SqlStep
from .graph import SubtopologyGraph, TopologyGraph


@dataclass(frozen=True)
class StepEngine:
    """A step with expressions: its `kind` and its place, `file:line`. `kept`: what keeps it with Spark SQL; empty if
    tasks can compute it.
    """

    topology: str
    kind: str
    at: str
    kept: str = ""


def step_engines(graph: TopologyGraph) -> tuple[StepEngine, ...]:
    """The steps of a topology that compute expressions, in their order."""
    return tuple(
        StepEngine(graph.name, step.kind, str(step.at), kept)
        for part in graph.subtopologies
        for step, kept in _steps(part)
        if step.kind not in ("fork", "merge")
    )


def _steps(part: SubtopologyGraph) -> Iterator[tuple[SqlStep, str]]:
    flows: Flows = {}
    for stage in part.stages:
        if not isinstance(stage, SqlStep):
            flows = dict(stage.yields)
            continue
        behind = behind_sql(stage, flows)
        try:
            operators_of(stage, flows, behind)
            yield stage, ""
        except UnprovenError as error:
            yield stage, error.reason
        flows = behind
