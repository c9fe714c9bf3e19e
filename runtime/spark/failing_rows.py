"""Finds the rows that an SQL step cannot process, with one Spark job for each step instead of many jobs over prefixes.

Spark's `TryEval` gives null if its expression raises an error. So a step's expressions are evaluated with it on all
rows that reach the step, which shows for each row whether it fails. In a trial a row's `_order` is the number of the
record that it comes from (`stages.stage`), so the first row that fails names the record.

Other errors, such as a stack overflow or an error in a Python stage, end this job as they ended the epoch's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CERTAIN = {
    "Alias",
    "AttributeReference",
    "CreateNamedStruct",
    "GetStructField",
    "If",
    "IsNotNull",
    "IsNull",
    "Literal",
    "Not",
}
"""Spark's classes of expressions that never fail."""


def failing_rows(rows: DataFrame) -> Iterator[DataFrame]:
    """One DataFrame for each node of the query plan that may fail, in the order in which rows pass them.

    It has one row with the column `number` (bigint): the first record whose row fails there, or null. The job fails if
    an earlier node fails. So each DataFrame must be run on records that pass the nodes before it.
    """
    from pyspark.sql import DataFrame as Frame

    # Common subexpressions are computed before `TryEval` and would raise there. Only the clone has the setting.
    session = rows.sparkSession._jsparkSession.cloneSession()
    session.conf().set("spark.sql.subexpressionElimination.enabled", "false")
    for node in _nodes(rows._jdf.queryExecution().analyzed()):
        if not all(map(_is_certain, node.expressions)):
            yield Frame(_first_failing(session, rows.sparkSession, node), rows.sparkSession)


class _Node:
    """A node of a query plan that computes something from each row of its input."""

    def __init__(self, plan: Any) -> None:
        self.input = plan.child()
        name = plan.getClass().getSimpleName()
        if name == "Filter":
            self.expressions = [plan.condition()]
        elif name == "Generate":
            self.expressions = list(_each(plan.generator().children()))
        else:
            self.expressions = list(_each(plan.projectList()))


def _nodes(plan: Any) -> Iterator[_Node]:
    """The nodes, those below first. Nodes before the first Python stage are left out, as they have no records."""
    for child in _each(plan.children()):
        yield from _nodes(child)
    if plan.getClass().getSimpleName() in ("Filter", "Generate", "Project") and _is_behind_a_stage(plan):
        yield _Node(plan)


def _is_behind_a_stage(plan: Any) -> bool:
    below = list(_each(plan.children()))
    return any(child.getClass().getSimpleName() == "MapInArrow" or _is_behind_a_stage(child) for child in below)


def _is_certain(expression: Any) -> bool:
    return expression.getClass().getSimpleName() in _CERTAIN and all(map(_is_certain, _each(expression.children())))


def _first_failing(session: Any, python: Any, node: _Node) -> Any:
    jvm: Any = python.sparkContext._jvm
    gateway: Any = python.sparkContext._gateway
    sql = jvm.org.apache.spark.sql
    expressions = sql.catalyst.expressions
    listed = jvm.java.util.ArrayList()
    for expression in node.expressions:
        listed.add(expression)
    struct = expressions.CreateStruct.apply(jvm.scala.jdk.javaapi.CollectionConverters.asScala(listed).toSeq())
    fails = sql.classic.ExpressionUtils.column(expressions.TryEval(struct)).isNull()
    columns = gateway.new_array(jvm.org.apache.spark.sql.Column, 1)
    columns[0] = sql.functions.min(sql.functions.col("_order")).alias("number")
    # A filter, because an aggregate computes common subexpressions before `TryEval`, whatever the setting says.
    return sql.classic.Dataset.ofRows(session, node.input).filter(fails).select(columns)


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.size()))
