"""Asks Spark SQL and the nodes of tasks for the same expressions, and compares what they give.

Spark is asked with `TryEval`, so that it says of each row whether it fails.
"""

import struct

import pyarrow as pa
from hypothesis import Phase, given, settings

from headwater.runtime.expressions.kernels import Batch
from headwater.runtime.expressions.promotion import UnprovenError
from headwater.runtime.expressions.reading import node_of
from headwater.runtime.records.types import arrow_type


def examples(strategy, count):
    """Examples of a strategy, which is asked for so many: together they take one query of Spark."""
    found = []

    @settings(max_examples=count, phases=[Phase.generate])
    @given(strategy)
    def gather(each):
        found.append(each)

    gather()
    return found


class Asked:
    """Spark, asked for many expressions at once."""

    def __init__(self, spark):
        self._spark = spark
        self._jvm = spark.sparkContext._jvm

    def rows(self, table):
        """Rows that come from Python, as they do in a job: those of a table would be computed without the optimizer."""
        given = self._spark.createDataFrame(table)
        return given.mapInArrow(lambda batches: batches, given.schema)

    def types(self, rows, texts):
        """Those expressions that Spark takes, each with its type."""
        from pyspark.errors import AnalysisException
        from pyspark.sql import functions

        found = []
        for text in texts:
            try:
                found.append((text, rows.select(functions.expr(text).alias("x")).schema[0].dataType.simpleString()))
            except AnalysisException:
                continue
        return found

    def answers(self, rows, texts):
        """For each expression: whether it is fine, and its value, for each row."""
        tried = [self._tried(text) for text in texts]
        columns = [(each.isNotNull().alias(f"ok{n}"), each["v"].alias(f"x{n}")) for n, each in enumerate(tried)]
        found = rows.select(*(column for each in columns for column in each)).toArrow()
        return [(found[f"ok{n}"].to_pylist(), listed(found[f"x{n}"])) for n in range(len(texts))]

    def _tried(self, text):
        from pyspark.sql import functions
        from pyspark.sql.classic.column import Column

        sql = self._jvm.org.apache.spark.sql
        guarded = functions.struct(functions.expr(f"if(_ts > 0, ({text}), null)").alias("v"))
        inner = sql.classic.ExpressionUtils.expression(guarded._jc)
        return Column(sql.classic.ExpressionUtils.column(sql.catalyst.expressions.TryEval(inner)))


def bits(value):
    """A value that tells NaN and -0.0 from others."""
    return struct.pack("<d", value) if isinstance(value, float) and value == value else str(value)


def listed(array):
    """Values, of dates and timestamps the numbers: those of Python begin with the year 1, and end with 9999."""
    return array.cast(_numbered(array.type)).to_pylist()


def _numbered(data_type):
    if pa.types.is_date(data_type):
        return pa.int32()
    if pa.types.is_timestamp(data_type):
        return pa.int64()
    if pa.types.is_list(data_type):
        return pa.list_(_numbered(data_type.value_type))
    if pa.types.is_struct(data_type):
        return pa.struct([(each.name, _numbered(each.type)) for each in data_type])
    return data_type


def shown(rows):
    """Rows, as a test shows them that fails."""
    return {name: listed(rows[name]) for name in rows.column_names}


def compare(asked, table, texts):
    """Those of the expressions that are read in tasks. Each gives what Spark gives: type, values, which rows fail."""
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    rows, proven = asked.rows(table), []
    for at in range(0, len(texts), 60):
        nodes = list(_read(asked.types(rows, texts[at : at + 60]), {name: each.type for name, each in columns.items()}))
        for (sql, node), (fine, expected) in zip(nodes, asked.answers(rows, [sql for sql, _ in nodes]), strict=True):
            value = node.of(Batch(columns, len(table)))
            mine = value.array(len(table))
            assert mine.type == node.data_type, sql
            failed = [False] * len(table) if value.failed is None else list(value.failed)
            assert not any(failed) or node.may_fail, sql
            found = zip(failed, map(bits, listed(mine)), fine, map(bits, expected), strict=True)
            for row, (fails, here, succeeds, there) in enumerate(found):
                assert (fails, here) == (not succeeds, there), (sql, shown(table.slice(row, 1)))
            proven.append(sql)
    return proven


def _read(types, columns):
    for sql, data_type in types:
        try:
            yield sql, node_of(sql, columns, arrow_type(data_type))
        except UnprovenError:
            continue
