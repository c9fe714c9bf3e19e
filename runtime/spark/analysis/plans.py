"""The expressions of Spark's plans, as Python walks them: they are objects of the JVM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Span = tuple[int, int] | None
"""Where a node's SQL begins and ends in the expression; None if Spark does not know."""


def nodes(plan: Any) -> Iterator[Any]:
    """The expressions of a plan's root node, with all their children."""
    left = items(plan.expressions())
    while left:
        node = left.pop()
        yield node
        left += items(node.children())


def items(sequence: Any) -> list[Any]:
    """A sequence of Scala as a list."""
    return [sequence.apply(number) for number in range(sequence.size())]


def kind(node: Any) -> str:
    """The name of a node's class."""
    return str(node.getClass().getSimpleName())


def type_of(node: Any) -> str:
    """The type of a resolved node."""
    return str(node.dataType().catalogString())


def span(node: Any) -> Span:
    """Where a node's SQL is in the expression."""
    origin = node.origin()
    start, stop = origin.startIndex(), origin.stopIndex()
    return (start.get(), stop.get() + 1) if start.isDefined() and stop.isDefined() else None


def replaced(session: SparkSession, plan: Any) -> Any:
    """The plan with functions that stand for others replaced by them, as the optimizer does first."""
    return _catalyst(session, "optimizer", "ReplaceExpressions").apply(plan)


def unchecked(session: SparkSession, relation: DataFrame, expression: str) -> Any:
    """The plan of an expression as far as the analyzer gets with it, where Spark itself would only report one mistake.

    Raises PySparkException if the analyzer gives up before.
    """
    assert session._jvm is not None
    jvm: Any = session._jvm
    state: Any = session._jsparkSession.sessionState()
    catalyst = jvm.org.apache.spark.sql.catalyst
    parsed = state.sqlParser().parseExpression(expression)
    unnamed = catalyst.analysis.UnresolvedAlias(parsed, jvm.scala.Option.empty())
    columns = jvm.org.apache.spark.api.python.PythonUtils.toSeq([unnamed])
    below: Any = relation._jdf
    return state.analyzer().execute(catalyst.plans.logical.Project(columns, below.queryExecution().analyzed()))


def special_times_replaced(session: SparkSession, plan: Any) -> Any:
    """The plan with texts such as 'now' replaced by times of Spark's clock."""
    return _catalyst(session, "optimizer", "SpecialDatetimeValues").apply(plan)


def written_cast(session: SparkSession) -> Any:
    """The mark of casts that the user wrote with `cast` or `::`."""
    return _catalyst(session, "expressions", "Cast").USER_SPECIFIED_CAST()


def _catalyst(session: SparkSession, package: str, name: str) -> Any:
    """An object of Scala in Spark's Catalyst."""
    assert session._jvm is not None
    found: Any = getattr(getattr(session._jvm.org.apache.spark.sql.catalyst, package), f"{name}$")
    return found.__getattr__("MODULE$")
