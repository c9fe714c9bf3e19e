"""The peer, a process: Spark Structured Streaming, which takes one batch of files whenever it is told to.

    python -m benchmarks.suite.sides.peer FOLDER QUERY INPUT SIZE

Its state is in RocksDB with changelog checkpoints, and the rows that a batch updates are written as Parquet. All that
makes it fast is on: typed columns, one file a partition and batch, as many shuffle partitions as there are partitions.
What a watermark removes is removed with the next batch, as where records come all the time. Between batches it looks
for files four times a second only, so as to leave the cores alone; its seconds are `triggerExecution` of the batch,
which has nothing of that.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from ..inputs import epoch_name
from ..sizes import Size
from .process import serve
from .spark_queries import FINAL, QUERIES

STATE_SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
    "RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
SETTINGS = {
    **STATE_SETTINGS,
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.pollingDelay": "250ms",
    "spark.sql.session.timeZone": "UTC",
}


class RunningQuery:
    """A query that waits for files."""

    def __init__(self, root: Path, query: str, prepared: Path, session: SparkSession) -> None:
        self._incoming, self._prepared, self._spark = root / "in", prepared, session
        self._incoming.mkdir(parents=True)
        self.out = root / "out"
        table = session.read.parquet(str(prepared / "table.parquet")).cache()
        schema = session.read.parquet(str(prepared / epoch_name(0))).schema
        rows = session.readStream.schema(schema).parquet(str(self._incoming / "*"))
        results = QUERIES[query](rows, table)
        self._query = (
            results.writeStream.outputMode("append" if query in FINAL else "update")
            .option("checkpointLocation", str(root / "checkpoint"))
            .foreachBatch(self._write)
            .start()
        )
        self._reported = -1

    def take(self, epochs: Sequence[int]) -> float:
        """Seconds for the files of some epochs."""
        for number in epochs:
            name = epoch_name(number)
            shutil.copytree(self._prepared / name, self._incoming / f".{name}", copy_function=os.link)
            (self._incoming / f".{name}").rename(self._incoming / name)  # all of its files are there at once
        self._query.processAllAvailable()
        reports = [json.loads(each.json) for each in self._query.recentProgress]
        new = [each for each in reports if each["batchId"] > self._reported and each["numInputRows"]]
        self._reported = max(each["batchId"] for each in new)
        return float(sum(each["durationMs"]["triggerExecution"] for each in new)) / 1000

    def close(self) -> None:
        """End the query."""
        self._query.stop()

    def _write(self, batch: DataFrame, _: int) -> None:
        batch.write.mode("append").parquet(str(self.out))


def new_session(partitions: int, settings: Mapping[str, str] = SETTINGS, master: str = "local[2]") -> SparkSession:
    """A session of this process. It ends with it."""
    builder = SparkSession.builder.master(master).config("spark.sql.shuffle.partitions", partitions)
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


if __name__ == "__main__":
    folder, query, prepared, size = sys.argv[1:5]
    partitions = Size.from_json(size).partitions
    serve(lambda: RunningQuery(Path(folder), query, Path(prepared), new_session(partitions)))
