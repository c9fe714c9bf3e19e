"""Finds and marks rows for which expressions of Spark fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...records.types import Kind
from .engine import class_name, items

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


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
    """A session for `TryEval`: without it Spark computes common subexpressions before, and these would raise."""
    session = rows.sparkSession._jsparkSession.cloneSession()
    session.conf().set("spark.sql.subexpressionElimination.enabled", "false")
    return session


def expressions_of(node: Any) -> list[Any]:
    """The expressions that a node evaluates for a row."""
    match class_name(node):
        case "Filter":
            return [node.condition()]
        case "Generate":
            return items(node.generator().children())
    return items(node.projectList())


def is_certain(expression: Any) -> bool:
    """Whether an expression never fails."""
    return class_name(expression) in _CERTAIN and all(map(is_certain, items(expression.children())))


def sequence_of(jvm: Any, elements: list[Any]) -> Any:
    """A Scala sequence of these elements."""
    listed = jvm.java.util.ArrayList()
    for element in elements:
        listed.add(element)
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(listed).toSeq()


# The search for rows that SQL steps cannot process: one Spark job per step, then the errors of these rows.
#
# Spark's `TryEval` gives null if its expression raises an error. So a step's expressions are evaluated with it on all
# rows that reach the step, which shows the failing ones. In a trial a row's `_order` is the number of its record
# (`EpochPlan.locate`), so failing rows identify their records.
#
# The failing rows are those of the optimized plan, which may filter before it computes, as in the epoch's job itself.
# Their step and error are those of the plan as it was written: the expressions of these rows are evaluated in the
# driver, one row after the other, as only an error of its own has the text.
#
# Other errors, such as a stack overflow or an error in a Python stage, end these jobs as they ended the epoch's.

_EVALUATE = """
StringBuilder errors = new StringBuilder();
for (int row = 0; row < rows.length; row++) {
    try {
        for (int number = 0; number < expressions.length; number++) {
            ((org.apache.spark.sql.catalyst.expressions.Expression) expressions[number]).eval(
                (org.apache.spark.sql.catalyst.InternalRow) rows[row]);
        }
    } catch (Exception error) {
        errors.append(((org.apache.spark.sql.catalyst.InternalRow) rows[row]).getLong(order));
        errors.append((char) 31).append(error.toString()).append((char) 30);
    }
}
return errors.toString();
"""
"""Java code that evaluates expressions on rows in the JVM, as an error would take many calls from Python. Spark has a
compiler for it. It returns `_order` and error of every failing row, separated by the characters 31 and 30.
"""


@dataclass(frozen=True)
class FailedRow:
    """A row that a step cannot process: the number of its record, and Spark's error as Java prints it."""

    number: int
    error: str


