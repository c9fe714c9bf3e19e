"""Both sides of a measurement do the same work: on a few records they come to the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater import Project
from headwater.benchmarks.bare_loop import Loop
from headwater.benchmarks.suite import inputs
from headwater.benchmarks.suite.sides.ours import RunningProject
from headwater.benchmarks.suite.sides.project import link_log, write_log, write_project
from headwater.benchmarks.suite.sizes import Size
from headwater.benchmarks.suite.workloads import ALONE, WORKLOADS, Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak]
SIZE = Size(records=400, keys=20)
EPOCHS = range(1, 3)
"""Not from 0 on: a record of the time 0 is late to Spark's joins, whose watermark begins there."""
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

    batches = range(EPOCHS.start, EPOCHS.stop + workload.behind)
    inputs.write_files(workload.kind, tmp_path / "files", batches.stop, SIZE)
    query = RunningQuery(tmp_path / "peer", workload.name, tmp_path / "files", peers)
    for number in batches:
        assert query.take([number]) > 0
    query.close()

    found = set(last_rows(results_of_ours(workload, tmp_path, spark_session)))
    assert found == set(rows_of_peer(query.out)) != set()


@pytest.mark.parametrize("workload", ALONE.values(), ids=lambda each: each.name)
def test_join_without_a_peer_comes_to_the_rows_of_the_bare_loop(
    workload: Workload, tmp_path: Path, spark_session: SparkSession
) -> None:
    loop = Loop(tmp_path, workload.name, SIZE)
    for number in EPOCHS:
        loop.prepare(number)
        loop.take(number)
    loop.close()
    written = [pa.ipc.open_stream(path.read_bytes()).read_all() for path in sorted(tmp_path.glob("out-*"))]

    found = {row["k"]: row for row in results_of_ours(workload, tmp_path, spark_session)}
    expected = {row["k"]: row for row in pa.concat_tables(written).to_pylist()}
    columns = ("k", "v", "name")
    assert {tuple(row[name] for name in columns) for row in found.values()} == {
        tuple(row[name] for name in columns) for row in expected.values()
    }
    assert len(found) == SIZE.keys


def results_of_ours(workload: Workload, path: Path, session: SparkSession) -> list[dict[str, Any]]:
    """The results in the order in which they were written."""
    root = path / "ours"
    write_log(workload.kind, path / "prepared", EPOCHS.stop, SIZE)
    write_project(root, workload, SIZE, "task")
    link_log(path / "prepared", root)
    running = RunningProject(root, workload.kind, workload.epochs, SIZE, session)
    for number in EPOCHS:
        assert running.take([number]) > 0
    running.close()
    with Project.load(root) as project:
        return [{**each.key, **(each.value or {})} for each in project.read("results")]


def rows_of_peer(out: Path) -> Iterator[Row]:
    """The last row of each key and window, of the files of all batches; of a join, each row.

    Without windows that start before 1970: Spark has them, Kafka Streams and Headwater do not.
    """
    found = pq.read_table(out).to_pylist()
    for row in found:
        if "window" in row:
            row["window_start"] = int(row["window"]["start"].timestamp() * 1000)
    yield from last_rows([row for row in found if row.get("window_start", 0) >= 0])


def last_rows(rows: list[dict[str, Any]]) -> Iterator[Row]:
    """Counts only grow, so the last row of a key and window is the one with the largest."""
    last: dict[Row, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda each: each.get("n", 0)):
        key = next(row[name] for name in ("other", "k") if name in row)
        last[key, row.get("window_start"), (row.get("v"), row.get("w")) if "n" not in row else None] = row
    for key, row in last.items():
        total = row.get("total")
        yield *key, row.get("n"), round(total, 6) if total is not None else row.get("name", row.get("w"))
