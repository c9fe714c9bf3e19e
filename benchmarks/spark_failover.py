"""The peer of `benchmarks.failover`: an executor is killed under Spark Structured Streaming.

    python -m benchmarks.spark_failover KEYS TIMES

State is in RocksDB with changelog checkpoints, as many keys as Headwater's store has, and as many records a second
come in, from Spark's own source of numbers. Seconds are from SIGKILL to the end of the batch that was open then, if it
took twice as long as usual; else the executor had done its part, and they are those to the end of the next one.
Prints them as JSON, for each kill.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count
from pyspark.sql.functions import sum as total_of

from .failover import EVERY_SECONDS, MASTER, PARTITIONS, RECORDS, executor_processes
from .spark_streaming import STATE

BATCHES = 10
"""Batches with input before the kill."""


def seconds_of(folder: Path, keys: int) -> float:
    """Fill the state, go on with little input, kill an executor, and wait for the next batch that ends."""
    import pyspark

    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    spark = (
        SparkSession.builder.master(MASTER)
        .config("spark.driver.memory", "2g")
        .config("spark.executor.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", PARTITIONS)
        .config("spark.sql.streaming.stateStore.providerClass", STATE)
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    ended: list[float] = []
    source = folder / "in"
    source.mkdir()
    numbers = np.random.default_rng(0).permutation(keys)
    pq.write_table(pa.table({"k": [f"k{key:08d}" for key in numbers.tolist()], "v": numbers}), source / "0.parquet")

    def write(batch: DataFrame, _: int) -> None:
        batch.write.format("noop").mode("overwrite").save()
        ended.append(time.perf_counter())

    state = spark.readStream.schema("k string, v bigint").parquet(str(source))
    steady = spark.readStream.format("rate").option("rowsPerSecond", round(RECORDS / EVERY_SECONDS)).load()
    rows = state.union(steady.selectExpr(f"format_string('k%08d', value % {keys}) AS k", "value AS v"))
    totals = rows.groupBy("k").agg(count("*").alias("n"), total_of("v").alias("total"))
    query = (
        totals.writeStream.outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .foreachBatch(write)
        .start()
    )
    try:
        while len(ended) < BATCHES:
            if not query.isActive:
                raise SystemExit(f"the query has ended: {query.exception()}")
            time.sleep(0.05)
        before = len(ended)
        begin = time.perf_counter()
        os.kill(next(iter(executor_processes().values())), signal.SIGKILL)
        while len(ended) < before + 2:
            time.sleep(0.02)
        usual = statistics.median(after - earlier for earlier, after in itertools.pairwise(ended[before // 2 : before]))
        hit = ended[before] - ended[before - 1] > 2 * usual  # else the batch was past the tasks of that executor
        return ended[before if hit else before + 1] - begin
    finally:
        query.stop()
        spark.stop()


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    found = []
    for _ in range(int(sys.argv[2])):
        with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as scratch:
            found.append({"seconds": seconds_of(Path(scratch), int(sys.argv[1]))})
    print(json.dumps(found))
