"""What every log promises, whatever it is made of: see `runtime/log/log.py`. Add a log to LOGS to put it through this.

The stand-in for logs with holes between positions, which other tests run on, is held to the same.

`make` gives the log of a place; called again with the same place it gives another instance of the same log.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from headwater.runtime.dataclass_json import from_json, to_json
from headwater.runtime.log.cleaning.compaction import remaining
from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.commit.external_records import AppendRecord
from headwater.runtime.log.commit.records import EpochRecord, GenerationRecord, RewriteRecord, TaskCommit
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import (
    ColumnTypeError,
    CommitExistsError,
    CommitGapError,
    FullyRefreshedError,
    MissingColumnsError,
    RangeMissingError,
    SavedFileError,
    SegmentsChangedError,
)
from headwater.runtime.log.log import Log, snapshot_path, writer_of
from headwater.runtime.log.object_store.log import ObjectStoreLog
from headwater.runtime.log.placed_log import PlacedLog, place_of
from headwater.runtime.log.ranges import LogRange, RangeReader, Rewritten, by_offset
from headwater.runtime.log.state import LogState
from headwater.runtime.log.state_parts import folded
from headwater.runtime.state.offset_checkpoint import log_has_commit
from headwater.tests.runtime.local.sparse_log import SparseLog


def renamed(path: Path) -> PlacedLog:
    """A log in a directory, in which `a` and `b` live in the places of others."""
    log = PlacedLog(EmbeddedLog(path))
    log.change(lambda places: places if places.names else places.moved({"a": "first", "b": "second"}, 0))
    return log


LOGS: dict[str, Callable[[Path], Log]] = {
    "embedded": EmbeddedLog,
    "placed": lambda path: PlacedLog(EmbeddedLog(path)),
    "renamed": renamed,
    "sparse": SparseLog,
    "object_store": lambda path: ObjectStoreLog(path.as_uri()),
}
ON_S3 = "object_store on S3"

Records = Callable[..., pa.Table]


@pytest.fixture(params=[*LOGS, ON_S3])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Log]:
    if request.param == ON_S3:
        server = request.getfixturevalue("s3")
        uri = server.uri(uuid.uuid4().hex)
        return lambda: ObjectStoreLog(uri, **server.options)
    return lambda: LOGS[request.param](tmp_path / "log")


def committed(log: Log, *tables: pa.Table, partitions: int | npt.NDArray[np.integer] = 0, lane: int = 0) -> LogState:
    """The state after a commit for each table."""
    state = LogState.load(log.commits("a"))
    for table in tables:
        state.commit(AppendRecord(0, log.write("a", "t", f"s-{state.number}", table, partitions, lane)))
    return state


def values(log: RangeReader, ranges: Iterable[LogRange], start: int | None = None) -> list[int]:
    """The column `value.v` of the records from a position on."""
    return [
        value
        for each in ranges
        for fetched in log.read(each, start, ["value.v"])
        for value in fetched.records.column(0).to_pylist()
    ]


Placed = list[tuple[int, int, int]]
"""Records as (position, offset, `value.v`)."""


def placed(log: Log, ranges: Iterable[LogRange], start: int | None = None) -> Placed:
    return [
        (int(position), int(offset), value)
        for each in ranges
        for found in log.read(each, start)
        for position, offset, value in zip(
            found.positions, found.offsets, found.records["value.v"].to_pylist(), strict=True
        )
    ]


def part_of(log: Log, ranges: Sequence[LogRange], keep: Callable[[int], bool] = lambda _: True) -> Rewritten:
    """What is left of adjacent ranges of a lane: the records whose `value.v` is kept."""
    found = [each for within in ranges for each in log.read(within)]
    rows = [np.flatnonzero([keep(value) for value in each.records["value.v"].to_pylist()]) for each in found]
    left = list(zip(found, rows, strict=True))
    tables = [pa.Table.from_batches([each.records]).take(pa.array(some)) for each, some in left]
    first, last, none = ranges[0], ranges[-1], np.empty(0, np.int64)
    return Rewritten(
        first.partition,
        first.lane,
        first.start,
        last.end,
        first.start_offset,
        last.end_offset,
        pa.concat_tables(tables) if tables else pa.table({}),
        np.concatenate([none, *(each.positions[some] for each, some in left)]),
        np.concatenate([none, *(each.offsets[some] for each, some in left)]),
    )


@pytest.fixture
def log(make: Callable[[], Log]) -> Log:
    log = make()
    log.check()
    return log


def test_topics_with_the_names_that_kafka_takes_are_kept_apart(make: Callable[[], Log], records: Records) -> None:
    names = ["eu.orders-v1", "a.b", "a-b", "a_b", ".hidden", "-dashed-", "...", "b.seg", "x" * 249]
    log = make()
    state = LogState.load(log.commits("a"))
    for rows, name in enumerate(names, start=1):
        state.commit(AppendRecord(0, log.write("a", name, f"s-{state.number}", records(rows), 0, 0)))

    again = make()
    state = LogState.load(again.commits("a"))

    assert {name: len(values(again, state.ranges(name, 0))) for name in names} == {
        name: rows for rows, name in enumerate(names, start=1)
    }


def test_what_a_writer_has_written_is_there_once_it_is_synced_and_listed(
    make: Callable[[], Log], records: Records
) -> None:
    log = make()
    with writer_of(log) as writer:
        listed = [writer.write("a", topic, "e-1", records(3), 0, 0) for topic in "tu"]
        assert writer.write("a", "t", "e-2", records(0), 0, 0) == ()
        writer.sync()
        with pytest.raises(FileExistsError):
            writer.write("a", "t", "e-1", records(1), 0, 0)
        listed.append(writer.write("a", "t", "e-3", records(2), 0, 0))
        writer.sync()
    LogState.load(log.commits("a")).commit(AppendRecord(0, tuple(each for segments in listed for each in segments)))

    again = make()
    state = LogState.load(again.commits("a"))
    assert {topic: len(values(again, state.ranges(topic, 0))) for topic in "tu"} == {"t": 5, "u": 3}


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
    identities = [commits.create(number, b"%d" % number) for number in range(1, 6)]
    assert (commits.snapshots(), commits.read_snapshot(3)) == ([], None)
    for number in (3, 5, 3):
        assert commits.save_snapshot(number, b"%d of %d" % (number, len(commits.snapshots())), identities[number - 1])
    assert not commits.save_snapshot(4, b"of another commit", identities[0])
    assert not commits.save_snapshot(6, b"of no commit", "6")
    other = make().commits("a")
    assert (other.snapshots(), other.read_snapshot(5), other.read_snapshot(3)) == ([5, 3], b"5 of 1", b"3 of 2")
    assert (other.read_snapshot(4), commits.latest(), commits.first()) == (None, 5, 1)


def test_folded_commits_are_gone_but_for_their_checksums_and_their_numbers_stay_taken(
    log: Log, make: Callable[[], Log]
) -> None:
    commits = log.commits("a")
    identities = [commits.create(number, b"%d" % number) for number in range(1, 9)]
    for number in (2, 5, 7):
        commits.save_snapshot(number, b"folded", identities[number - 1])
    commits.fold(5, identities[0])  # which is not that of commit 5
    assert (commits.first(), commits.snapshots()) == (1, [7, 5, 2])
    for _ in range(2):
        commits.fold(5, identities[4])
        commits.fold(2, identities[1])  # of a driver that is behind
        other = make().commits("a")
        assert (other.first(), other.latest(), other.snapshots()) == (5, 8, [7, 5])
        assert [other.read(number) for number in (1, 4, 5, 8)] == [None, None, b"5", b"8"]
        assert [other.identity(number) for number in (4, 5)] == [None, identities[4]]
        sums = [crc32(b"%d" % each) for each in range(1, 9)]
        assert [other.checksum(number) for number in range(1, 10)] == [*sums, None]
    for taken in (1, 8):
        with pytest.raises(CommitExistsError):
            other.create(taken, b"late")
    for taken in (3, 5):  # the one before it is folded
        with pytest.raises((CommitExistsError, CommitGapError)):
            other.create(taken, b"late")
    commits.create(9, b"9")
    assert log.applications() == ["a"]
    log.drop("a")
    assert (commits.first(), commits.checksum(1), commits.snapshots()) == (0, None, [])
    commits.create(1, b"of another incarnation")
    commits.fold(1, identities[0])
    assert commits.read(1) == b"of another incarnation"


def epochs(state: LogState, count: int, incarnation: str = "one") -> LogState:
    """The same state, with so many commits more."""
    if not state.number:
        state.commit(GenerationRecord(1, 0, TopologyDescription(incarnation=incarnation)))
    for _ in range(count):
        task = TaskCommit("part", 0, {"topic": {0: state.number}}, state.number, records=1)
        state.commit(EpochRecord(1, state.number, 0, (task,), incarnation))
    return state


FOLDED_EVERY = 10


@pytest.fixture
def folded_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folded, "SNAPSHOT_EVERY", FOLDED_EVERY)
    monkeypatch.setattr(folded, "AT_MOST", 2 * FOLDED_EVERY)


@pytest.mark.usefixtures("folded_soon")
@pytest.mark.parametrize("behind", [0, 1, 3, FOLDED_EVERY + 3])
def test_reader_that_was_suspended_while_its_commits_were_folded_has_the_state_of_all(log: Log, behind: int) -> None:
    commits = log.commits("a")
    epochs(LogState.load(commits), behind - 1) if behind else None
    reader, driver = LogState.load(commits), LogState.load(commits)
    epochs(driver, 4 * FOLDED_EVERY)
    assert commits.first() > behind + 1
    with pytest.raises(CommitExistsError):
        reader.commit(GenerationRecord(2, 0))
    assert reader.number == behind
    reader.check_same()
    assert (reader.refresh(), reader.refresh()) == (driver.number - behind, 0)
    assert reader.snapshot() == driver.snapshot() == LogState.load(commits).snapshot()
    reader.commit(GenerationRecord(2, 0))
    assert driver.refresh() == 1


@pytest.mark.usefixtures("folded_soon")
def test_reader_that_was_suspended_while_its_application_began_again_is_told(log: Log) -> None:
    commits = log.commits("a")
    epochs(LogState.load(commits), 3)
    reader = LogState.load(commits)
    log.drop("a")
    epochs(LogState.load(commits), 4 * FOLDED_EVERY, "two")
    assert commits.first() > 4
    for _ in range(2):
        with pytest.raises(FullyRefreshedError):
            reader.refresh()
        with pytest.raises(FullyRefreshedError):
            reader.check_same()
        with pytest.raises(FullyRefreshedError):
            reader.commit(GenerationRecord(2, 0))
        assert reader.incarnation == "one"


@pytest.mark.usefixtures("folded_soon")
def test_log_has_the_folded_commits_that_stores_were_made_of_and_no_others(log: Log) -> None:
    state = LogState.load(log.commits("a"))
    marks = [epochs(state, 1).mark for _ in range(4 * FOLDED_EVERY)]
    assert state.commits.first() > 2
    for mark in (marks[0], marks[-1]):
        assert mark is not None
        assert log_has_commit(log, mark)
        assert not log_has_commit(log, replace(mark, checksum=mark.checksum + 1))
    assert not log_has_commit(log, replace(mark, number=mark.number + 1))


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


def test_ranges_that_are_read_ahead_are_as_they_are_read_one_by_one(log: Log, records: Records) -> None:
    ranges = committed(log, records(0), *(records(5 + count) for count in range(40)), records(40_000)).ranges("t", 0)
    wanted = [(each, each.start + number % 4) for number, each in enumerate(ranges)]
    ahead = log.ahead(wanted)
    every = [values(log, [each], start) for each, start in wanted]
    assert [values(ahead, [each], start) for each, start in wanted] == every
    chosen = [wanted[number] for number in (30, 2, 40, 3, 31, 3)]  # in another order, one again, others never
    ahead = log.ahead(wanted)
    assert [values(ahead, [each], start) for each, start in chosen] == [values(log, [each], at) for each, at in chosen]


def test_range_that_is_missing_is_missing_where_it_is_read_ahead(log: Log, records: Records) -> None:
    state = committed(log, *(records(5) for _ in range(3)))
    ranges = state.ranges("t", 0)
    whole = [values(log, [each]) for each in ranges]
    ahead = log.ahead([(each, each.start) for each in ranges])
    log.remove(sorted(file.path for file in log.files("a"))[-1])
    assert [values(ahead, [each]) for each in ranges[:-1] if each.records] == [found for found in whole[:-1] if found]
    with pytest.raises(RangeMissingError):
        values(ahead, [ranges[-1]])


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


def columns_changed(records: Records) -> tuple[pa.Table, pa.Table]:
    """The records of before, and those of after the columns of their topic were changed."""
    old = records(5, **{"value.gone": pa.array(list("abcde"))})
    new = records(5, **{"value.v": pa.array(range(5, 10), pa.decimal128(25, 2)), "value.new": pa.array([7.5] * 5)})
    return old, new


def test_records_of_other_columns_are_read_with_those_of_a_schema(log: Log, records: Records) -> None:
    old, new = columns_changed(records)
    ranges = committed(log, old, new).ranges("t", 0)
    wanted = pa.schema(
        [
            ("value.new", pa.float64()),
            ("key.k", pa.string()),
            ("value.v", pa.decimal128(25, 2)),
            ("value.later", pa.list_(pa.int32())),
            ("_headers", pa.string()),
        ]
    )
    found = [fetched for each in ranges for fetched in log.read(each, None, wanted)]
    table = pa.Table.from_batches([each.records for each in found], wanted)
    assert table["value.v"].to_pylist() == list(range(10))
    assert table["value.new"].to_pylist() == [None] * 5 + [7.5] * 5
    assert table["value.later"].null_count == table["_headers"].null_count == 10
    assert table["key.k"].to_pylist() == old["key.k"].to_pylist() * 2
    narrow = pa.schema([("value.v", pa.int64())])
    assert [each for within in ranges[:-1] for each in log.read(within, None, narrow)]
    with pytest.raises(ColumnTypeError, match=r"column v is decimal\(25,2\) .* is read as bigint"):
        list(log.read(ranges[-1], None, narrow))
    with pytest.raises(MissingColumnsError, match=r"key\.other"):
        list(log.read(ranges[-1], None, pa.schema([("key.other", pa.int64())])))


def test_lane_of_records_with_other_columns_is_merged_into_one_segment(log: Log, records: Records) -> None:
    old, new = columns_changed(records)
    with_headers = old.append_column("_headers", pa.array(["{}"] * 5))
    state = committed(log, old, new, with_headers, old)
    segments = [each for each in state.segments() if each.rows]
    (part,) = remaining(log, tuple(segments))
    segment, *_ = log.write_rewritten("a", "t", "m-1", [part.rewritten])
    state.commit(RewriteRecord(0, 0, (replace(segment, topic="t"),)))
    wanted = pa.schema([(f"value.{name}", kind) for name, kind in VALUES.items()])
    found = [each.records for within in state.ranges("t", 0) for each in log.read(within, None, wanted)]
    table = pa.Table.from_batches(found, wanted)
    assert len([each for each in state.segments() if each.rows]) == 1
    assert table["value.gone"].to_pylist() == [*"abcde", *[None] * 5, *"abcde", *"abcde"]
    assert table["value.new"].to_pylist() == [None] * 5 + [7.5] * 5 + [None] * 10
    assert [int(value) for value in table["value.v"].to_pylist()] == [*range(5), *range(5, 10), *range(5), *range(5)]


def test_records_that_agree_on_no_type_stay_in_segments_of_their_own(log: Log, records: Records) -> None:
    text = records(5, **{"value.v": pa.array(list("abcde"))})
    state = committed(log, records(5), text, text)
    parts = list(remaining(log, tuple(each for each in state.segments() if each.rows)))
    assert [part.rewritten.records["value.v"].to_pylist() for part in parts] == [list(range(5)), [*"abcdeabcde"]]


VALUES = {"v": pa.decimal128(25, 2), "gone": pa.string(), "new": pa.float64()}
"""The columns of `columns_changed`."""

KEPT: dict[str, Callable[[int], bool]] = {
    "all": lambda _: True,
    "some": lambda value: value % 5 == 3,
    "the first": lambda value: value == 0,
    "none": lambda _: False,
}


@pytest.mark.parametrize("kept", KEPT)
def test_rewritten_records_keep_their_places_and_are_read_on_from_any_position(
    log: Log, make: Callable[[], Log], records: Records, kept: str
) -> None:
    """Two lanes of each of two partitions, whose records lie among one another: in one file afterwards."""
    keep = KEPT[kept]
    for _ in range(3):
        for lane in range(2):
            committed(log, records(30), partitions=np.arange(30) % 2, lane=lane)
    state = LogState.load(log.commits("a"))
    lanes = [(partition, lane) for partition in range(2) for lane in range(2)]
    before = {each: placed(log, state.lane_ranges("t", *each)) for each in lanes}
    whole = {each: [record for record in before[each] if keep(record[2])] for each in lanes}
    # The last ranges stay as they are.
    parts = [part_of(log, state.lane_ranges("t", *each)[:-2], keep) for each in lanes]
    ends = [(state.end("t", partition), dict(state.lane_ends("t", partition))) for partition in range(2)]

    written = log.write_rewritten("a", "t", "g0-m-1", parts)
    assert placed(log, state.ranges("t", 0)) == placed(make(), LogState.load(log.commits("a")).ranges("t", 0))
    state.commit(RewriteRecord(0, 0, written))

    assert [(state.end("t", partition), state.lane_ends("t", partition)) for partition in range(2)] == ends
    loaded = LogState.load(make().commits("a"))
    for (partition, lane), part in zip(lanes, parts, strict=True):
        first, *rest = loaded.lane_ranges("t", partition, lane)
        assert (first.start, first.end) == (part.start, part.end)
        assert (first.start_offset, first.end_offset) == (part.start_offset, part.end_offset)
        assert first.records == len(part.positions)
        assert [first.end, *(each.end for each in rest)] == [*(each.start for each in rest), ends[partition][1][lane]]
        old = [record for record in before[partition, lane] if record[0] >= part.end]
        left = [*(record for record in whole[partition, lane] if record[0] < part.end), *old]
        for start in range(part.end + 1):
            ranges = loaded.lane_ranges("t", partition, lane, start)
            assert placed(make(), ranges, start) == [record for record in left if record[0] >= start]
            pieces = [each for within in ranges for each in make().read(within, start, ["value.v"])]
            assert all(each.records.schema.names == ["value.v"] for each in pieces)
            if pieces:
                assert pieces[-1].end == ranges[-1].end
        every = [
            int(offset)
            for found in by_offset(log, [(each, each.start) for each in loaded.ranges("t", partition)])
            for offset in found.offsets
        ]
        assert every == sorted(every)
    committed(log, records(4), lane=1)
    assert placed(log, LogState.load(log.commits("a")).ranges("t", 0)[-1:])[-1][2] == 3


def test_rewritten_records_with_and_without_headers_share_a_file(log: Log, records: Records) -> None:
    plain, told = records(2), records(2, _headers=pa.array(['{"a":"b"}', None]))
    state = committed(log, plain, told)
    by_range = [part_of(log, [each]) for each in state.ranges("t", 0)]
    state.commit(RewriteRecord(0, 0, log.write_rewritten("a", "t", "g0-m-1", by_range)))
    found = [
        header
        for each in state.ranges("t", 0)
        for fetched in log.read(each, None, ["_headers"])
        for header in fetched.records[0].to_pylist()
    ]
    assert found == [None, None, '{"a":"b"}', None]


def test_rewrite_of_what_was_replaced_meanwhile_is_refused_and_changes_nothing(log: Log, records: Records) -> None:
    state = committed(log, records(4), records(4), records(4))
    ranges = state.ranges("t", 0)
    middle = ranges[len(ranges) // 3 : 2 * len(ranges) // 3]
    late = log.write_rewritten("a", "t", "g0-m-1", [part_of(log, ranges)])
    twice = log.write_rewritten("a", "t", "g0-m-2", [part_of(log, middle), part_of(log, middle)])
    with pytest.raises(SegmentsChangedError):
        state.commit(RewriteRecord(0, 0, twice))
    beside = committed(log)
    beside.commit(RewriteRecord(0, 0, log.write_rewritten("a", "t", "g0-m-3", [part_of(log, ranges[1:])])))
    with pytest.raises(CommitExistsError):
        state.commit(RewriteRecord(0, 0, late))
    state.refresh()
    within = log.write_rewritten("a", "t", "g0-m-4", [part_of(log, middle)])
    before = state.snapshot()
    with pytest.raises(SegmentsChangedError):
        state.commit(RewriteRecord(0, 0, within))
    assert state.snapshot() == before
    state.commit(RewriteRecord(0, 0, late))  # what it replaces still begins and ends there
    assert values(log, LogState.load(log.commits("a")).ranges("t", 0)) == [*range(4)] * 3


def test_replaced_records_are_read_by_their_ranges_until_their_files_are_removed(log: Log, records: Records) -> None:
    state = committed(log, records(5), records(5))
    ranges = state.ranges("t", 0)
    state.commit(RewriteRecord(0, 0, log.write_rewritten("a", "t", "g0-m-1", [part_of(log, ranges)])))
    assert values(log, ranges) == [*range(5)] * 2
    (path,) = state.paths()
    assert sorted([*state.replaced, path]) == [file.path for file in log.files("a")]
    for replaced in state.replaced:
        log.remove(replaced)
    assert values(log, state.ranges("t", 0)) == [*range(5)] * 2
    with pytest.raises(RangeMissingError):
        values(log, ranges)


def test_rewritten_file_takes_a_name_once_and_none_without_records(log: Log, records: Records) -> None:
    state = committed(log, records(3))
    ranges = state.ranges("t", 0)
    (gone,) = log.write_rewritten("a", "t", "g0-m-1", [part_of(log, ranges, lambda _: False)])
    log.write_rewritten("a", "t", "g0-m-1", [part_of(log, ranges)])
    with pytest.raises(FileExistsError):
        log.write_rewritten("a", "t", "g0-m-1", [part_of(log, ranges)])
    state.commit(RewriteRecord(0, 0, (gone,)))
    assert state.paths() == set()
    (empty,) = state.ranges("t", 0)
    assert (empty.start, empty.end, empty.records, list(log.read(empty))) == (0, ranges[-1].end, 0, [])
    assert values(log, committed(log, records(2)).ranges("t", 0)) == [0, 1]


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
        with pytest.raises(RangeMissingError) as raised:
            next(each)
        assert raised.value.path == file.path
        assert raised.value.location is not None
        assert (raised.value.location.topic, raised.value.location.partition) == ("t", 0)
        assert "headwater log verify" in str(raised.value.hint)


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
    path = snapshot_path(place_of(log, "a"), "totals", "one")

    saved = log.save_file(path, lambda to: to.write_bytes(content))  # type: ignore[arg-type, return-value]

    for start in (0, 1, len(content) - 1, len(content)):
        assert b"".join(map(bytes, make().read_file(path, start))) == content[start:]
    assert (saved.path, saved.size) == (path, len(content))
    assert [(file.path, file.size) for file in log.files("a")] == [(path, len(content))]
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
        log.save_file(snapshot_path(place_of(log, "a"), "totals", "one"), fill)

    assert list(log.files("a")) == []


def test_saved_file_goes_with_its_application(log: Log) -> None:
    log.save_file(snapshot_path(place_of(log, "a"), "totals", "one"), lambda to: to.write_bytes(b"1"))  # type: ignore[arg-type, return-value]
    log.save_file(snapshot_path(place_of(log, "b"), "totals", "one"), lambda to: to.write_bytes(b"1"))  # type: ignore[arg-type, return-value]
    log.drop("a")
    assert list(log.files("a")) == []
    assert len(list(log.files("b"))) == 1
