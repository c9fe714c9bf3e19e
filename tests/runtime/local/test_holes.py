"""A log whose positions have holes: runs, restores, queries and reports do not take positions for counts."""

from __future__ import annotations

import re
from shutil import rmtree

import pyarrow as pa
import pytest

from headwater.runtime.log.commit.external_records import EXTERNAL_LANE, AppendRecord
from headwater.runtime.log.state import LogState
from headwater.runtime.query.rows import GlobalQuery
from headwater.runtime.query.topics import TopicReader, read_table
from headwater.runtime.records.schema import changelog_topic, topic_schema
from headwater.runtime.task_id import TaskKey
from headwater.tests.runtime.local.joining import (
    CITIES,
    KNOWN,
    NAMED,
    PARTITIONS,
    PLACES,
    RECORDS,
    SEEDS,
    SUMS,
    TOTALS,
    WORDS,
    fed,
    found,
    named,
    rows_of,
    summed,
)
from headwater.tests.runtime.local.local_application import APPLICATION, LocalApplication


def holes(app: LocalApplication, application: str, topic: str) -> int:
    """Positions of a topic that no record has."""
    state, count = LogState.load(app.log.commits(application)), 0
    for partition in range(PARTITIONS):
        for within in state.ranges(topic, partition):
            count += within.end - within.start - sum(len(fetched) for fetched in app.log.read(within))
    return count


@pytest.fixture
def apps(application):
    """A function that makes an application twice: on a log without holes, and on one with."""
    return lambda *parts: (application(*parts), application(*parts, log="sparse"))


def test_joins_aggregates_and_reads_give_the_same_with_holes(apps):
    dense, sparse = apps(summed(), named())
    for app in (dense, sparse):
        fed(app).run(max_records=13)
        fed(app, RECORDS).run(max_records=27, clients=2)
    assert found(sparse, SUMS, NAMED) == found(dense, SUMS, NAMED)
    assert sparse.dropped == dense.dropped != {}
    assert (holes(dense, APPLICATION, SUMS.name), holes(sparse, APPLICATION, SUMS.name) > RECORDS) == (0, True)
    for store, name in ((TOTALS, "sums"), (KNOWN, "named")):
        assert rows_of(sparse, store, name) == rows_of(dense, store, name) == rows_of(sparse, store, name, None)
    cities = [list(map(repr, GlobalQuery(PLACES, SEEDS, app.log).rows())) for app in (dense, sparse)]
    assert cities[0] == cities[1] != []


def test_nothing_is_behind_once_all_records_are_taken(application):
    app = fed(application(summed(), log="sparse"))
    result = app.run()
    assert (result.records, result.waiting) == (RECORDS * PARTITIONS, 0)
    seeds, own = LogState.load(app.log.commits(SEEDS)), LogState.load(app.log.commits(APPLICATION))
    for partition in range(PARTITIONS):
        assert own.tasks.last_commit(TaskKey(APPLICATION, "sums", partition)).positions == {
            "words": seeds.lane_ends("words", partition)
        }
    again = app.run()
    assert (again.commits, again.records) == (0, 0)


