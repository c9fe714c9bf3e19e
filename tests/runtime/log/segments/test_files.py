from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import (
    CorruptSegmentError,
    MissingColumnsError,
    OffsetRange,
    RangeMissingError,
    UnreadableFileError,
)
from headwater.runtime.log.segments import files
from headwater.runtime.log.segments.files import BATCH_ROWS

PATH = "segments/app/t/g1-e1-late-0-a0.seg"


NAME = "g1-e1-late-0-a0"


def placed(segment):
    return replace(segment, base_offset=100, base_position=10).range()


def rows_of(log, segment, columns=None):
    return pa.Table.from_batches([fetched.records for fetched in log.read(placed(segment), None, columns)])


def test_written_records_are_read_back(log, records):
    table = records(100)
    (segment,) = log.write("app", "t", NAME, table, 3, lane=1)
    assert (segment.topic, segment.partition, segment.lane, segment.path, segment.rows) == ("t", 3, 1, PATH, 100)
    assert (segment.base_offset, segment.base_position, segment.headers) == (-1, -1, False)
    assert rows_of(log, segment) == table


@given(partitions=st.lists(st.integers(0, 5), min_size=1, max_size=60))
def test_partitions_get_segments_of_their_own_rows_in_order(tmp_path_factory, partitions):
    log = EmbeddedLog(tmp_path_factory.mktemp("log"))
    values = np.arange(len(partitions))
    table = pa.table({"value.v": values, "_timestamp": values})
    segments = log.write("app", "t", NAME, table, np.array(partitions), lane=0)
    assert [segment.partition for segment in segments] == sorted(set(partitions))
    for segment in segments:
        expected = [value for value, partition in enumerate(partitions) if partition == segment.partition]
        assert rows_of(log, segment)["value.v"].to_pylist() == expected


def test_batches_have_few_bytes_and_a_larger_record_one_by_itself(log, monkeypatch):
    monkeypatch.setattr(files, "BATCH_BYTES", 1000)
    sizes = [100, 100, 100, 5000, 1, 990, 990, 10, *[1] * 40]
    table = pa.table({"value.v": ["x" * size for size in sizes], "_timestamp": range(len(sizes))})
    (segment,) = log.write("app", "t", NAME, table, 0, lane=0)
    assert [batch.rows for batch in segment.batches] == [3, 1, 1, 1, 1, 41]
    assert rows_of(log, segment) == table


@pytest.mark.soak
def test_more_texts_than_an_array_holds_are_refused_as_such(log):
    part = pa.table({"value.v": ["x" * (800 << 20)], "_timestamp": [0]})
    with pytest.raises(pa.ArrowCapacityError, match="3 records are more bytes than an array holds"):
        log.write("app", "t", NAME, pa.concat_tables([part] * 3), 0, lane=0)


