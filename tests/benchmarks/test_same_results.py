"""Both sides of a measurement do the same work: on a few records they come to the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from headwater import Project
from headwater.benchmarks.suite import inputs
from headwater.benchmarks.suite.sides.ours import RunningProject
from headwater.benchmarks.suite.sides.project import link_log, write_log, write_project
from headwater.benchmarks.suite.sizes import Size
from headwater.benchmarks.suite.workloads import WORKLOADS, Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak]
SIZE = Size(records=400, keys=20)
EPOCHS = range(2)
Row = tuple[Any, ...]


@pytest.fixture
def peers(spark_session: SparkSession) -> SparkSession:
    """A session with the settings of the peer, beside that of the tests."""
    from headwater.benchmarks.suite.sides.peer import SETTINGS

    session = spark_session.newSession()
    for name, value in SETTINGS.items():
        if name.startswith("spark.sql."):
            session.conf.set(name, value)
    session.conf.set("spark.sql.shuffle.partitions", SIZE.partitions)
    return session


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda each: each.name)
def test_both_sides_come_to_the_same_rows(
    workload: Workload, tmp_path: Path, spark_session: SparkSession, peers: SparkSession
) -> None:
    from headwater.benchmarks.suite.sides.peer import RunningQuery

    batches = len(EPOCHS) + workload.behind
    inputs.write_files(workload.kind, tmp_path / "files", batches, SIZE)
    query = RunningQuery(tmp_path / "peer", workload.name, tmp_path / "files", peers)
    for number in range(batches):
        assert query.take([number]) > 0
    query.close()

    write_log(workload.kind, tmp_path / "prepared", len(EPOCHS), SIZE)
    write_project(tmp_path / "ours", workload, SIZE, "task")
    link_log(tmp_path / "prepared", tmp_path / "ours")
    running = RunningProject(tmp_path / "ours", workload.kind, workload.epochs, SIZE, spark_session)
    for number in EPOCHS:
        assert running.take([number]) > 0
    running.close()

    found = set(rows_of_ours(tmp_path / "ours"))
    assert found == set(rows_of_peer(query.out)) != set()


def rows_of_ours(root: Path) -> Iterator[Row]:
    """The last row of each key and window; of a join, each row."""
    with Project.load(root) as project:
        found = [{**each.key, **(each.value or {})} for each in project.read("results")]
    yield from last_rows(found)


def rows_of_peer(out: Path) -> Iterator[Row]:
    """The same of the files of all batches."""
    found = pq.read_table(out).to_pylist()
    for row in found:
        if "window" in row:
            row["window_start"] = int(row["window"]["start"].timestamp() * 1000)
    yield from last_rows(found)


def last_rows(rows: list[dict[str, Any]]) -> Iterator[Row]:
    """Counts only grow, so the last row of a key and window is the one with the largest."""
    last: dict[Row, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda each: each.get("n", 0)):
        key = next(row[name] for name in ("other", "k") if name in row)
        last[key, row.get("window_start"), row.get("v") if "n" not in row else None] = row
    for key, row in last.items():
        total = row.get("total")
        yield *key, row.get("n"), round(total, 6) if total is not None else row.get("name")
