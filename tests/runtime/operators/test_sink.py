"""What a sink writes, where, and with which time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.engine.execution.node import EachFailedError, TaskEpoch
from headwater.runtime.engine.execution.rows import Rows
from headwater.runtime.engine.operators.topics import RoutedSink, Sink
from headwater.runtime.ir.topology import Topic
from headwater.runtime.records.keys import encode_keys, partition_of
from headwater.runtime.records.types import Kind

OUT = Topic("out", 4, "k string", "v bigint", writer="app")


def written(sink, changes, partition=0, key="k"):
    """The sink's records of changes given as (kind, key, value, time), and their partitions."""
    epoch = TaskEpoch(partition, 0, {}, None, None)
    run(sink, epoch, changes, key)
    ((_, (part,)),) = epoch.sinks.values()
    records = zip(
        part.rows.kind.tolist(),
        part.rows.columns["k"].to_pylist(),
        part.rows.columns["v"].to_pylist(),
        part.rows.timestamp.tolist(),
        strict=True,
    )
    return list(records), part.partitions.tolist()


def run(sink, epoch, changes, key="k"):
    places = np.cumsum([number == 0 or changes[number - 1][0] < Kind.OLD for number in range(len(changes))])
    rows = Rows(
        (places,),
        np.array([kind for kind, *_ in changes], np.int8),
        np.array([time for *_, time in changes]),
        places,
        None,
        {},
        (),
        (),
    ).with_columns(
        {key: pa.array([key for _, key, _, _ in changes], pa.string())},
        {"v": pa.array([value for _, _, value, _ in changes], pa.int64()), "other": pa.nulls(len(changes))},
    )
    sink.run({"f": rows}, epoch)


NEW, GONE, OLD, SAME = Kind.VALUE, Kind.TOMBSTONE, Kind.OLD, Kind.OLD_SAME_GROUP


def test_record_goes_to_its_keys_partition_and_null_keys_stay_in_the_tasks():
    records, partitions = written(Sink("f", OUT), [(NEW, "a", 1, 5), (NEW, None, 2, 6), (GONE, "a", None, 7)], 7)
    (expected,) = partition_of(encode_keys([pa.array(["a"])]), 4).tolist()
    assert records == [(NEW, "a", 1, 5), (NEW, None, 2, 6), (GONE, "a", None, 7)]
    assert partitions == [expected, 3, expected]


@pytest.mark.parametrize(("keep", "kept"), [(False, ["a"]), (True, ["a", None])])
def test_null_key_is_repartitioned_only_where_some_reader_keeps_it(keep, kept):
    sink = Sink("f", OUT, "repartition", keep_null_keys=keep)
    records, _ = written(sink, [(NEW, "a", 1, 5), (NEW, None, 2, 6)])
    assert [key for _, key, _, _ in records] == kept


@pytest.mark.parametrize(("of", "dropped"), [("stream", 3), ("table", 2)])
def test_records_and_rows_with_a_null_key_are_counted_under_the_step_that_needs_the_key(of, dropped):
    epoch = TaskEpoch(0, 0, {}, None, None)
    changes = [(NEW, None, 1, 5), (NEW, "a", 1, 5), (OLD, "a", 1, 5), (NEW, None, 2, 6), (GONE, None, None, 7)]
    run(Sink("f", OUT, "repartition", of=of, at="topologies/t.yml:9"), epoch, changes)
    assert epoch.dropped == {"topologies/t.yml:9:null_key": dropped}


def test_old_rows_are_not_written_to_a_topic_of_changes():
    records, _ = written(Sink("f", OUT, "each_update"), [(NEW, "a", 1, 5), (OLD, "a", 1, 5), (GONE, "a", None, 7)])
    assert records == [(NEW, "a", 1, 5), (GONE, "a", None, 7)]


