"""Spark Structured Streaming as a peer: where it keeps its state, and how a query takes all that there is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame

STATE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


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
