"""Finds the rows that SQL steps cannot process, with one Spark job for each step, and what each of them fails with.

Spark's `TryEval` gives null if its expression raises an error. So a step's expressions are evaluated with it on all
rows that reach the step, which shows for each row whether it fails. In a trial a row's `_order` is the number of the
record that it comes from (`EpochPlan.numbered`), so the rows that fail name their records.

Which rows fail is asked of the plan as Spark has optimized it, which may filter before it computes: so the answer is
that of the epoch's job itself. At which step, and why, is asked of the plan as it was written, for those rows alone:
their expressions are evaluated in the driver, one row after the other, as only an error of its own has the text.

Other errors, such as a stack overflow or an error in a Python stage, end these jobs as they ended the epoch's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .nodes import COMPUTING, each_of, expressions_of, is_certain, sequence_of, tolerant_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EVALUATE = """
StringBuilder told = new StringBuilder();
for (int row = 0; row < rows.length; row++) {
    try {
        for (int each = 0; each < expressions.length; each++) {
            ((org.apache.spark.sql.catalyst.expressions.Expression) expressions[each]).eval(
                (org.apache.spark.sql.catalyst.InternalRow) rows[row]);
        }
    } catch (Exception error) {
        told.append(((org.apache.spark.sql.catalyst.InternalRow) rows[row]).getLong(order));
        told.append((char) 31).append(error.toString()).append((char) 30);
    }
}
return told.toString();
"""
"""Evaluates expressions on rows, in the JVM: each error would take many calls from here. Spark itself has the compiler
that takes this text. Numbers and errors come back separated by the characters 31 and 30.
"""


@dataclass(frozen=True)
class FailedRow:
    """A row that a step cannot process: the number of its record, and Spark's error as Java prints it."""

    number: int
    error: str


