"""A session of Spark that runs one job with two Python workers: what every project's start has to wait for.

python -m benchmarks.suite.sides.bare_spark
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from .peer import SETTINGS
from .process import serve


class BareSession:
    """The session. Takes nothing."""

    def __init__(self) -> None:
        builder = SparkSession.builder.master("local[2]")
        for name in ("spark.driver.memory", "spark.ui.enabled", "spark.ui.showConsoleProgress"):
            builder = builder.config(name, SETTINGS[name])
        self._spark = builder.getOrCreate()
        self._spark.range(2, numPartitions=2).mapInArrow(_as_they_are, "id bigint").collect()

    def take(self, epochs: Sequence[int]) -> float:
        """There are no epochs here."""
        raise NotImplementedError(epochs)

    def close(self) -> None:
        """End Spark."""
        self._spark.stop()


def _as_they_are(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    serve(BareSession)
