"""What keeps a step with Spark SQL, among the steps beside it."""

from __future__ import annotations

from headwater.compiler.topology.engines import ALONE, spark_reasons
from headwater.compiler.topology.graph import PythonStage, SubtopologyGraph
from headwater.runtime.engine.operators.operator import Flow
from headwater.runtime.engine.sql_step import SqlStep

EDGES = {"f": Flow("k string", "n int, s string")}
FIRST, LAST = PythonStage((), yields=EDGES), PythonStage((), reads=EDGES)
PROVEN = SqlStep("where", ("f",), condition="n > 1")
UNPROVEN = SqlStep("where", ("f",), condition="format_string('%s', s) <> ''")


def kept(*stages: PythonStage | SqlStep) -> list[str]:
    """ "unproven" for any reason of the step itself."""
    reasons = spark_reasons(SubtopologyGraph(0, "f", "f", 1, (), (), (), (), stages))
    return [reason if reason in ("", ALONE) else "unproven" for reason in reasons]


def test_step_that_tasks_can_compute_stays_only_between_steps_that_stay() -> None:
    assert kept(FIRST, PROVEN, PROVEN, LAST) == [""] * 4
    assert kept(FIRST, PROVEN, UNPROVEN, PROVEN, LAST) == ["", "", "unproven", "", ""]
    assert kept(FIRST, PROVEN, UNPROVEN, PROVEN, PROVEN, UNPROVEN, PROVEN, LAST) == [
        *["", "", "unproven", ALONE, ALONE, "unproven", "", ""]
    ]


def test_stage_between_two_steps_that_stay_takes_the_steps_beside_it() -> None:
    between = PythonStage((), reads=EDGES, yields=EDGES)
    assert kept(FIRST, UNPROVEN, PROVEN, between, PROVEN, UNPROVEN, LAST) == [
        *["", "unproven", "", "", "", "unproven", ""]
    ]