class Expressions:
    """The expressions that one node of a query plan evaluates for each row. `stages`: Python stages before it.

    `step`: the place of its step, empty in an optimized plan.
    """

    def __init__(self, rows: DataFrame, session: Any, plan: Any, expressions: list[Any], stages: int, step: str):
        self._rows = rows
        self._session = session
        self._input = plan.child()
        self._expressions = expressions
        self.stages = stages
        self.step = step

    def failing(self) -> list[int]:
        """The numbers of records with a row that fails here. The job fails if a row fails before."""
        from pyspark.sql import DataFrame as Frame

        rows = Frame(self._failing().select(self._order()).distinct(), self._rows.sparkSession)
        return sorted(number for (number,) in rows.collect())

    def errors(self) -> list[FailedRow]:
        """The rows that fail here, each with its error. They are brought to the driver."""
        jvm: Any = self._rows.sparkSession.sparkContext._jvm
        catalyst = jvm.org.apache.spark.sql.catalyst.expressions
        columns = [attribute.name() for attribute in each_of(self._input.output())]
        sequence = getattr(catalyst, "package$").__getattr__("MODULE$").AttributeSeq(self._input.output())
        bound = [catalyst.BindReferences.bindReference(each, sequence, False) for each in self._evaluable(jvm)]
        rows = self._failing().queryExecution().executedPlan().executeCollect()
        told = self._evaluated(jvm, bound, rows, columns.index("_order"))
        found = [line.partition("\x1f") for line in told.split("\x1e") if line]
        return [FailedRow(int(number), error) for number, _, error in found]

    def _evaluated(self, jvm: Any, expressions: list[Any], rows: Any, order: int) -> str:
        gateway: Any = self._rows.sparkSession.sparkContext._gateway
        of_class, of_object = jvm.java.lang.Class.forName, jvm.java.lang.Object
        objects = of_class("[Ljava.lang.Object;")

        def array(kind: Any, items: list[Any]) -> Any:
            made = gateway.new_array(kind, len(items))
            for number, item in enumerate(items):
                made[number] = item
            return made

        script = jvm.org.codehaus.janino.ScriptEvaluator()
        script.setParentClassLoader(jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
        script.setReturnType(of_class("java.lang.String"))
        names = array(jvm.java.lang.String, ["expressions", "rows", "order"])
        script.setParameters(names, array(jvm.java.lang.Class, [objects, objects, of_class("java.lang.Integer")]))
        script.cook(_EVALUATE)
        told: str = script.evaluate(array(of_object, [array(of_object, expressions), rows, order]))
        return told

    def _failing(self) -> Any:
        """The rows that fail, as Spark's Dataset."""
        jvm: Any = self._rows.sparkSession.sparkContext._jvm
        sql = jvm.org.apache.spark.sql
        expressions = sql.catalyst.expressions
        struct = expressions.CreateStruct.apply(sequence_of(jvm, self._expressions))
        fails = sql.classic.ExpressionUtils.column(expressions.TryEval(struct)).isNull()
        # A filter, because an aggregate computes common subexpressions before `TryEval`, whatever the setting says.
        return sql.classic.Dataset.ofRows(self._session, self._input).filter(fails)

    def _order(self) -> Any:
        spark = self._rows.sparkSession.sparkContext
        gateway: Any = spark._gateway
        jvm: Any = spark._jvm
        columns = gateway.new_array(jvm.org.apache.spark.sql.Column, 1)
        columns[0] = jvm.org.apache.spark.sql.functions.col("_order")
        return columns

    def _evaluable(self, jvm: Any) -> list[Any]:
        """The expressions, without those that Spark replaces by others before it evaluates them."""
        logical = jvm.org.apache.spark.sql.catalyst.plans.logical
        catalyst = jvm.org.apache.spark.sql.catalyst.expressions
        struct = catalyst.CreateStruct.apply(sequence_of(jvm, self._expressions))
        named = getattr(catalyst, "Alias$").__getattr__("MODULE$")
        ids = catalyst.NamedExpression.newExprId()
        empty = sequence_of(jvm, [])
        none = getattr(jvm.scala, "None$").__getattr__("MODULE$")
        alias = named.apply(struct, "_", ids, empty, none, empty)
        project = logical.Project(sequence_of(jvm, [alias]), self._input)
        rule = getattr(jvm.org.apache.spark.sql.catalyst.optimizer, "ReplaceExpressions$").__getattr__("MODULE$")
        replaced = rule.apply(project)
        return [each.child() for each in each_of(replaced.projectList())]


def optimized(rows: DataFrame) -> list[Expressions]:
    """The expressions of a query as Spark evaluates them, in this order."""
    return _found(rows, rows._jdf.queryExecution().optimizedPlan())


def written(rows: DataFrame) -> list[Expressions]:
    """The expressions of a query as its steps say, in their order, each with its step."""
    return _found(rows, rows._jdf.queryExecution().analyzed())


def _found(rows: DataFrame, plan: Any) -> list[Expressions]:
    session = tolerant_session(rows)
    return [
        Expressions(rows, session, node, expressions, stages, step)
        for node, stages, step in _nodes(plan)
        if not all(map(is_certain, expressions := expressions_of(node)))
    ]


def _nodes(plan: Any, step: str = "") -> Iterator[tuple[Any, int, str]]:
    """The nodes that compute something, those below first, with the Python stages below and the step of each.

    Nodes before the first Python stage are left out, as they have no records.
    """
    kind = plan.getClass().getSimpleName()
    within = plan.identifier().name() if kind == "SubqueryAlias" else "" if kind == "MapInArrow" else step
    for child in each_of(plan.children()):
        yield from _nodes(child, within)
    if kind in COMPUTING and (stages := _stages(plan)):
        yield plan, stages, step


def _stages(plan: Any) -> int:
    own = int(plan.getClass().getSimpleName() == "MapInArrow")
    return own + sum(map(_stages, each_of(plan.children())))
