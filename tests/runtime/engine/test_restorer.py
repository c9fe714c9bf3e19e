"""Stores of the driver's own machine, opened and closed without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from commits import Applications, part, topic, topology

from headwater.runtime.engine.planner import Planner
from headwater.runtime.engine.plugged import Plugged
from headwater.runtime.engine.restorer import LocalRestorer
from headwater.runtime.log.embedded import EmbeddedLog
from headwater.runtime.log.schema import CHANGELOG
from headwater.runtime.restore.changelog import ChangelogRestore
from headwater.runtime.state.directory import StateDirectory, StoreId
from headwater.runtime.state.lmdb import LmdbStore
from headwater.runtime.tasks.task_id import TaskId
from headwater.runtime.topology import Store, Window

HOUR = 3_600_000
DAY = 24 * HOUR
HOURS = Store("hours", 1, "k string", "n bigint", "window", Window(HOUR, HOUR, 0), retention_ms=DAY)
COUNTS = part("counts", (topic("events", 1),), stores=(HOURS,))
TASK = TaskId(0, 0, "counts")
STREAM_TIME = 30 * HOUR
KEPT = range(7, 31)
"""Hours that begin after the stream time less a day."""


def window(hour: int) -> bytes:
    return (hour * HOUR + 2**63).to_bytes(8, "big") + b"key"


@pytest.fixture
def directory(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "state", "client-1", "p-t")


@pytest.fixture
def restorer(tmp_path: Path, directory: StateDirectory) -> LocalRestorer:
    """Of a task that has committed the windows of 31 hours."""
    log = EmbeddedLog(tmp_path / "log")
    applications = Applications(log)
    declared = topology("t", COUNTS)
    committed = applications.start(declared)
    changes = pa.table({"key": [window(hour) for hour in range(31)], "value": [b"v"] * 31, "_timestamp": range(31)})
    segments = log.write_segments(
        "segments/p-t/c/1.seg", "p-t-hours-changelog", changes.cast(CHANGELOG), 0, TASK.partition
    )
    applications.commit("t", "counts", 0, {}, *segments, clocks={"hours": STREAM_TIME})
    committed.own.refresh()
    plugged = Plugged((str(tmp_path), (), ()))
    return LocalRestorer(directory, Planner(committed, 10), log, plugged, ChangelogRestore(10), declared.subtopologies)


def windows(directory: StateDirectory) -> list[bytes]:
    return [key for key, _ in LmdbStore(directory.store_path(StoreId("hours", 0))).range(None, None)]


def test_clean_close_applies_all_that_is_committed_and_leaves_what_is_in_retention(
    restorer: LocalRestorer, directory: StateDirectory
) -> None:
    assert restorer.open(TASK, ("hours",)) == {"hours": 0}
    restorer.close(TASK, clean=True)
    assert windows(directory) == [window(hour) for hour in KEPT]


def test_other_close_applies_nothing_more(restorer: LocalRestorer, directory: StateDirectory) -> None:
    restorer.restore(TASK, ("hours",))
    restorer.close(TASK, clean=False)
    assert windows(directory) == [window(hour) for hour in range(31)]
