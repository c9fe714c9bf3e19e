"""The peer: Spark Structured Streaming, state in RocksDB with changelog checkpointing, updated rows written as Parquet.

Everything that makes it fast is on: typed columns, one file a partition and batch, as many shuffle partitions as there
are partitions, changelog checkpoints instead of whole snapshots. Prints the seconds of each batch as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count
from pyspark.sql.functions import sum as total_of

from .records import PARTITIONS

STATE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
VARIANTS = {
    "plain": lambda rows: rows,
    "sql": lambda rows: rows.where("v >= 10").selectExpr("k", "v * 2 + 1 as v"),
}


def run_to_the_end(totals: DataFrame, write: Callable[[DataFrame, int], None], checkpoint: Path) -> list[float]:
    """Take all records that are there; the seconds of each batch that had some."""
    query = (
        totals.writeStream.outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .foreachBatch(write)
        .start()
    )
    query.awaitTermination()
    progress = [json.loads(report.json) for report in query.recentProgress]
    return [report["durationMs"]["triggerExecution"] / 1000 for report in progress if report["numInputRows"]]


def seconds_of_batches(folder: Path, variant: str) -> list[float]:
    """Run all files of `folder/in`, one a partition and batch, to the end."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", PARTITIONS)
        .config("spark.sql.streaming.numRecentProgressUpdates", 1000)
        .config("spark.sql.streaming.stateStore.providerClass", STATE)
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        source = str(folder / "in")
        rows = spark.readStream.schema(spark.read.parquet(source).schema)
        rows = rows.option("maxFilesPerTrigger", PARTITIONS).parquet(source)
        totals = VARIANTS[variant](rows).groupBy("k").agg(count("*").alias("n"), total_of("v").alias("total"))

        def write(batch: DataFrame, _: int) -> None:
            batch.write.mode("append").parquet(str(folder / "out"))

        return run_to_the_end(totals, write, folder / "checkpoint")
    finally:
        spark.stop()


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    print(json.dumps(seconds_of_batches(Path(sys.argv[1]), sys.argv[2])))
