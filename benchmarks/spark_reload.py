"""The peer of `benchmarks.restore`: Spark Structured Streaming loads the state of a query that is started again.

    python -m benchmarks.spark_reload KEYS TIMES

State is in RocksDB with changelog checkpoints, without snapshots: like a store, it is made of all changes. Seconds are
those of the first batch after a start, without those of the second one, which is as large and finds the state loaded.
Prints them as JSON, for each start.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count
from pyspark.sql.functions import sum as total_of

from .records import PARTITIONS
from .spark_streaming import STATE, run_to_the_end

BATCHES = 4


def write_file(path: Path, keys: np.ndarray) -> None:
    """Records of these keys."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"k": [f"k{key:08d}" for key in keys.tolist()], "v": keys}), path)


def seconds_of_starts(folder: Path, keys: int, times: int) -> list[dict[str, float]]:
    """Fill the state, then start the query again and again, each time with two small batches."""
    for number, part in enumerate(np.array_split(np.random.default_rng(0).permutation(keys), BATCHES)):
        write_file(folder / "in" / f"{number:04d}.parquet", part)
    run(folder)
    found = []
    for time in range(times):
        for batch in range(2):
            write_file(folder / "in" / f"{BATCHES + 2 * time + batch:04d}.parquet", np.arange(8))
        first, second = run(folder)
        found.append({"seconds": first - second})
    return found


def run(folder: Path) -> list[float]:
    """Seconds of each batch. The state of earlier runs on the local disk is gone, as on another machine."""
    local = Path(tempfile.mkdtemp(dir=folder))
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "4g")
        .config("spark.local.dir", str(local))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", PARTITIONS)
        .config("spark.sql.streaming.stateStore.providerClass", STATE)
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .config("spark.sql.streaming.stateStore.minDeltasForSnapshot", 1000)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        rows = spark.readStream.schema("k string, v bigint").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        totals = rows.groupBy("k").agg(count("*").alias("n"), total_of("v").alias("total"))

        def write(batch: DataFrame, _: int) -> None:
            batch.write.format("noop").mode("overwrite").save()

        return run_to_the_end(totals, write, folder / "checkpoint")
    finally:
        spark.stop()
        shutil.rmtree(local, ignore_errors=True)


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as scratch:
        print(json.dumps(seconds_of_starts(Path(scratch), int(sys.argv[1]), int(sys.argv[2]))))
