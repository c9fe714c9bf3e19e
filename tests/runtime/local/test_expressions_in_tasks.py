"""Steps with expressions that a task does itself, in the real loop and without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.runtime import Aggregate, Pipe, Settle, Sink, Source, Table, subtopology
from headwater.runtime.ir.topology import Agg, Store, Topic
from headwater.runtime.records.types import Kind
from headwater.tests.runtime.local.local_application import APPLICATION, LocalApplication, Part

NUMBERS = Topic("numbers", 1, "k string", "x int, y double")
OUT = Topic("out", 1, "k string", "x int", writer=APPLICATION)
ROWS = [
    (("a",), (4, 1.0), 1),
    (("b",), (None, 2.5), 2),
    ((None,), (7, float("nan")), 3),
    (("c",), None, 4),
    (("a",), (-3, 0.0), 5),
    (("d",), (9, None), 6),
]


TEXTS = Topic("texts", 1, "k string", "x int, s string, ss array<string>")
WORDS = [
    (("a",), (1, "u,v", ["w"]), 1),
    (("b",), (2, "", []), 2),
    (("c",), None, 3),
    ((None,), (None, "z", None), 4),
    (("d",), (5, None, [None, "q"]), 5),
]


def given(
    tmp_path: Path, steps: Callable[[Pipe], Pipe], topic: Topic = NUMBERS, rows: Sequence[Any] = ROWS
) -> LocalApplication:
    app = LocalApplication(tmp_path, [Part(subtopology(0, topic.name, file="t.yml")(steps))])
    app.append(topic, rows)
    return app


def records(app: LocalApplication, topic: Topic) -> list[tuple[Any, ...]]:
    """Key, value columns and time; a tombstone has no columns."""
    names = [f"value.{each.split()[0]}" for each in topic.value.split(", ")]
    key = f"key.{topic.key.split()[0]}"
    return [
        (row[key], *(row[name] for name in names), row["_timestamp"])
        if row["_kind"] == Kind.VALUE
        else (row[key], None)
        for row in app.read(topic)
    ]


@pytest.mark.parametrize("max_records", [1, 4, 1000])
def test_stream_is_filtered_computed_branched_and_merged_in_order(tmp_path: Path, max_records: int) -> None:
    out = Topic("out", 1, "name string", "n bigint, half double", writer=APPLICATION)

    def steps(rows: Pipe) -> Pipe:
        rows = rows.process(Source(NUMBERS, "f"))
        rows = rows.where("f", "x is null or x <> -3")
        rows = rows.branch("f", {"big": "x > 5", "rest": None})
        rows = rows.select("big", {"n bigint": "cast(x as bigint) + 2147483647", "half double": "y / 2"})
        rows = rows.select("rest", {"n bigint": "coalesce(x, 0L)", "half double": "if(y < 2, y, 0.5D)"})
        rows = rows.key_by("big", {"name string": "concat(coalesce(k, '?'), '!')"})
        rows = rows.key_by("rest", {"name string": "k"})
        rows = rows.merge(("big", "rest"), "f")
        return rows.process(Sink("f", out, "append"))

    app = given(tmp_path, steps)
    app.run(max_records)
    found = records(app, out)
    assert [each[:2] for each in found] == [("a", 4), ("b", 0), ("?!", 2147483654), ("c", None), ("d!", 2147483656)]
    assert str(found) == (
        "[('a', 4, 1.0, 1), ('b', 0, 0.5, 2), ('?!', 2147483654, nan, 3), ('c', None), ('d!', 2147483656, None, 6)]"
    )


@pytest.mark.parametrize("max_records", [1, 1000])
def test_rows_of_a_table_that_do_not_pass_become_deletions(tmp_path: Path, max_records: int) -> None:
    store = Store("kept", 1, "k string", "x int, y double")

    def steps(rows: Pipe) -> Pipe:
        rows = rows.process(Source(NUMBERS, "t"), Table("t", store, old=True))
        rows = rows.where("t", "x > 0", table=True)
        return rows.process(Settle("t"), Sink("t", replace(OUT, value="x int, y double"), "each_update"))

    app = given(tmp_path, steps)
    app.append(NUMBERS, [(("d",), (-1, 0.0), 7), (("d",), (2, 0.0), 8)])
    app.run(max_records)
    assert [each[:2] for each in records(app, replace(OUT, value="x int, y double"))] == [
        ("a", 4),
        ("a", None),
        ("d", 9),
        ("d", None),
        ("d", 2),
    ]


def test_record_that_an_expression_cannot_process_stops_its_task_and_is_named(tmp_path: Path) -> None:
    def steps(rows: Pipe) -> Pipe:
        rows = rows.process(Source(NUMBERS, "f"))
        rows = rows.with_columns("f", {"q bigint": "if(x = 4, 0L, 10 div (x - 9))"}, at=3)
        rows = rows.select("f", {}, keep=("x",))
        return rows.process(Sink("f", OUT, "append"))

    app = given(tmp_path, steps)
    result = app.attempt(app.settings(max_records=3))
    assert result.status == "failed"
    assert "t.yml:3: record numbers[0]@5 cannot be processed" in (result.error or "")
    assert [each[0] for each in records(app, OUT)] == ["a", "b", None]


def test_count_behind_steps_of_a_task_is_that_of_its_records(tmp_path: Path) -> None:
    store = Store("counts", 1, "k string", "n bigint", aggregates=(Agg("n", "count"),))
    counts = Topic("out", 1, "k string", "n bigint", writer=APPLICATION)

    def steps(rows: Pipe) -> Pipe:
        rows = rows.process(Source(NUMBERS, "f"))
        rows = rows.where("f", "y >= 0.0")
        return rows.process(Aggregate("f", store), Sink("f", counts, "each_update"))

    app = given(tmp_path, steps)
    app.run()
    assert [each[:2] for each in records(app, counts)] == [("a", 1), ("b", 1), ("a", 2)]


def test_time_of_the_epoch_and_of_the_record_are_read_by_tasks(tmp_path: Path) -> None:
    def steps(rows: Pipe) -> Pipe:
        rows = rows.process(Source(NUMBERS, "f"), keep={"f": ("x", "_now")})
        rows = rows.where("f", "_now is not null and _now <=> _now and _ts between 2 and 4")
        rows = rows.select("f", {}, keep=("x",))
        return rows.process(Sink("f", OUT, "append"))

    app = given(tmp_path, steps)
    app.run()
    assert [each[0] for each in records(app, OUT)] == ["b", None, "c"]


@pytest.mark.parametrize("max_records", [1, 2, 1000])
def test_exploded_rows_come_in_order_with_the_time_of_their_record(tmp_path: Path, max_records: int) -> None:
    out = Topic("out", 1, "k string", "x int, word string", writer=APPLICATION)

    def steps(rows: Pipe) -> Pipe:
        rows = rows.process(Source(TEXTS, "f"))
        rows = rows.fork("f", ("f", "g"))
        rows = rows.explode("f", {"word string": "split(s, ',')"}, keep=("x",))
        rows = rows.explode("g", {"word string": "ss"}, keep=("x",))
        rows = rows.merge(("f", "g"), "h")
        return rows.process(Sink("h", out, "append"))

    app = given(tmp_path, steps, TEXTS, WORDS)
    app.run(max_records)
    assert records(app, out) == [
        ("a", 1, "u", 1),
        ("a", 1, "v", 1),
        ("a", 1, "w", 1),
        ("b", 2, "", 2),
        (None, None, "z", 4),
        ("d", 5, None, 5),
        ("d", 5, "q", 5),
    ]


def test_records_without_a_value_explode_if_the_array_does_not_need_it(tmp_path: Path) -> None:
    out = Topic("out", 1, "k string", "x int, n bigint", writer=APPLICATION)

    def steps(rows: Pipe) -> Pipe:
        rows = rows.process(Source(TEXTS, "f"))
        rows = rows.explode("f", {"n bigint": "array(_ts, 7L)"}, keep=("x",))
        return rows.process(Sink("f", out, "append"))

    app = given(tmp_path, steps, TEXTS, WORDS[1:3])
    app.run()
    assert records(app, out) == [("b", 2, 2, 2), ("b", 2, 7, 2), ("c", None, 3, 3), ("c", None, 7, 3)]


def test_record_of_which_an_array_fails_is_named(tmp_path: Path) -> None:
    topic = Topic("lists", 1, "k string", "x int, lists array<array<int>>")

    def steps(rows: Pipe) -> Pipe:
        rows = rows.process(Source(topic, "f"))
        rows = rows.explode("f", {"x int": "lists[1]"}, keep=(), at=4)
        return rows.process(Sink("f", OUT, "append"))

    app = given(tmp_path, steps, topic, [(("a",), (1, [[1], [2, 3]]), 1), (("b",), (1, [[4]]), 2)])
    result = app.attempt(app.settings(max_records=1))
    assert "t.yml:4: record lists[0]@1 cannot be processed" in (result.error or "")
    assert records(app, OUT) == [("a", 2, 1), ("a", 3, 1)]
