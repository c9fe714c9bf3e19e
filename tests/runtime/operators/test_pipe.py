"""Rows on their way to Spark SQL and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.engine.execution.rows import Rows
from headwater.runtime.engine.operators.operator import Flow
from headwater.runtime.engine.pipe import BATCH_ROWS, META, TextError, pipe_schema, receive, send
from headwater.runtime.records.types import Kind


def rows(path, kinds, key, value, headers=None):
    """Rows whose time is their place in the path plus 100."""
    levels = tuple(np.array(level) for level in zip(*path, strict=True))
    bare = Rows(levels, np.array(kinds, np.int8), levels[0] + 100, levels[0] + 1000, headers, {}, (), ())
    return bare.with_columns(key, value)


A = Flow("k string", "k bigint, x double")
B = Flow("k string", "y array<int>, when timestamp")


def two_edges():
    a = rows(
        [(0, 0), (0, 0), (2, 1)],
        [Kind.OLD, Kind.VALUE, Kind.TOMBSTONE],
        {"k": pa.array(["a", "a", None])},
        {"k": pa.array([1, 2, None]), "x": pa.array([0.5, None, None])},
        pa.array([None, '{"h":"1"}', None]),
    )
    b = rows(
        [(0, 1), (1, 0), (2, 0)],
        [1, 1, 1],
        {"k": pa.array(["x", "y", "z"])},
        {"y": pa.array([[1], [], None], pa.list_(pa.int32())), "when": pa.array([0, 1, 2], pa.timestamp("us", "UTC"))},
    )
    return {"a": a, "b": b}


def test_flat_pipe_has_meta_and_physical_columns():
    assert pipe_schema({"a": A}).names == [*(name for name, _ in META), "key.k", "k", "x"]


def test_tagged_pipe_has_a_struct_for_each_edge():
    schema = pipe_schema({"a": A, "b": B})
    assert schema.names[len(META) :] == ["@a", "@b"]
    assert [field.name for field in schema.field("@a").type] == ["key.k", "k", "x"]


def test_rows_of_several_edges_travel_in_path_order():
    (data, control) = send(two_edges(), {"a": A, "b": B}, "end", 0)
    edges = ["a" if row["@a"] is not None else "b" for row in data.to_pylist()]
    assert edges == ["a", "a", "b", "b", "b", "a"]
    assert data.column(0).to_pylist() == [Kind.OLD, 1, 1, 1, 1, 0]
    assert control.to_pylist() == [{"_kind": -1, "_ts": 0, "_order": 0, "_meta": "end", "@a": None, "@b": None}]


@pytest.mark.parametrize("sizes", [[1000], [1, 1, 1, 1, 1, 1, 1], [3, 2, 2]])
def test_what_was_sent_arrives_however_it_is_cut(sizes):
    flows = {"a": A, "b": B}
    sent = [*send(two_edges(), flows, "first", 0), *send(two_edges(), flows, "second", 0)]
    table = pa.Table.from_batches(sent)
    pieces, start = [], 0
    while start < len(table):
        size = sizes[len(pieces) % len(sizes)]
        pieces += table.slice(start, size).combine_chunks().to_batches()
        start += size
    first, second = receive(iter(pieces), flows)
    assert (first.end, second.end) == ("first", "second")
    for name, expected in two_edges().items():
        for arrived in (first.edges[name], second.edges[name]):
            assert arrived.columns == expected.columns
            assert arrived.kind.tolist() == expected.kind.tolist()
            assert arrived.timestamp.tolist() == expected.timestamp.tolist()
            assert arrived.order.tolist() == expected.order.tolist()
            assert (arrived.key, arrived.value) == (expected.key, expected.value)
    assert first.edges["a"].headers.to_pylist() == [None, '{"h":"1"}', None]


def test_an_old_row_and_its_new_one_arrive_on_one_path():
    (arrived,) = receive(send(two_edges(), {"a": A, "b": B}, "end", 0), {"a": A, "b": B})
    assert arrived.edges["a"].path[0].tolist() == [1, 1, 5]
    assert arrived.edges["b"].path[0].tolist() == [2, 3, 4]


def test_task_without_rows_is_its_control_row():
    empty = {"a": two_edges()["a"].filter(np.zeros(3, np.bool_))}
    batches = list(send(empty, {"a": A}, "end", 0))
    assert [len(batch) for batch in batches] == [1]
    (arrived,) = receive(iter(batches), {"a": A})
    assert len(arrived.edges["a"]) == 0
    assert arrived.edges["a"].columns["key.k"].type == pa.string()


def test_planned_time_is_a_column_where_a_flow_wants_it():
    data, _ = send({"a": two_edges()["a"]}, {"a": Flow("k string", "x double, _now timestamp")}, "end", 1500)
    assert data.schema.names[len(META) :] == ["k", "x", "_now"]
    assert data.column("_now").cast(pa.int64()).to_pylist() == [1_500_000] * 3


def test_many_rows_travel_in_bounded_batches():
    count = BATCH_ROWS * 2 + 1
    many = rows(
        [(number,) for number in range(count)],
        [1] * count,
        {"k": pa.repeat("a", count)},
        {"k": pa.array(range(count)), "x": pa.nulls(count, pa.float64())},
    )
    assert [len(batch) for batch in send({"a": many}, {"a": A}, "end", 0)] == [BATCH_ROWS, BATCH_ROWS, 1, 1]


def test_record_of_which_a_row_has_failed_does_not_arrive_on_any_edge():
    flows = {"a": A, "b": B}
    # Rows by path: the first record has made three, and a step could not process the last of these.
    data, control = send(two_edges(), flows, "end", 0, numbers=np.array([4, 5, -7]))
    failed = data.set_column(0, "_kind", pa.array([Kind.OLD, 1, Kind.FAILED, 1, 1, 0], pa.int8()))

    (arrived,) = receive(iter([failed, control]), flows, numbered=True)

    assert arrived.failed == (4,)
    assert (len(arrived.edges["a"]), len(arrived.edges["b"])) == (1, 2)
    assert arrived.numbers[1:].tolist() == [5, -7, -7]
    assert arrived.numbers[arrived.edges["a"].path[0]].tolist() == [-7]
    assert arrived.numbers[arrived.edges["b"].path[0]].tolist() == [5, -7]


NO_TEXT = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"a\xff"))
NESTED = {
    "x string": NO_TEXT,
    "x array<string>": pa.ListArray.from_arrays([0, 1], NO_TEXT),
    "x struct<y: int, x: string>": pa.StructArray.from_arrays([pa.array([1], pa.int32()), NO_TEXT], ["y", "x"]),
    "x map<string, int>": pa.MapArray.from_arrays([0, 1], NO_TEXT, pa.array([1], pa.int32())),
    "x map<int, string>": pa.MapArray.from_arrays([0, 1], pa.array([1], pa.int32()), NO_TEXT),
}


@pytest.mark.parametrize("columns", NESTED)
def test_text_that_is_not_utf_8_is_an_error_that_shows_its_bytes(columns):
    flows = {"a": Flow("k string", columns)}
    sent = rows([(0,)], [1], {"k": pa.array(["k"])}, {"x": NESTED[columns]})
    with pytest.raises(TextError, match="the text in 'x' is not UTF-8: its bytes are 61ff"):
        list(receive(send({"a": sent}, flows, "end", 0), flows))