def test_positions_without_records_are_passed_and_committed(application):
    app = fed(application(summed(), log="sparse"))
    app.run()
    seeds = LogState.load(app.log.commits(SEEDS))
    row = pa.Table.from_pylist([{"_timestamp": 0, "_order": 0, "_kind": 1}], topic_schema(WORDS))
    gone, _ = app.log.write(SEEDS, "words", "compacted", row, 0, EXTERNAL_LANE)
    assert gone.rows == 0
    seeds.commit(AppendRecord(0, (gone,)))
    result = app.run()
    assert (result.commits, result.records, result.waiting) == (1, 0, 0)
    assert app.run().commits == 0
    app.append(WORDS, [(("0-1",), (1000,), 99)], 0)
    assert app.run().records == 1
    assert (RECORDS // 5 + 1) in [row["value.n"] for row in app.read(SUMS)]


def test_stores_are_restored_from_a_compacted_changelog(apps):
    dense, sparse = apps(summed())
    for app in (dense, sparse):
        fed(app).run(max_records=8)
    for _ in range(2):  # the second time, most ranges have no records
        fed(sparse, RECORDS).run(max_records=8)
        fed(dense, RECORDS).run(max_records=8)
        topic = changelog_topic(APPLICATION, TOTALS.name)
        assert sparse.log.compact(APPLICATION, topic, PARTITIONS, ["key"]) > 0
        expected = rows_of(dense, TOTALS, "sums")
        assert rows_of(sparse, TOTALS, "sums", None) == rows_of(sparse, TOTALS, "sums") == expected
        rmtree(sparse.path / "state")
    result = sparse.attempt(sparse.settings(clients=2))
    assert (result.status, result.restored) == ("caught_up", PARTITIONS)
    assert rows_of(sparse, TOTALS, "sums") == expected
    fed(sparse, 2 * RECORDS).run(clients=2)
    fed(dense, 2 * RECORDS).run()
    assert found(sparse, SUMS) == found(dense, SUMS)
    assert rows_of(sparse, TOTALS, "sums") == rows_of(dense, TOTALS, "sums")


def test_copy_that_is_behind_goes_on_from_its_position(application):
    app = fed(application(summed(), log="sparse"))
    app.run(max_records=16)
    fed(app, RECORDS)
    app.attempt(app.settings(max_records=16, state="elsewhere"))  # the copies below `state` stay behind
    app.log.compact(APPLICATION, changelog_topic(APPLICATION, TOTALS.name), PARTITIONS, ["key"])
    expected = rows_of(app, TOTALS, "sums", "elsewhere")
    assert rows_of(app, TOTALS, "sums") == rows_of(app, TOTALS, "sums", None) == expected
    assert app.run().restored == PARTITIONS
    assert rows_of(app, TOTALS, "sums") == expected


def test_global_table_is_made_of_a_compacted_topic(apps):
    dense, sparse = apps(named())
    for app in (dense, sparse):
        fed(app)
    assert sparse.log.compact(SEEDS, CITIES.name, 1, ["key.k"]) > 0
    for app in (dense, sparse):
        app.run()
    assert found(sparse, NAMED) == found(dense, NAMED)


@pytest.mark.parametrize("bad", [1, 17, 99])
def test_record_on_which_a_step_fails_is_named_by_its_offset(application, bad):
    app = application(summed(), log="sparse")
    app.append(WORDS, [(("a",), ({0: 2**63 - 1, bad: 1}.get(n, 0),), n) for n in range(100)], 0)
    offset = next(record.offset for record in TopicReader(app.log, SEEDS, WORDS).read() if record.timestamp == bad)
    assert offset > bad
    result = app.attempt()
    assert result.status == "failed"
    assert re.match(rf"topologies/t.yml:7: record words\[0\]@{offset} cannot be processed: sum overflows", result.error)


def test_topic_is_read_on_from_any_offset(application):
    app = fed(application(log="sparse"))
    fed(app, RECORDS)
    whole = list(TopicReader(app.log, SEEDS, WORDS).read())
    assert len(whole) == 2 * RECORDS * PARTITIONS
    offsets = [[record.offset for record in whole if record.partition == partition] for partition in range(PARTITIONS)]
    assert all(each == sorted(set(each)) and each[-1] > 2 * RECORDS for each in offsets)
    for start in (1, 7, 50, 10**6):
        assert list(TopicReader(app.log, SEEDS, WORDS, start).read()) == [
            each for each in whole if each.offset >= start
        ]
    one_by_one, at_once = (TopicReader(app.log, SEEDS, WORDS) for _ in range(2))
    for limit in (1, 10, 3, 1000):
        records, table = list(one_by_one.read(limit)), read_table(WORDS, at_once, limit)
        assert [(each.partition, each.offset) for each in records] == list(
            zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)
        )
