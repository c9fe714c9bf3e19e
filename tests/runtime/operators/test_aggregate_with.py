"""`aggregate` with a class of the project: the conformance cases that append values, which show the order of calls."""

from __future__ import annotations

import json

import pytest

from headwater.runtime.engine.operators.aggregations import AggregateWith
from headwater.runtime.engine.operators.stateless import KeyBy, Select
from headwater.runtime.engine.operators.tables import Table
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.functions import PythonCode, PythonFunction
from headwater.runtime.ir.topology import Store, Topic
from headwater.runtime.ir.windows import SessionWindow, Window
from headwater.runtime.records.types import Kind
from headwater.tests.runtime.local.local_application import APPLICATION, WHOLE, LocalApplication, part

CODE = PythonCode(
    (
        (
            "functions/cat.py",
            """
class Cat:
    def initial(self):
        return {"v": ""}

    def add(self, state, key, value):
        assert key.k == "a" or key.k == "b" or key.k == "c"
        return None if value.v == "x" else {"v": state.v + (value.v or "~")}

    def merge(self, first, second):
        return {"v": f"({first.v}{second.v})"}


class Signed:
    def __init__(self):
        self.start = {"v": ""}

    def initial(self):
        return self.start

    @staticmethod
    def add(state, key, value):
        return {"v": f"{state.v}+{value.n}"}

    def subtract(self, state, key, value):
        return None if value.n == 0 else {"v": f"{state.v}-{value.n}"}
""",
        ),
    )
)
A = Topic("A", 1, "k string", "v string")
OUT = Topic("O", 1, "k string", "v string", writer=APPLICATION)
T = Topic("T", 1, "id string", "k string, n bigint")
BETWEEN = Topic("between", 1, "k string", "n bigint", writer=APPLICATION)
EVERY = (1, 7, WHOLE)


def cat(window=None):
    kind = "session" if isinstance(window, SessionWindow) else "window" if window else "key_value"
    store = Store("cat", 1, "k string", "v string", kind, window)
    out = Topic("O", 1, "k string", "v string", windowed=window is not None, writer=APPLICATION)
    function = PythonFunction("functions.cat:Cat", CODE)
    nodes = (Source(A, ("f",)), AggregateWith("f", store, function, at="cat"), Sink("f", out, "each_update"))
    return part("p", 1, ((nodes, {}, {}),), (store,)), out


def records(tokens):
    """`a:1@10 a:~@30 ~:1@5` as records."""
    found = []
    for token in tokens.split():
        key, rest = token.split(":")
        value, time = rest.split("@")
        found.append((None if key == "~" else (key,), None if value == "~" else (value,), int(time)))
    return found


def written(app, out):
    found = []
    for row in app.read(out):
        value = "~" if row["_kind"] == Kind.TOMBSTONE else row["value.v"]
        start, end = (row.get(f"key.window_{side}") for side in ("start", "end"))
        window = "" if start is None else f"[{start.timestamp() * 1000:.0f},{end.timestamp() * 1000:.0f})"
        found.append(f"{row['key.k']}{window}:{value}@{row['_timestamp']}")
    return " ".join(found)


