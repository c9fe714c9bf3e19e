"""What every log promises, whatever it is made of: see `runtime/log/log.py`. Add a log to LOGS to put it through this.

The stand-in for logs with holes between positions, which other tests run on, is held to the same.

`make` gives the log of a place; called again with the same place it gives another instance of the same log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from sparse_log import SparseLog

from headwater.runtime.dataclass_json import from_json, to_json
from headwater.runtime.log.commit_records import AppendRecord
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import (
    CommitExistsError,
    CommitGapError,
    MissingColumnsError,
    RangeMissingError,
    SavedFileError,
)
from headwater.runtime.log.log import Log, snapshot_path
from headwater.runtime.log.offset_order import by_offset
from headwater.runtime.log.ranges import LogRange
from headwater.runtime.log.state import LogState

LOGS: dict[str, Callable[[Path], Log]] = {"embedded": EmbeddedLog, "sparse": SparseLog}

Records = Callable[..., pa.Table]


@pytest.fixture(params=LOGS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Log]:
    return lambda: LOGS[request.param](tmp_path / "log")


def committed(log: Log, *tables: pa.Table, partitions: int | npt.NDArray[np.integer] = 0, lane: int = 0) -> LogState:
    """The state after a commit for each table."""
    state = LogState.load(log.commits("a"))
    for table in tables:
        state.commit(AppendRecord(0, log.write("a", "t", f"s-{state.number}", table, partitions, lane)))
    return state


def values(log: Log, ranges: Iterable[LogRange], start: int | None = None) -> list[int]:
    """The column `value.v` of the records from a position on."""
    return [
        value
        for each in ranges
        for fetched in log.read(each, start, ["value.v"])
        for value in fetched.records.column(0).to_pylist()
    ]


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
    log.write("c", "t", "s-1", records(1), 0, 0)
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


def test_ranges_hold_the_rows_of_each_partition_in_their_order(log: Log, records: Records) -> None:
    state = committed(log, records(40_000), partitions=np.arange(40_000) % 3, lane=2)
    for partition in range(3):
        expected = list(range(partition, 40_000, 3))
        ranges = state.ranges("t", partition)
        assert values(log, ranges) == expected
        assert {(each.topic, each.partition, each.lane) for each in ranges} == {("t", partition, 2)}
        assert sum(each.records for each in ranges) == len(expected)
        assert sum(each.size for each in ranges) == state.size("t", partition) > 0
        for each in ranges:
            orders = [order for found in log.read(each, None, ["_order"]) for order in found.records[0].to_pylist()]
            assert all(each.min_order <= order <= each.max_order for order in orders)


def test_ranges_follow_one_another_and_each_record_has_a_place_in_its_own(
    log: Log, make: Callable[[], Log], records: Records
) -> None:
    state = committed(log, records(4), records(50), records(6))
    ranges = LogState.load(make().commits("a")).ranges("t", 0)
    assert ranges == state.ranges("t", 0) == state.lane_ranges("t", 0, 0)
    assert [each.start for each in ranges] == [0, *(each.end for each in ranges[:-1])]
    assert [each.start_offset for each in ranges] == [0, *(each.end_offset for each in ranges[:-1])]
    assert (ranges[-1].end, ranges[-1].end_offset) == (state.lane_ends("t", 0)[0], state.end("t", 0))
    for each in ranges:
        behind, found = each.start, list(make().read(each))
        for fetched in found:
            assert len(fetched) == len(fetched.positions) == len(fetched.offsets) == fetched.records.num_rows > 0
            assert (np.diff(fetched.positions) > 0).all()
            assert (np.diff(fetched.offsets) >= np.diff(fetched.positions)).all()
            assert behind <= fetched.positions[0] <= fetched.positions[-1] < fetched.end <= each.end
            assert each.start_offset <= fetched.offsets[0] <= fetched.offsets[-1] < each.end_offset
            behind = fetched.end
        assert not found or behind == each.end


def test_reading_goes_on_at_any_position(log: Log, records: Records) -> None:
    for each in committed(log, records(50)).ranges("t", 0):
        whole = [
            (position, value)
            for fetched in log.read(each)
            for position, value in zip(fetched.positions, fetched.records["value.v"].to_pylist(), strict=True)
        ]
        for start in range(each.start, each.end + 1):
            assert values(log, [each], start) == [value for position, value in whole if position >= start]
        for fetched in log.read(each):
            rest = [value for position, value in whole if position > fetched.positions[-1]]
            assert values(log, [each], fetched.end) == rest
            assert fetched.before(int(fetched.positions[-1])).num_rows == len(fetched) - 1
            assert fetched.before(fetched.end) is fetched.records


def test_records_from_an_offset_on_stand_behind_the_position_that_a_range_tells(log: Log, records: Records) -> None:
    state = committed(log, records(20), records(20))
    whole = [
        (int(offset), value)
        for found in by_offset(log, [(each, each.start) for each in state.ranges("t", 0)])
        for offset, value in zip(found.offsets, found.records["value.v"].to_pylist(), strict=True)
    ]
    assert [value for _, value in whole] == [*range(20), *range(20)]
    for start in range(state.end("t", 0) + 1):
        wanted = [(each, each.position_of(start)) for each in state.ranges("t", 0, start)]
        offsets = [int(offset) for found in by_offset(log, wanted) for offset in found.offsets]
        assert [offset for offset in offsets if offset >= start] == [offset for offset, _ in whole if offset >= start]


def test_range_travels_as_text(log: Log, make: Callable[[], Log], records: Records) -> None:
    ranges = committed(log, records(9)).ranges("t", 0)
    told = [from_json(LogRange, to_json(each)) for each in ranges]
    assert tuple(told) == ranges
    assert values(make(), told) == list(range(9))


def test_columns_are_those_asked_for(log: Log, records: Records) -> None:
    ranges = committed(log, records(3)).ranges("t", 0)
    (found,) = (
        fetched.records for each in ranges for fetched in log.read(each, None, ["_timestamp", "key.k", "_headers"])
    )
    assert found.schema.names == ["_timestamp", "key.k", "_headers"]
    assert found.column(0).to_pylist() == [0, 10, 20]
    assert found.column(2).null_count == 3
    with pytest.raises(MissingColumnsError):
        [list(log.read(each, None, ["value.other"])) for each in ranges]


def test_name_is_taken_once_and_without_rows_not_at_all(log: Log, records: Records) -> None:
    assert log.write("a", "t", "s-1", records(0), 0, 0) == ()
    log.write("a", "t", "s-1", records(1), 0, 0)
    with pytest.raises(FileExistsError):
        log.write("a", "t", "s-1", records(1), 0, 0)


def test_removed_records_are_missing_for_their_readers_and_may_be_removed_again(log: Log, records: Records) -> None:
    state = committed(log, records(1))
    reading = [log.read(each) for each in state.ranges("t", 0)]  # nothing is read before it is asked for
    (file,) = log.files("a")
    assert state.paths() == {file.path}
    log.remove(file.path)
    log.remove(file.path)
    assert list(log.files("a")) == []
    for each in reading:
        with pytest.raises(RangeMissingError):
            next(each)


def test_dropped_application_has_neither_commits_nor_files_and_others_stay(log: Log, records: Records) -> None:
    for application in ("a", "b"):
        log.commits(application).create(1, b"x")
        log.write(application, "t", "s-1", records(1), 0, 0)
    log.drop("a")
    log.drop("a")
    assert (log.applications(), log.commits("a").latest(), list(log.files("a"))) == (["b"], 0, [])
    assert len(list(log.files("b"))) == 1
    log.commits("a").create(1, b"y")
    assert log.commits("a").read(1) == b"y"


def test_status_is_the_text_written_last_and_goes_with_its_application(log: Log) -> None:
    assert log.read_status("a") is None
    for text in ("first", "second: ü", "x" * 100_000):
        log.write_status("a", text)
        assert log.read_status("a") == text
    assert (log.read_status("b"), log.applications()) == (None, [])
    log.drop("a")
    assert log.read_status("a") is None


def test_pause_lasts_until_it_is_ended_and_keeps_the_time_of_its_beginning(log: Log) -> None:
    assert log.paused_since("a") is None
    log.pause("a")
    since = log.paused_since("a")
    assert since
    log.pause("a")
    log.drop("a")  # it is the operator's word, and none of the application's data
    assert (log.paused_since("a"), log.paused_since("b"), log.applications()) == (since, None, [])
    log.resume("a")
    log.resume("a")
    assert log.paused_since("a") is None


def test_saved_file_is_read_again_as_it_was_by_any_instance(log: Log, make: Callable[[], Log]) -> None:
    content = bytes(range(256)) * 5000
    path = snapshot_path("a", "totals", "one")

    saved = log.save_file(path, lambda to: to.write_bytes(content))  # type: ignore[arg-type, return-value]

    for start in (0, 1, len(content) - 1, len(content)):
        assert b"".join(map(bytes, make().read_file(path, start))) == content[start:]
    assert (saved.path, saved.size) == (path, len(content))
    assert path in [file.path for file in log.files("a")]
    with pytest.raises(FileExistsError):
        log.save_file(path, lambda to: None)
    log.remove(path)
    with pytest.raises(SavedFileError):
        list(log.read_file(path))


def test_saved_file_that_cannot_be_filled_does_not_exist(log: Log) -> None:
    def fill(to: Path) -> None:
        to.write_bytes(b"half")
        raise ValueError("the rest is missing")

    with pytest.raises(ValueError, match="the rest is missing"):
        log.save_file(snapshot_path("a", "totals", "one"), fill)

    assert list(log.files("a")) == []


def test_saved_file_goes_with_its_application(log: Log) -> None:
    log.save_file(snapshot_path("a", "totals", "one"), lambda to: to.write_bytes(b"1"))  # type: ignore[arg-type, return-value]
    log.save_file(snapshot_path("b", "totals", "one"), lambda to: to.write_bytes(b"1"))  # type: ignore[arg-type, return-value]
    log.drop("a")
    assert list(log.files("a")) == []
    assert len(list(log.files("b"))) == 1
