"""What every log promises, whatever it is made of: see `runtime/log/log.py`. Add a log to LOGS to put it through this.

`make` gives the log of a place; called again with the same place it gives another instance of the same log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import CommitExistsError, CommitGapError, MissingColumnsError, SegmentMissingError
from headwater.runtime.log.log import Log
from headwater.runtime.log.records import AppendRecord
from headwater.runtime.log.state import LogState

LOGS: dict[str, Callable[[Path], Log]] = {"embedded": EmbeddedLog}

PATH = "segments/a/t/s-1.seg"
Records = Callable[..., pa.Table]


@pytest.fixture(params=LOGS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Log]:
    return lambda: LOGS[request.param](tmp_path / "log")


@pytest.fixture
def log(make: Callable[[], Log]) -> Log:
    log = make()
    log.check()
    return log


def test_identity_lasts_and_is_seen_by_all(log: Log, make: Callable[[], Log]) -> None:
    assert make().identity() == log.identity()
    make().check()
    assert make().identity() == log.identity()


def test_applications_are_those_that_have_committed(log: Log, records: Records) -> None:
    assert log.applications() == []
    log.commits("b").create(1, b"x")
    log.commits("a").create(1, b"x")
    log.write_segments("segments/c/t/s-1.seg", "t", records(1), 0, 0)
    assert log.applications() == ["a", "b"]


def test_commit_is_created_once_and_after_the_one_before_it(log: Log, make: Callable[[], Log]) -> None:
    commits = log.commits("a")
    assert (commits.application, commits.latest(), commits.read(1), commits.identity(1)) == ("a", 0, None, None)
    with pytest.raises(CommitGapError):
        commits.create(2, b"second")
    identity = commits.create(1, b"first")
    with pytest.raises(CommitExistsError):
        make().commits("a").create(1, b"other")
    other = make().commits("a")
    assert (other.read(1), other.identity(1), other.latest()) == (b"first", identity, 1)
    assert commits.create(2, b"second") != identity


def test_of_many_that_create_a_commit_one_succeeds(log: Log, make: Callable[[], Log]) -> None:
    created: list[int] = []
    ready = threading.Barrier(8)

    def create(writer: int) -> None:
        ready.wait()
        try:
            make().commits("a").create(1, b"%d" % writer)
        except CommitExistsError:
            return
        created.append(writer)

    threads = [threading.Thread(target=create, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = created
    assert log.commits("a").read(1) == b"%d" % winner


def test_newest_snapshot_is_the_one_that_is_loaded(log: Log, make: Callable[[], Log]) -> None:
    commits = log.commits("a")
    commits.create(1, b"x")
    assert commits.load_snapshot() is None
    for number in (1, 2, 3):
        commits.save_snapshot(number, b"%d" % number)
    assert make().commits("a").load_snapshot() == (3, b"3")
    assert commits.latest() == 1


def test_segments_hold_the_rows_of_each_partition_in_their_order(log: Log, records: Records) -> None:
    table = records(40_000)
    partitions = np.arange(40_000) % 3
    segments = log.write_segments(PATH, "t", table, partitions, 2)
    assert [(each.topic, each.partition, each.lane, each.path) for each in segments] == [
        ("t", partition, 2, PATH) for partition in range(3)
    ]
    assert {(each.base_offset, each.base_position) for each in segments} == {(-1, -1)}
    for segment in segments:
        rows = pa.Table.from_batches(log.read_batches(segment, columns=["value.v"])).column(0).to_pylist()
        assert rows == list(range(segment.partition, 40_000, 3))
        assert segment.rows == len(rows)
        bounds = [(each.min_timestamp, each.max_timestamp, each.min_order, each.max_order) for each in segment.batches]
        assert bounds[0][0] == 10 * rows[0]
        assert bounds[-1][1] == 10 * rows[-1]
        assert (bounds[0][2], bounds[-1][3]) == (10 * rows[0] + 5, 10 * rows[-1] + 5)


def test_batches_and_columns_are_those_asked_for(log: Log, records: Records) -> None:
    (segment,) = log.write_segments(PATH, "t", records(40_000), 0, 0)
    whole = list(log.read_batches(segment))
    assert [len(batch) for batch in whole] == [batch.rows for batch in segment.batches]
    (last,) = log.read_batches(segment, [len(segment.batches) - 1], ["_timestamp", "key.k", "_headers"])
    assert last.schema.names == ["_timestamp", "key.k", "_headers"]
    assert last.column(0).equals(whole[-1].column("_timestamp"))
    assert last.column(2).null_count == len(last)
    with pytest.raises(MissingColumnsError):
        list(log.read_batches(segment, columns=["value.other"]))


def test_path_is_taken_once_and_without_rows_not_at_all(log: Log, records: Records) -> None:
    assert log.write_segments(PATH, "t", records(0), 0, 0) == ()
    log.write_segments(PATH, "t", records(1), 0, 0)
    with pytest.raises(FileExistsError):
        log.write_segments(PATH, "t", records(1), 0, 0)


def test_removed_segment_is_missing_for_its_readers_and_may_be_removed_again(log: Log, records: Records) -> None:
    (segment,) = log.write_segments(PATH, "t", records(1), 0, 0)
    assert [file.path for file in log.files("a")] == [PATH]
    log.remove(PATH)
    log.remove(PATH)
    assert list(log.files("a")) == []
    with pytest.raises(SegmentMissingError):
        list(log.read_batches(segment))


def test_dropped_application_has_neither_commits_nor_files_and_others_stay(log: Log, records: Records) -> None:
    for application in ("a", "b"):
        log.commits(application).create(1, b"x")
        log.write_segments(f"segments/{application}/t/s-1.seg", "t", records(1), 0, 0)
    log.drop("a")
    log.drop("a")
    assert (log.applications(), log.commits("a").latest(), list(log.files("a"))) == (["b"], 0, [])
    assert len(list(log.files("b"))) == 1
    log.commits("a").create(1, b"y")
    assert log.commits("a").read(1) == b"y"


def test_committed_segments_follow_one_another_without_a_gap(
    log: Log, make: Callable[[], Log], records: Records
) -> None:
    state = LogState.load(log.commits("a"))
    for number in range(3):
        segments = log.write_segments(f"segments/a/t/s-{number}.seg", "t", records(4 + number), 0, 0)
        state.commit(AppendRecord(0, segments))
    found: Any = LogState.load(make().commits("a")).segments("t", 0)
    assert [(each.base_offset, each.end_offset) for each in found] == [(0, 4), (4, 9), (9, 15)]
    assert [(each.base_position, each.end_position) for each in found] == [(0, 4), (4, 9), (9, 15)]
    assert sum(len(batch) for each in found for batch in make().read_batches(each)) == 15