CASES = {
    "18, a result of null": (
        None,
        "a:1@10 a:x@5 a:2@3 b:x@1",
        "a:1@10 a:~@10 a:2@3 b:~@1",
        0,
    ),
    "21, tumbling": (
        Window(10, 10, 100),
        "a:1@0 a:2@9 a:3@10 b:4@25 a:5@7 a:~@19 ~:6@11",
        "a[0,10):1@0 a[0,10):12@9 a[10,20):3@10 b[20,30):4@25 a[0,10):125@9 a[10,20):3~@19",
        1,
    ),
    "22, grace": (
        Window(10, 10, 5),
        "a:1@3 b:2@14 a:3@9 b:4@15 a:5@9 a:6@10 c:7@4",
        "a[0,10):1@3 b[10,20):2@14 a[0,10):13@9 b[10,20):24@15 a[10,20):6@10",
        2,
    ),
    "26, hopping": (
        Window(10, 4, 100),
        "a:1@0 a:2@13 a:3@10",
        "a[0,10):1@0 a[4,14):2@13 a[8,18):2@13 a[12,22):2@13 a[4,14):23@13 a[8,18):23@13",
        0,
    ),
    "sessions that are joined, with a null value": (
        SessionWindow(10, 100),
        "a:1@0 a:2@20 b:4@21 a:3@10 a:~@25 b:5@50 ~:6@51",
        "a[0,0):1@0 a[20,20):2@20 b[21,21):4@21 a[0,0):~@0 a[20,20):~@20 a[0,20):(12)3@20 "
        "a[0,20):~@20 a[0,25):(12)3~@25 b[50,50):5@50",
        1,
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("max_records", EVERY)
def test_records_give_what_kafka_streams_gives(tmp_path, case, max_records):
    window, given, expected, dropped = CASES[case]
    made, out = cat(window)
    app = LocalApplication(tmp_path, [made])
    app.append(A, records(given))
    app.run(max_records)
    assert written(app, out) == expected
    assert app.dropped.total() == dropped


def regrouped():
    """A table grouped by one of its columns."""
    table = Store("table", 1, "id string", "k string, n bigint")
    store = Store("signed", 1, "k string", "v string")
    function = PythonFunction("functions.cat:Signed", CODE)
    first = (
        Source(T, ("f",)),
        Table("f", table, old=True, at="table"),
        KeyBy("f", {"k": "k"}),
        Select("f", keep=("n",)),
        Sink("f", BETWEEN, "repartition", of="table"),
    )
    second = (
        Source(BETWEEN, ("f",)),
        AggregateWith("f", store, function, of="table", at="signed"),
        Sink("f", OUT, "each_update"),
    )
    return [part("a", 1, ((first, {}, {}),), (table,)), part("b", 1, ((second, {}, {}),), (store,))]


@pytest.mark.parametrize("max_records", EVERY)
def test_old_rows_of_a_table_are_subtracted_before_new_ones_are_added(tmp_path, max_records):
    app = LocalApplication(tmp_path, regrouped())
    rows = [("1", "a", 5, 10), ("2", "a", 3, 20), ("1", "a", 7, 15), ("1", "b", 7, 12)]
    app.append(T, [((key,), (group, n), time) for key, group, n, time in rows])
    app.run(max_records)
    assert written(app, OUT) == "a:+5@10 a:+5+3@20 a:+5+3-5+7@20 a:+5+3-5+7-7@20 b:+7@12"


@pytest.mark.parametrize("max_records", EVERY)
def test_group_is_deleted_where_the_class_says_so_and_begins_anew(tmp_path, max_records):
    app = LocalApplication(tmp_path, regrouped())
    rows = [
        ("1", "a", 0, 30),
        ("1", "a", 1, 20),
        ("1", "b", 1, 10),
        ("2", "b", 0, 11),
        ("2", "c", 1, 12),
        ("3", "b", 2, 1),
    ]
    app.append(T, [((key,), (group, n), time) for key, group, n, time in rows])
    app.run(max_records)
    assert written(app, OUT) == "a:+0@30 a:+1@30 a:+1-1@30 b:+1@10 b:+1+0@11 b:~@12 c:+1@12 b:+2@1"


def test_error_of_a_method_names_it(tmp_path):
    made, _ = cat()
    app = LocalApplication(tmp_path, [made])
    app.append(A, [(("a",), ("1",), 1), (("z",), ("2",), 2)])
    error = app.attempt(app.settings()).error
    assert "cat: record A[0]@1 cannot be processed: functions.cat:Cat (add) raised AssertionError\n" in error
    assert json.dumps({"k": "z"}) in error