def test_regrouped_change_is_told_apart_by_group_and_has_the_time_of_the_change():
    changes = [
        (NEW, "a", 1, 5),
        *[(OLD, "a", 1, 5), (NEW, "a", 2, 3)],
        *[(OLD, "a", 2, 3), (NEW, "b", 2, 9)],
        *[(OLD, "b", 2, 9), (GONE, "b", None, 11)],
        *[(OLD, "c", 1, 1), (NEW, None, 2, 12)],
        *[(OLD, None, 1, 1), (NEW, "d", 2, 13)],
        (GONE, "never-there", None, 14),
    ]
    records, _ = written(Sink("f", OUT, "repartition", of="table"), changes)
    assert records == [
        (NEW, "a", 1, 5),
        *[(SAME, "a", 1, 3), (NEW, "a", 2, 3)],
        *[(OLD, "a", 2, 9), (NEW, "b", 2, 9)],
        (OLD, "b", 2, 11),
        (OLD, "c", 1, 12),
        (NEW, "d", 2, 13),
    ]


def test_one_change_of_each_key_is_written_per_epoch_in_order_of_last_write():
    changes = [
        (NEW, "a", 1, 1),
        (NEW, "b", 1, 2),
        *[(OLD, "a", 1, 1), (NEW, "a", 2, 3)],
        *[(NEW, "came", 1, 4), (OLD, "came", 1, 4), (GONE, "came", None, 5)],
        *[(OLD, "was", 1, 0), (NEW, "was", 2, 6), (OLD, "was", 2, 6), (GONE, "was", None, 7)],
    ]
    records, _ = written(Sink("f", OUT, "per_epoch"), changes)
    assert records == [(NEW, "b", 1, 2), (NEW, "a", 2, 3), (GONE, "was", None, 7)]


def test_deletion_is_written_where_no_old_rows_come_along():
    records, _ = written(Sink("f", OUT, "per_epoch"), [(NEW, "a", 1, 1), (GONE, "a", None, 2)])
    assert records == [(GONE, "a", None, 2)]


def test_windows_of_a_key_share_its_partition():
    windowed = Topic("out", 16, "k string", "v bigint", windowed=True, writer="app")
    starts = pa.array([0, 10, 20], pa.timestamp("us", "UTC"))
    rows = Rows((np.arange(3),), np.ones(3, np.int8), np.arange(3), np.arange(3), None, {}, (), ()).with_columns(
        {"k": pa.array(["a"] * 3), "window_start": starts, "window_end": starts}, {"v": pa.array([1, 2, 3])}
    )
    epoch = TaskEpoch(0, 0, {}, None, None)
    Sink("f", windowed, "each_update").run({"f": rows}, epoch)
    (partition,) = partition_of(encode_keys([pa.array(["a"])]), 16).tolist()
    assert epoch.sinks["out"][1][0].partitions.tolist() == [partition] * 3


FEW = replace(OUT, name="few", partitions=2)


def test_record_is_in_the_topic_that_its_column_names_in_order_and_in_its_keys_partition():
    epoch = TaskEpoch(3, 0, {}, None, None)
    changes = [(NEW, "out", 1, 5), (NEW, "few", 2, 4), (GONE, "out", None, 3), (NEW, "few", 4, 2)]
    run(RoutedSink("f", "k", (OUT, FEW)), epoch, changes)
    found = {
        name: ([*zip(part.rows.kind.tolist(), part.rows.timestamp.tolist(), strict=True)], part.partitions.tolist())
        for name, (_, (part,)) in epoch.sinks.items()
    }
    (of_out, of_few) = (
        partition_of(encode_keys([pa.array([topic.name])]), topic.partitions).tolist() for topic in (OUT, FEW)
    )
    assert found == {"out": ([(NEW, 5), (GONE, 3)], of_out * 2), "few": ([(NEW, 4), (NEW, 2)], of_few * 2)}


def test_each_record_whose_column_names_no_topic_fails_and_nothing_is_written():
    epoch = TaskEpoch(0, 0, {}, None, None)
    changes = [(NEW, "out", 1, 5), (NEW, None, 2, 4), (NEW, "few", 2, 4), (NEW, "Few", 3, 4)]
    with pytest.raises(EachFailedError) as failed:
        run(RoutedSink("f", "k", (OUT, FEW), by_itself=True), epoch, changes)
    assert [(order, error.message) for order, error in failed.value.rows] == [
        (2, "`route` gives null, which is not among its topics: out, few"),
        (4, "`route` gives 'Few', which is not among its topics: out, few"),
    ]
    assert failed.value.by_itself
    assert epoch.sinks == {}
