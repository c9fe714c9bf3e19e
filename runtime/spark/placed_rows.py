"""Where a Spark task runs: one row for each thread of a client, preferring that client's executor.

The preferred location `executor_<host>_<id>` is Spark's own way to name an executor (TaskLocation.scala); with a long
locality wait the task goes there or nowhere. In local mode the clients are virtual and every row is at home.
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


def placed(session: SparkSession, threads: int, executor: Executor | None) -> DataFrame:
    """One row `thread` (int, from 0) and one Spark partition for each of `threads`, all preferring `executor`."""
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
