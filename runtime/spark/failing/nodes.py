"""What is looked at in Spark's query plans: the nodes that compute something, and which expressions never fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COMPUTING = ("Filter", "Generate", "Project")
"""Spark's classes of nodes with expressions."""

_CERTAIN = {
    "Alias",
    "And",
    "AttributeReference",
    "CaseWhen",
    "Coalesce",
    "CreateNamedStruct",
    "EqualNullSafe",
    "EqualTo",
    "GetStructField",
    "GreaterThan",
    "GreaterThanOrEqual",
    "If",
    "IsNotNull",
    "IsNull",
    "LessThan",
    "LessThanOrEqual",
    "Literal",
    "Not",
    "Or",
}
"""Spark's classes of expressions that never fail."""


def tolerant_session(rows: DataFrame) -> Any:
    """A session in which `TryEval` holds: Spark would compute common subexpressions before it, and they would raise."""
    session = rows.sparkSession._jsparkSession.cloneSession()
    session.conf().set("spark.sql.subexpressionElimination.enabled", "false")
    return session


def expressions_of(node: Any) -> list[Any]:
    """What a node that computes something evaluates for each row."""
    match node.getClass().getSimpleName():
        case "Filter":
            return [node.condition()]
        case "Generate":
            return list(each_of(node.generator().children()))
    return list(each_of(node.projectList()))


def is_certain(expression: Any) -> bool:
    """Whether an expression never fails."""
    return expression.getClass().getSimpleName() in _CERTAIN and all(map(is_certain, each_of(expression.children())))


def each_of(sequence: Any) -> Iterator[Any]:
    """The elements of one of Scala's sequences."""
    return (sequence.apply(number) for number in range(sequence.size()))


def sequence_of(jvm: Any, items: list[Any]) -> Any:
    """One of Scala's sequences."""
    listed = jvm.java.util.ArrayList()
    for item in items:
        listed.add(item)
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(listed).toSeq()
