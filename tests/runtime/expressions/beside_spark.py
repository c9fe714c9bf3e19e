"""Asks Spark SQL and the nodes of tasks for the same expressions, and compares what they give.

Spark is asked with `TryEval`, so that it says of each row whether it fails.
"""

import struct

import pyarrow as pa

from headwater.runtime.expressions.promotion import UnprovenError
from headwater.runtime.expressions.reading import node_of
from headwater.runtime.expressions.values import Batch
from headwater.runtime.records.types import arrow_type

TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "double", "string", "date", "timestamp")
"""Those that an expression may have where nothing else is said."""


class Asked:
    """Spark, asked for many expressions at once."""

    def __init__(self, spark):
        self._spark = spark
        self._jvm = spark.sparkContext._jvm

    def rows(self, table):
        """Rows that come from Python, as they do in a job: those of a table would be computed without the optimizer."""
        given = self._spark.createDataFrame(table)
        return given.mapInArrow(lambda batches: batches, given.schema)

    def answers(self, rows, texts):
        """For each expression that Spark takes: its type, its values, and where it fails; otherwise None."""
        from pyspark.errors import AnalysisException
        from pyspark.sql import functions

        taken, types = {}, {}
        for number, text in enumerate(texts):
            try:
                types[number] = rows.select(functions.expr(text).alias("x")).schema[0].dataType.simpleString()
                tried = self._tried(text)
                taken[number] = (tried.isNotNull().alias(f"ok{number}"), tried["v"].alias(f"x{number}"))
            except AnalysisException:
                continue
        found = rows.select(*(column for each in taken.values() for column in each)).toArrow()
        return [
            (types[n], found[f"ok{n}"].to_pylist(), listed(found[f"x{n}"])) if n in taken else None
            for n in range(len(texts))
        ]

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


def read(sql, columns, types=TYPES):
    """The node of an expression, of whichever type it is read; None if it is left to Spark."""
    for data_type in map(arrow_type, types):
        try:
            return node_of(sql, columns, data_type)
        except UnprovenError:
            continue
    return None


def compare(asked, table, texts, types=TYPES):
    """Those of the expressions that are read in tasks. Each gives what Spark gives: type, values, which rows fail."""
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    read_types = {name: column.type for name, column in columns.items()}
    nodes = [(sql, node) for sql in texts if (node := read(sql, read_types, types)) is not None]
    answers = asked.answers(asked.rows(table), [sql for sql, _ in nodes])
    for (sql, node), answer in zip(nodes, answers, strict=True):
        assert answer is not None, f"Spark refuses {sql}"
        spark_type, fine, expected = answer
        assert arrow_type(spark_type) == node.data_type, sql
        value = node.of(Batch(columns, len(table)))
        mine = value.array(len(table))
        assert mine.type == node.data_type, sql
        failed = [False] * len(table) if value.failed is None else list(value.failed)
        assert not any(failed) or node.may_fail, sql
        found = zip(failed, map(bits, listed(mine)), fine, map(bits, expected), strict=True)
        for row, (fails, here, succeeds, there) in enumerate(found):
            assert (fails, here) == (not succeeds, there), (sql, shown(table.slice(row, 1)))
    return [sql for sql, _ in nodes]