class Expressions:
    """The expressions that one node of a query plan evaluates for a row. `stages`: number of Python stages before it.

    `step`: `file:line` of its step, empty in an optimized plan.
    """

    def __init__(self, rows: DataFrame, session: Any, plan: Any, expressions: list[Any], stages: int, step: str):
        self._rows = rows
        self._session = session
        self._input = plan.child()
        self._expressions = expressions
        self.stages = stages
        self.step = step

    def failing(self) -> list[int]:
        """The numbers of records with a row that fails here. Raises the error of a row that fails before."""
        from pyspark.sql import DataFrame as Frame

        rows = Frame(self._failing().select(self._order()).distinct(), self._rows.sparkSession)
        return sorted(number for (number,) in rows.collect())

    def errors(self) -> list[FailedRow]:
        """The rows that fail here with their errors, collected in the driver."""
        jvm: Any = self._rows.sparkSession.sparkContext._jvm
        catalyst = jvm.org.apache.spark.sql.catalyst.expressions
        columns = [attribute.name() for attribute in items(self._input.output())]
        sequence = getattr(catalyst, "package$").__getattr__("MODULE$").AttributeSeq(self._input.output())
        bound = [
            catalyst.BindReferences.bindReference(expression, sequence, False) for expression in self._evaluable(jvm)
        ]
        rows = self._failing().queryExecution().executedPlan().executeCollect()
        lines = self._evaluated(jvm, bound, rows, columns.index("_order"))
        parts = [line.partition("\x1f") for line in lines.split("\x1e") if line]
        return [FailedRow(int(number), error) for number, _, error in parts]

    def _evaluated(self, jvm: Any, expressions: list[Any], rows: Any, order: int) -> str:
        gateway: Any = self._rows.sparkSession.sparkContext._gateway
        of_class, of_object = jvm.java.lang.Class.forName, jvm.java.lang.Object
        objects = of_class("[Ljava.lang.Object;")

        def array(kind: Any, elements: list[Any]) -> Any:
            made = gateway.new_array(kind, len(elements))
            for number, element in enumerate(elements):
                made[number] = element
            return made

        script = jvm.org.codehaus.janino.ScriptEvaluator()
        script.setParentClassLoader(jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
        script.setReturnType(of_class("java.lang.String"))
        names = array(jvm.java.lang.String, ["expressions", "rows", "order"])
        script.setParameters(names, array(jvm.java.lang.Class, [objects, objects, of_class("java.lang.Integer")]))
        script.cook(_EVALUATE)
        result: str = script.evaluate(array(of_object, [array(of_object, expressions), rows, order]))
        return result

    def _failing(self) -> Any:
        """The failing rows, as Spark's Dataset."""
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
        """The expressions after Spark's replacements, in a form that can be evaluated."""
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
        return [column.child() for column in items(replaced.projectList())]


def optimized(rows: DataFrame) -> list[Expressions]:
    """The expressions of a query in the optimized plan, in the order of their evaluation."""
    return _found(rows, rows._jdf.queryExecution().optimizedPlan())


def written(rows: DataFrame) -> list[Expressions]:
    """The expressions of a query as written, in the order of the steps, with their steps."""
    return _found(rows, rows._jdf.queryExecution().analyzed())


def _found(rows: DataFrame, plan: Any) -> list[Expressions]:
    session = tolerant_session(rows)
    return [
        Expressions(rows, session, node, expressions, stages, step)
        for node, stages, step in _nodes(plan)
        if not all(map(is_certain, expressions := expressions_of(node)))
    ]


def _nodes(plan: Any, step: str = "") -> Iterator[tuple[Any, int, str]]:
    """(node, number of Python stages below, step) of the nodes with expressions, lower ones first.

    Nodes before the first Python stage have no records and are omitted.
    """
    kind = class_name(plan)
    within = plan.identifier().name() if kind == "SubqueryAlias" else "" if kind == "MapInArrow" else step
    for child in items(plan.children()):
        yield from _nodes(child, within)
    if kind in COMPUTING and (stages := _stages(plan)):
        yield plan, stages, step


def _stages(plan: Any) -> int:
    own = int(class_name(plan) == "MapInArrow")
    return own + sum(map(_stages, items(plan.children())))


# The epoch's query plan with marked failing rows, so that the other rows pass.
#
# Spark's `TryEval` gives null if its expression raises an error. So every node of the plan that may fail evaluates all
# of its expressions within one `TryEval`. A row for which that is null gets the kind `FAILED`, which passes all later
# steps unchanged, and the next Python stage skips its record (`engine/pipe.py`).
#
# It is the optimized plan, which may filter before it computes, and omits unused columns. So a row fails here if and
# only if it would end the job. The plan is built from Spark's own classes, as the DataFrame API has no such node.

_TRIED = "@@tried"
"""The column with the result of `TryEval`; in a filter, then the one with whether the row passes."""

_KIND = ("_kind", "_0")
"""The names of the column `_kind`: the second one is that before a Python stage, where columns are numbered
(`engine.py`)."""


def marked(rows: DataFrame) -> DataFrame:
    """The query with marked failing rows."""
    marker = _Marker(rows)
    return marker.frame(marker.marked(rows._jdf.queryExecution().optimizedPlan()))


class _Marker:
    """Rebuilds a plan from its leaves. A node reads the columns of the new plan at the indexes of the old ones."""

    def __init__(self, rows: DataFrame) -> None:
        self._spark = rows.sparkSession
        self._session = tolerant_session(rows)
        self._jvm: Any = rows.sparkSession.sparkContext._jvm
        self._catalyst = self._jvm.org.apache.spark.sql.catalyst.expressions

    def frame(self, plan: Any) -> DataFrame:
        """A plan as a DataFrame."""
        from pyspark.sql import DataFrame as Frame

        return Frame(self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._session, plan), self._spark)

    def marked(self, node: Any) -> Any:
        """A node with its descendants."""
        children = items(node.children())
        if not children:
            return node
        node = self._on(node, [self.marked(child) for child in children])
        if class_name(node) in COMPUTING and _has_stage(node):
            uncertain = [expression for expression in expressions_of(node) if not is_certain(expression)]
            if uncertain:
                return self._tried(node, uncertain)
        return node

    def _on(self, node: Any, children: list[Any]) -> Any:
        old = [column for child in items(node.children()) for column in items(child.output())]
        new = [column for child in children for column in items(child.output())]
        pairs = [
            self._jvm.scala.Tuple2(before, after)
            for before, after in zip(old, new, strict=True)
            if not before.exprId().equals(after.exprId())
        ]
        moved = node.withNewChildren(sequence_of(self._jvm, children))
        if not pairs:
            return moved
        of = getattr(self._catalyst, "AttributeMap$").__getattr__("MODULE$")
        return moved.rewriteAttrs(of.apply(sequence_of(self._jvm, pairs)))

    def _tried(self, node: Any, uncertain: list[Any]) -> Any:
        """A node that marks the rows for which one of its expressions raises an error."""
        bare = [expression.child() if class_name(expression) == "Alias" else expression for expression in uncertain]
        struct = self._catalyst.CreateStruct.apply(sequence_of(self._jvm, bare))
        tried = self._column(self._catalyst.TryEval(struct)).alias(_TRIED)
        rows = self._plan(self.frame(node.child()).select(*self._columns(items(node.child().output())), tried))
        *columns, tried = items(rows.output())
        fields = [self._field(tried, number) for number in range(len(uncertain))]
        failed = self._column(tried).isNull()
        match class_name(node):
            case "Filter":
                return self._filter(rows, columns, failed, fields[0])
            case "Generate":
                return self._generate(node, rows, columns, failed, fields[0])
        return self._project(node, rows, uncertain, fields, failed)

    def _filter(self, rows: Any, columns: Sequence[Any], failed: Column, passes: Column) -> Any:
        kept = [self._with_kind(column, failed) for column in columns]
        filtered = self._plan(self.frame(rows).select(*kept, (failed | passes).alias(_TRIED)))
        *new, passed = items(filtered.output())
        return self._plan(self.frame(filtered).where(self._column(passed)).select(*self._columns(new)))

    def _generate(self, node: Any, rows: Any, columns: Sequence[Any], failed: Column, elements: Column) -> Any:
        """A failing row passes as one row."""
        from pyspark.sql import functions

        kept = [self._with_kind(column, failed) for column in columns]
        one = functions.array(functions.lit(None))
        given = functions.when(failed, one).otherwise(elements).alias(_TRIED)
        generated = self._plan(self.frame(rows).select(*kept, given))
        *new, array = items(generated.output())
        generator = node.generator().withNewChildren(sequence_of(self._jvm, [array]))
        none = sequence_of(self._jvm, [])
        generate = self._jvm.org.apache.spark.sql.catalyst.plans.logical.Generate
        exploded = generate(generator, none, node.outer(), node.qualifier(), node.generatorOutput(), generated)
        by_id = {old.exprId().id(): after for old, after in zip(columns, new, strict=True)}
        output = [by_id.get(column.exprId().id(), column) for column in items(node.output())]
        return self._plan(self.frame(exploded).select(*self._columns(output)))

    def _project(self, node: Any, rows: Any, uncertain: list[Any], fields: list[Column], failed: Column) -> Any:
        by_id = {expression.exprId().id(): field for expression, field in zip(uncertain, fields, strict=True)}
        columns = items(node.projectList())
        computed = [by_id.get(item.exprId().id(), self._column(item)).alias(item.name()) for item in columns]
        kind = next(name for name in _KIND if name in {item.name() for item in columns})
        selected = [
            _failed_kind(failed, column).alias(kind) if item.name() == kind else column
            for item, column in zip(columns, computed, strict=True)
        ]
        return self._plan(self.frame(rows).select(*selected))

    def _with_kind(self, attribute: Any, failed: Column) -> Column:
        column = self._column(attribute)
        return _failed_kind(failed, column).alias("_kind") if attribute.name() == "_kind" else column

    def _field(self, struct: Any, number: int) -> Column:
        none = getattr(self._jvm.scala, "None$").__getattr__("MODULE$")
        return self._column(self._catalyst.GetStructField(struct, number, none))

    def _columns(self, attributes: Iterable[Any]) -> list[Column]:
        return [self._column(attribute) for attribute in attributes]

    def _column(self, expression: Any) -> Column:
        from pyspark.sql.classic.column import Column as ClassicColumn

        return ClassicColumn(self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))

    @staticmethod
    def _plan(rows: DataFrame) -> Any:
        return rows._jdf.queryExecution().analyzed()


def _failed_kind(failed: Column, kind: Column) -> Column:
    from pyspark.sql import functions

    return functions.when(failed, functions.lit(int(Kind.FAILED)).cast("tinyint")).otherwise(kind)


def _has_stage(node: Any) -> bool:
    return class_name(node) == "MapInArrow" or any(map(_has_stage, items(node.children())))
