import pytest

from headwater.runtime.ingest.append import append
from headwater.runtime.log.commit.descriptions import ExternalTopic
from headwater.runtime.log.commit.external_records import AppendRecord
from headwater.runtime.log.errors import FullyRefreshedError, RangeMissingError
from headwater.runtime.log.state import LogState
from headwater.runtime.query import topics as reader_module
from headwater.runtime.query.topics import TopicReader
from headwater.runtime.records.record_json import records_of

APPLICATION = "demo-seed"


def put(log, topic, times, partition=0):
    append(
        log,
        APPLICATION,
        topic,
        [{"partition": partition, "timestamp": time, "key": None, "value": {"name": f"{time}"}} for time in times],
    )


def ids(records):
    return [(record.partition, record.offset, record.timestamp) for record in records]


def test_topic_that_nobody_has_written_has_no_records(log, airlines):
    assert list(TopicReader(log, APPLICATION, airlines).read()) == []


def test_partitions_are_merged_by_time_and_keep_their_own_order(log, airlines):
    put(log, airlines, [10, 40, 20], partition=0)
    put(log, airlines, [15, 30], partition=2)
    put(log, airlines, [50], partition=0)
    assert ids(TopicReader(log, APPLICATION, airlines).read()) == [
        (0, 0, 10),
        (2, 0, 15),
        (2, 1, 30),
        (0, 1, 40),
        (0, 2, 20),
        (0, 3, 50),
    ]


@pytest.mark.parametrize("start", range(8))
def test_reading_from_an_offset_leaves_out_what_is_before_it(log, airlines, start, monkeypatch):
    monkeypatch.setattr(reader_module, "AT_ONCE", 2)
    put(log, airlines, [1, 2, 3, 4])
    put(log, airlines, [5, 6, 7])
    assert [offset for _, offset, _ in ids(TopicReader(log, APPLICATION, airlines, start).read())] == list(
        range(start, 7)
    )


def test_limit_ends_reading_and_the_next_read_goes_on(log, airlines):
    put(log, airlines, [1, 3, 5], partition=0)
    put(log, airlines, [2, 4], partition=1)
    reader = TopicReader(log, APPLICATION, airlines)
    assert [time for *_, time in ids(reader.read(limit=3))] == [1, 2, 3]
    assert [time for *_, time in ids(reader.read())] == [4, 5]
    assert ids(reader.read()) == []
    put(log, airlines, [6], partition=1)
    assert ids(reader.read()) == [(1, 2, 6)]


def test_reader_that_came_before_the_first_commit_follows(log, airlines):
    reader = TopicReader(log, APPLICATION, airlines)
    assert ids(reader.read()) == []
    put(log, airlines, [1])
    assert ids(reader.read()) == [(0, 0, 1)]


def test_listed_file_that_is_gone_is_an_error(log, airlines):
    put(log, airlines, [1])
    for file in log.files(APPLICATION):
        log.remove(file.path)
    with pytest.raises(RangeMissingError):
        list(TopicReader(log, APPLICATION, airlines).read())


def test_batch_read_with_all_columns_gives_its_records(log, airlines):
    put(log, airlines, [1, 2])
    (within,) = LogState.load(log.commits(APPLICATION)).ranges("airlines", 0)
    (found,) = log.read(within)
    assert list(records_of(airlines, 0, found.offsets, found.records)) == list(
        TopicReader(log, APPLICATION, airlines).read()
    )


def test_reader_that_goes_on_after_the_topic_was_seeded_again_mixes_no_records(log, airlines):
    put(log, airlines, [1, 2])
    reader = TopicReader(log, APPLICATION, airlines)
    assert ids(reader.read(limit=1)) == [(0, 0, 1)]
    state = LogState.load(log.commits(APPLICATION))
    (within,) = state.ranges("airlines", 0)
    again = log.write(APPLICATION, "airlines", "again", next(iter(log.read(within))).records, 0, 0)
    state.commit(AppendRecord(0, again, topic=ExternalTopic.from_topic(airlines), replace=True))
    with pytest.raises(FullyRefreshedError, match="airlines was fully refreshed, while"):
        list(reader.read())
    assert len(ids(TopicReader(log, APPLICATION, airlines).read())) == 2
