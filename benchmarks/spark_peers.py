"""The peers of `benchmarks.failover` and `benchmarks.restore`: Spark Structured Streaming with as many keys.

    python -m benchmarks.spark_peers failover|reload KEYS TIMES

State is in RocksDB with changelog checkpoints.

`failover`: an executor is killed, while as many records a second come in from Spark's own source of numbers. Seconds
are from SIGKILL to the end of the batch that was open then, if it took twice as long as usual; else the executor had
done its part, and they are those to the end of the next one.

`reload`: a query is started again, without snapshots: like a store, its state is made of all changes. Seconds are those
of the first batch after a start, without those of the second one, which is as large and finds the state loaded.

Prints the seconds as JSON, for each kill or start.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.functions import count
from pyspark.sql.functions import sum as total_of
from pyspark.sql.streaming import DataStreamWriter

from .failover import EVERY_SECONDS, MASTER, PARTITIONS, RECORDS, executor_processes
from .suite.sides.peer import STATE_SETTINGS, new_session

BATCHES_BEFORE_KILL = 10
FILLING_BATCHES = 4


def failover(folder: Path, keys: int) -> float:
    """Fill the state, go on with little input, kill an executor, and wait for the next batch that ends."""
    import pyspark

    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    memory = {"spark.driver.memory": "2g", "spark.executor.memory": "1g"}
    spark = new_session(PARTITIONS, {**STATE_SETTINGS, **memory}, MASTER)
    ended: list[float] = []
    write_file(folder / "in" / "0.parquet", np.random.default_rng(0).permutation(keys))
    state = spark.readStream.schema("k string, v bigint").parquet(str(folder / "in"))
    steady = spark.readStream.format("rate").option("rowsPerSecond", round(RECORDS / EVERY_SECONDS)).load()
    rows = state.union(steady.selectExpr(f"format_string('k%08d', value % {keys}) AS k", "value AS v"))
    query = totals(rows, folder, lambda: ended.append(time.perf_counter())).start()
    try:
        while len(ended) < BATCHES_BEFORE_KILL:
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


def reloads(folder: Path, keys: int, times: int) -> list[float]:
    """Fill the state, then start the query again and again, each time with two small batches."""
    for number, part in enumerate(np.array_split(np.random.default_rng(0).permutation(keys), FILLING_BATCHES)):
        write_file(folder / "in" / f"{number:04d}.parquet", part)
    run(folder)
    found = []
    for start in range(times):
        for batch in range(2):
            write_file(folder / "in" / f"{FILLING_BATCHES + 2 * start + batch:04d}.parquet", np.arange(8))
        first, second = run(folder)
        found.append(first - second)
    return found


def run(folder: Path) -> list[float]:
    """Seconds of each batch. The state of earlier runs on the local disk is gone, as on another machine."""
    local = Path(tempfile.mkdtemp(dir=folder))
    settings = {"spark.local.dir": str(local), "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1000"}
    spark = new_session(PARTITIONS, {**STATE_SETTINGS, **settings})
    try:
        rows = spark.readStream.schema("k string, v bigint").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        query = totals(rows, folder, lambda: None).trigger(availableNow=True).start()
        query.awaitTermination()
        progress = [json.loads(report.json) for report in query.recentProgress]
        return [report["durationMs"]["triggerExecution"] / 1000 for report in progress if report["numInputRows"]]
    finally:
        spark.stop()
        shutil.rmtree(local, ignore_errors=True)


def totals(rows: DataFrame, folder: Path, ended: Callable[[], None]) -> DataStreamWriter:
    """A query that counts and sums by key. `ended`: called after each batch."""

    def write(batch: DataFrame, _: int) -> None:
        batch.write.format("noop").mode("overwrite").save()
        ended()

    result = rows.groupBy("k").agg(count("*").alias("n"), total_of("v").alias("total"))
    writer = result.writeStream.outputMode("update").option("checkpointLocation", str(folder / "checkpoint"))
    return writer.foreachBatch(write)


def write_file(path: Path, keys: np.ndarray) -> None:
    """Records of these keys."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"k": [f"k{key:08d}" for key in keys.tolist()], "v": keys}), path)


def main(what: str, keys: int, times: int) -> None:
    """Print the seconds."""
    found: list[float] = []
    for _ in range(times if what == "failover" else 1):
        with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as scratch:
            folder = Path(scratch)
            found += [failover(folder, keys)] if what == "failover" else reloads(folder, keys, times)
    print(json.dumps([{"seconds": each} for each in found]))


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
