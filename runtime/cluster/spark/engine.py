"""Spark as an engine: query plans of subtopologies, placed on executors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...engine.execution.rows import physical_columns
from ...engine.failed_stage import with_facts
from ...engine.operators.operator import Flow, Node
from ...engine.sql_step import SqlStep
from ...engine.stage import Stage
from ...ir.topology import Subtopology
from ...placing.place import Executor
from . import sql_steps
from .worker import spark_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def built(part: Subtopology, placed: DataFrame, in_tasks: bool = False) -> DataFrame:
    """The query plan of a subtopology's epochs, from the placed threads to one row `commit` per task. `in_tasks`: see
    `SparkEngine`.
    """
    rows: DataFrame = part.build(placed, SparkEngine.of(part, in_tasks))
    return rows


@dataclass(frozen=True)
class SparkEngine:
    """An `Engine` that adds steps to a query plan.

    Its rows are a DataFrame: first the placed threads, then the pipe of `sql_steps`, at the end commits. `numbered`:
    rows have the numbers of their records, see `engine/pipe.py`. `skips_records`: records that a step cannot process
    are skipped. `in_tasks`: Python stages compute proven expressions.
    """

    numbered: bool = False
    in_tasks: bool = False
    skips_records: bool = False

    @classmethod
    def of(cls, part: Subtopology, in_tasks: bool = False) -> SparkEngine:
        """The engine of a subtopology's epochs."""
        return cls(part.skips_records or bool(part.processors), in_tasks, part.skips_records)

    def in_task(self, step: SqlStep, alone: bool) -> bool:  # noqa: ARG002
        """See `Engine`. A further stage costs far more than a simple step on rows that are in Spark SQL already."""
        return self.in_tasks and not alone

    def process(
        self, rows: DataFrame, nodes: tuple[Node, ...], reads: Mapping[str, Flow], yields: Mapping[str, Flow]
    ) -> DataFrame:
        """One `mapInArrow`."""
        from pyspark.sql.pandas.types import from_arrow_schema

        stage = Stage(nodes, spark_worker, reads, yields, self.numbered, self.skips_records)
        if reads:
            rows = sql_steps.ordered(rows, {name: list(physical_columns(flow)) for name, flow in reads.items()})
            # A stage reads columns by position, but `mapInArrow` asks by name and reads a dot as access to a field.
            rows = rows.toDF(*(f"_{number}" for number in range(len(rows.columns))))
        return rows.mapInArrow(lambda batches: with_facts(stage(batches)), from_arrow_schema(stage.schema))

    def sql(self, rows: DataFrame, step: str, arguments: Mapping[str, Any]) -> DataFrame:
        """The function of `sql_steps` with the step's name."""
        done: DataFrame = getattr(sql_steps, step)(rows, **arguments)
        return done


# Placing Spark tasks: one row per thread of a client, with the client's executor as preferred location.
#
# `executor_<host>_<id>` is Spark's own name for an executor as a location (TaskLocation.scala). With a long locality
# wait a task runs on that executor or not at all. In local mode clients are virtual, and rows have no preferred
# location.

DRIVER = "driver"


def items(sequence: Any) -> list[Any]:
    """A Scala sequence as a list."""
    return [sequence.apply(number) for number in range(sequence.size())]


def class_name(node: Any) -> str:
    """The name of the class of an object of the JVM, such as a node of a plan."""
    return str(node.getClass().getSimpleName())


def executors(session: SparkSession) -> dict[str, Executor]:
    """The executors that are alive, by id. Empty in local mode, where the driver does the work."""
    infos = items(session.sparkContext._jsc.sc().statusStore().executorList(True))
    return {
        info.id(): Executor(info.id(), info.hostPort().rsplit(":", 1)[0], info.totalCores())
        for info in infos
        if info.id() != DRIVER
    }


def cancel(session: SparkSession, group: str) -> None:
    """Cancel the jobs of a group, and those that start later: without their executor they would wait for an hour."""
    session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(group)


def placed(session: SparkSession, threads: int, executor: Executor | None) -> DataFrame:
    """A DataFrame with `threads` rows `thread` (int, from 0), each in a Spark partition of its own on `executor`."""
    from pyspark.sql import DataFrame

    context = session.sparkContext
    jvm: Any = context._jvm
    gateway: Any = context._gateway
    to_scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala
    preferred = jvm.java.util.ArrayList()
    if executor is not None:
        preferred.add(f"executor_{executor.host}_{executor.id}")
    rows = jvm.java.util.ArrayList()
    for number in range(threads):
        values = gateway.new_array(jvm.java.lang.Object, 1)
        values[0] = number
        row = jvm.org.apache.spark.sql.RowFactory.create(values)
        rows.add(jvm.scala.Tuple2(row, to_scala(preferred).toList()))
    class_tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("org.apache.spark.sql.Row"))
    rdd = context._jsc.sc().makeRDD(to_scala(rows).toList(), class_tag)
    schema = jvm.org.apache.spark.sql.types.StructType.fromDDL("thread INT")
    return DataFrame(session._jsparkSession.createDataFrame(rdd.toJavaRDD(), schema), session)