def test_large_partitions_are_cut_into_batches_with_their_bounds(log, records):
    rows = BATCH_ROWS * 5 + 11
    table = records(rows)
    partitions = (np.arange(rows) % 2).astype(np.int32)
    segments = log.write("app", "t", NAME, table, partitions, lane=0)
    assert [[batch.rows for batch in segment.batches] for segment in segments] == [
        [BATCH_ROWS, BATCH_ROWS, BATCH_ROWS // 2 + 6],
        [BATCH_ROWS, BATCH_ROWS, BATCH_ROWS // 2 + 5],
    ]
    second = segments[1].batches[1]
    _, batch, _ = log.read(placed(segments[1]))
    assert batch.records["_timestamp"].to_pylist() == list(
        range((2 * BATCH_ROWS + 1) * 10, (4 * BATCH_ROWS + 1) * 10, 20)
    )
    assert (second.min_timestamp, second.max_timestamp) == ((2 * BATCH_ROWS + 1) * 10, (4 * BATCH_ROWS - 1) * 10)
    assert (second.min_order, second.max_order) == (second.min_timestamp + 5, second.max_timestamp + 5)


def test_records_are_read_from_a_position_on_with_the_columns_asked_for(log, records):
    table = records(3 * BATCH_ROWS)
    (segment,) = log.write("app", "t", NAME, table, 0, lane=0)
    found = list(log.read(placed(segment), 10 + BATCH_ROWS + 5, ["value.v", "key.k"]))
    assert [len(each) for each in found] == [BATCH_ROWS - 5, BATCH_ROWS]
    assert pa.Table.from_batches([each.records for each in found]) == table[BATCH_ROWS + 5 :].select(
        ["value.v", "key.k"]
    )
    assert [(each.positions[0], each.offsets[0], each.end) for each in found] == [
        (10 + BATCH_ROWS + 5, 100 + BATCH_ROWS + 5, 10 + 2 * BATCH_ROWS),
        (10 + 2 * BATCH_ROWS, 100 + 2 * BATCH_ROWS, 10 + 3 * BATCH_ROWS),
    ]


def test_no_columns_asked_for_gives_the_number_of_rows(log, records):
    (segment,) = log.write("app", "t", NAME, records(5), 0, lane=0)
    assert [fetched.records.num_rows for fetched in log.read(placed(segment), columns=[])] == [5]


def test_headers_are_read_as_null_where_there_are_none(log, records):
    (without,) = log.write("app", "t", NAME, records(2), 0, lane=0)
    (with_some,) = log.write("app", "t", NAME + "2", records(2, _headers=pa.array([None, '{"a":"b"}'])), 0, lane=0)
    assert (without.headers, with_some.headers) == (False, True)
    assert rows_of(log, without, columns=["_headers"])["_headers"].to_pylist() == [None, None]
    assert rows_of(log, with_some, columns=["_headers"])["_headers"].to_pylist() == [None, '{"a":"b"}']


def test_column_that_the_segment_lacks_is_named(log, records):
    (segment,) = log.write("app", "t", NAME, records(2), 0, lane=0)
    with pytest.raises(MissingColumnsError) as caught:
        list(log.read(placed(segment), columns=["key.k", "value.new"]))
    assert caught.value.columns == ("value.new",)


def test_changelog_without_order_takes_timestamps_for_it(log):
    table = pa.table({"key": [b"a", b"b"], "value": [b"x", None], "_timestamp": [7, 3]})
    (segment,) = log.write("app", "changelog", NAME, table, 0, lane=0)
    assert (segment.batches[0].min_order, segment.batches[0].max_order) == (3, 7)
    assert rows_of(log, segment) == table


def test_sliced_and_chunked_table_is_written_as_its_rows(log, records):
    whole = records(50)
    table = pa.concat_tables([whole[40:], whole[5:20]])
    segments = log.write("app", "t", NAME, table, np.array([1, 0] * 12 + [1]), lane=0)
    found = [rows_of(log, segment)["value.v"].to_pylist() for segment in segments]
    values = table["value.v"].to_pylist()
    assert found == [values[1::2], values[0::2]]


def test_no_records_write_no_file(log, records):
    assert log.write("app", "t", NAME, records(0), np.array([], np.int64), lane=0) == ()
    assert list(log.files("app")) == []


def test_file_is_an_arrow_stream_for_any_tool(log, records):
    table = records(20)
    log.write("app", "t", NAME, table, 0, lane=0)
    assert pa.ipc.open_stream((log.root / PATH).read_bytes()).read_all() == table


def test_path_that_is_taken_is_refused_and_stays(log, records):
    (segment,) = log.write("app", "t", NAME, records(3), 0, lane=0)
    with pytest.raises(FileExistsError):
        log.write("app", "t", NAME, records(9), 0, lane=0)
    assert rows_of(log, segment).num_rows == 3


def test_missing_file_is_named(log, records):
    (segment,) = log.write("app", "t", NAME, records(2), 0, lane=0)
    log.remove(PATH)
    log.remove(PATH)
    with pytest.raises(RangeMissingError) as caught:
        list(log.read(placed(segment)))
    assert caught.value.path == PATH
    assert str(caught.value).startswith(
        f"t, partition 0, offsets 100 to 101, cannot be read: segment {PATH} is missing"
    )


def test_error_of_records_that_a_topology_wrote_tells_how_to_compute_them_again():
    error = RangeMissingError("segments/shop-sales/daily_sales/g1-e1.seg")
    error.set_location(OffsetRange("daily_sales", 0, 0, 3))
    assert error.hint == (
        "put the file back from a copy of the log; or rebuild them: headwater build --full-refresh --select "
        "'sales+'; or drop these records: headwater log repair --drop-unreadable; `headwater log verify` lists all "
        "that is damaged"
    )


def test_changed_byte_of_a_batch_is_found_in_that_batch_only(log, records):
    (segment,) = log.write("app", "t", NAME, records(2 * BATCH_ROWS), 0, lane=0)
    file = log.root / PATH
    data = bytearray(file.read_bytes())
    data[segment.batches[1].start + 700] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptSegmentError) as caught:
        list(log.read(placed(segment)))
    assert (caught.value.path, caught.value.batch) == (PATH, 1)
    assert caught.value.location == OffsetRange("t", 0, 100 + BATCH_ROWS, 100 + 2 * BATCH_ROWS)
    assert len(next(log.read(placed(segment)))) == BATCH_ROWS


@pytest.mark.parametrize("keep", [0, 100, 500])
def test_file_cut_short_is_damaged(log, records, keep):
    (segment,) = log.write("app", "t", NAME, records(20), 0, lane=0)
    file = log.root / PATH
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(CorruptSegmentError):
        list(log.read(placed(segment)))


def test_file_that_the_system_refuses_to_read_is_told_with_its_records(log, records):
    (segment,) = log.write("app", "t", NAME, records(1), 0, lane=0)
    log.remove(PATH)
    (log.root / PATH).mkdir()
    with pytest.raises(UnreadableFileError, match="Is a directory") as caught:
        list(log.read(placed(segment)))
    assert caught.value.path == str(log.root / PATH)
    assert caught.value.message.startswith(f"t, partition 0, offset 100, cannot be read: {log.root / PATH}: ")
    assert "move it away" in str(caught.value.hint)


def test_any_changed_byte_of_the_schema_is_found(log, records):
    (segment,) = log.write("app", "t", NAME, records(20), 0, lane=0)
    file = log.root / PATH
    data = file.read_bytes()
    for at in range(segment.head):
        file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(CorruptSegmentError):
            list(log.read(placed(segment)))


def test_damaged_schema_is_found(log, records):
    (segment,) = log.write("app", "t", NAME, records(20), 0, lane=0)
    file = log.root / PATH
    file.write_bytes(bytes(segment.head) + file.read_bytes()[segment.head :])
    with pytest.raises(CorruptSegmentError) as caught:
        list(log.read(placed(segment)))
    assert caught.value.batch is None
