"""Which steps with expressions tasks can compute themselves, and what keeps the others with Spark SQL.

It decides nothing: a run with `engine: task` asks the same (`runtime/engine/steps.py`), step by step.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...runtime.engine.columns import Flows, behind_sql
from ...runtime.engine.in_task import alone_in_sql, operators_of
from ...runtime.engine.sql_step import SqlStep
from ...runtime.expressions.promotion import UnprovenError
from ...runtime.ir.declarations import Flow
from .graph import SubtopologyGraph, TopologyGraph

ALONE = "the steps before and behind it stay there, and a task would take one more stage for it"
"""What keeps a step that tasks could compute, but whose rows are in Spark SQL already."""


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
        for stage, kept in zip(part.stages, kept_of_stages(part), strict=True)
        for step in ((stage,) if isinstance(stage, SqlStep) else stage.nodes)
        if isinstance(step, SqlStep) and step.kind not in ("fork", "merge")
    )


def kept_of_stages(part: SubtopologyGraph) -> tuple[str, ...]:
    """What keeps each stage of a subtopology with Spark SQL; empty for Python and for what tasks can compute."""
    flows: Flows = {}
    found: list[str] = []
    between: list[str] = []
    for stage in part.stages:
        if isinstance(stage, SqlStep):
            behind = behind_sql(stage, flows)
            between.append(_kept(stage, flows, behind))
            flows = behind
        else:
            found += [*_of_run(between), ""]
            between, flows = [], dict(stage.yields)
    return (*found, *_of_run(between))


def _kept(step: SqlStep, before: dict[str, Flow], behind: dict[str, Flow]) -> str:
    try:
        operators_of(step, before, behind)
        return ""
    except UnprovenError as error:
        return error.reason


def _of_run(kept: list[str]) -> list[str]:
    """The same for steps between two Python stages, of which each has its own reason."""
    alone = alone_in_sql([bool(reason) for reason in kept])
    return [reason or (ALONE if number in alone else "") for number, reason in enumerate(kept)]
