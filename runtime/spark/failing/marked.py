"""The epoch's query plan in which a row that a step cannot process is marked, so that the other rows go on.

Spark's `TryEval` gives null if its expression raises an error. So each node of the plan that may fail evaluates all its
expressions within one `TryEval`. A row for which that is null gets the kind `FAILED`, which passes all steps behind
unchanged, and the next Python stage leaves its record out (`stages/pipe.py`).

The plan is the one that Spark has optimized: it may filter before it computes, or not compute what nobody reads. So a
row fails here if and only if it would end the job. Spark's classes are used as they are, as there is no such node in
the DataFrame's functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...records.kinds import Kind
from .nodes import COMPUTING, each_of, expressions_of, is_certain, sequence_of, tolerant_session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
