"""Records that make an expression of Spark fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...records.types import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


# What is looked at in Spark's query plans: the nodes that compute something, and which expressions never fail.

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


# Finds the rows that SQL steps cannot process, with one Spark job for each step, and what each of them fails with.
#
# Spark's `TryEval` gives null if its expression raises an error. So a step's expressions are evaluated with it on all
# rows that reach the step, which shows for each row whether it fails. In a trial a row's `_order` is the number of the
# record that it comes from (`EpochPlan.numbered`), so the rows that fail name their records.
#
# Which rows fail is asked of the plan as Spark has optimized it, which may filter before it computes: so the answer is
# that of the epoch's job itself. At which step, and why, is asked of the plan as it was written, for those rows alone:
# their expressions are evaluated in the driver, one row after the other, as only an error of its own has the text.
#
# Other errors, such as a stack overflow or an error in a Python stage, end these jobs as they ended the epoch's.

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


# The epoch's query plan in which a row that a step cannot process is marked, so that the other rows go on.
#
# Spark's `TryEval` gives null if its expression raises an error. So each node of the plan that may fail evaluates all
# its expressions within one `TryEval`. A row for which that is null gets the kind `FAILED`, which passes all steps
# behind unchanged, and the next Python stage leaves its record out (`engine/pipe.py`).
#
# The plan is the one that Spark has optimized: it may filter before it computes, or not compute what nobody reads. So a
# row fails here if and only if it would end the job. Spark's classes are used as they are, as there is no such node in
# the DataFrame's functions.

_TRIED = "@@tried"
"""The column with what `TryEval` gives, and then the one with whether a filter lets the row pass."""

_KIND = ("_kind", "_0")
"""The names of the column `_kind`: the second where columns have lost theirs, before a Python stage (`engine.py`)."""


def marked(rows: DataFrame) -> DataFrame:
    """The same query, in which rows that a step cannot process are marked."""
    marker = _Marker(rows)
    return marker.frame(marker.marked(rows._jdf.queryExecution().optimizedPlan()))


class _Marker:
    """Rebuilds a plan from below. A node reads the columns of the new plan at the places of those that it has read."""

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
        """A node with all below it."""
        children = list(each_of(node.children()))
        if not children:
            return node
        node = self._on(node, [self.marked(child) for child in children])
        if _class(node) in COMPUTING and _has_stage(node):
            uncertain = [each for each in expressions_of(node) if not is_certain(each)]
            if uncertain:
                return self._tried(node, uncertain)
        return node

    def _on(self, node: Any, children: list[Any]) -> Any:
        old = [column for child in each_of(node.children()) for column in each_of(child.output())]
        new = [column for child in children for column in each_of(child.output())]
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
        bare = [each.child() if _class(each) == "Alias" else each for each in uncertain]
        struct = self._catalyst.CreateStruct.apply(sequence_of(self._jvm, bare))
        tried = self._column(self._catalyst.TryEval(struct)).alias(_TRIED)
        rows = self._plan(self.frame(node.child()).select(*self._columns(each_of(node.child().output())), tried))
        *columns, tried = each_of(rows.output())
        fields = [self._field(tried, number) for number in range(len(uncertain))]
        failed = self._column(tried).isNull()
        match _class(node):
            case "Filter":
                return self._filter(rows, columns, failed, fields[0])
            case "Generate":
                return self._generate(node, rows, columns, failed, fields[0])
        return self._project(node, rows, uncertain, fields, failed)

    def _filter(self, rows: Any, columns: Sequence[Any], failed: Column, passes: Column) -> Any:
        kept = [self._with_kind(each, failed) for each in columns]
        told = self._plan(self.frame(rows).select(*kept, (failed | passes).alias(_TRIED)))
        *new, passed = each_of(told.output())
        return self._plan(self.frame(told).where(self._column(passed)).select(*self._columns(new)))

    def _generate(self, node: Any, rows: Any, columns: Sequence[Any], failed: Column, elements: Column) -> Any:
        """A row that fails goes on as one row."""
        from pyspark.sql import functions

        kept = [self._with_kind(each, failed) for each in columns]
        one = functions.array(functions.lit(None))
        given = functions.when(failed, one).otherwise(elements).alias(_TRIED)
        told = self._plan(self.frame(rows).select(*kept, given))
        *new, array = each_of(told.output())
        generator = node.generator().withNewChildren(sequence_of(self._jvm, [array]))
        none = sequence_of(self._jvm, [])
        generate = self._jvm.org.apache.spark.sql.catalyst.plans.logical.Generate
        exploded = generate(generator, none, node.outer(), node.qualifier(), node.generatorOutput(), told)
        by_id = {old.exprId().id(): after for old, after in zip(columns, new, strict=True)}
        output = [by_id.get(each.exprId().id(), each) for each in each_of(node.output())]
        return self._plan(self.frame(exploded).select(*self._columns(output)))

    def _project(self, node: Any, rows: Any, uncertain: list[Any], fields: list[Column], failed: Column) -> Any:
        by_id = {each.exprId().id(): field for each, field in zip(uncertain, fields, strict=True)}
        items = list(each_of(node.projectList()))
        computed = [by_id.get(each.exprId().id(), self._column(each)).alias(each.name()) for each in items]
        kind = next(name for name in _KIND if name in {each.name() for each in items})
        selected = [
            _failed_kind(failed, column).alias(kind) if each.name() == kind else column
            for each, column in zip(items, computed, strict=True)
        ]
        return self._plan(self.frame(rows).select(*selected))

    def _with_kind(self, attribute: Any, failed: Column) -> Column:
        column = self._column(attribute)
        return _failed_kind(failed, column).alias("_kind") if attribute.name() == "_kind" else column

    def _field(self, struct: Any, number: int) -> Column:
        none = getattr(self._jvm.scala, "None$").__getattr__("MODULE$")
        return self._column(self._catalyst.GetStructField(struct, number, none))

    def _columns(self, attributes: Iterable[Any]) -> list[Column]:
        return [self._column(each) for each in attributes]

    def _column(self, expression: Any) -> Column:
        from pyspark.sql.classic.column import Column as ClassicColumn

        return ClassicColumn(self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))

    @staticmethod
    def _plan(rows: DataFrame) -> Any:
        return rows._jdf.queryExecution().analyzed()


def _failed_kind(failed: Column, kind: Column) -> Column:
    from pyspark.sql import functions

    return functions.when(failed, functions.lit(int(Kind.FAILED)).cast("tinyint")).otherwise(kind)


def _class(node: Any) -> str:
    name: str = node.getClass().getSimpleName()
    return name


def _has_stage(node: Any) -> bool:
    return _class(node) == "MapInArrow" or any(map(_has_stage, each_of(node.children())))
