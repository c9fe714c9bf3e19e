"""Places Spark tasks: one row for each thread of a client, with that client's executor as preferred location.

`executor_<host>_<id>` is Spark's own name for an executor as a location (TaskLocation.scala). With a long locality wait
a task runs on that executor or not at all. In local mode clients are virtual, and rows have no preferred location.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..placing.client import Executor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DRIVER = "driver"


def executors(session: SparkSession) -> dict[str, Executor]:
    """The executors that the driver knows to be alive, by id. Empty in local mode, where the driver does the work."""
    listed = session.sparkContext._jsc.sc().statusStore().executorList(True)
    infos = [listed.apply(number) for number in range(listed.size())]
    return {
        info.id(): Executor(info.id(), info.hostPort().rsplit(":", 1)[0], info.totalCores())
        for info in infos
        if info.id() != DRIVER
    }


def cancel(session: SparkSession, group: str) -> None:
    """Cancel the jobs of a group, also one that is about to begin: without its executor it would wait for an hour."""
    session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(group)


def placed(session: SparkSession, threads: int, executor: Executor | None) -> DataFrame:
    """A DataFrame of one row `thread` (int, from 0) in its own Spark partition for each of `threads`, placed on
    `executor`.
    """
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
