"""The rules of each step on the records of the conformance cases, one task at a time, without Spark.

Steps that Spark SQL runs are stood in for by functions on the pipe's rows.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.joins import GlobalJoin, StreamTableJoin
from headwater.runtime.engine.operators.operator import Flow
from headwater.runtime.engine.operators.stateless import Merge, Settle, ToStream
from headwater.runtime.engine.operators.tables import Table
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.engine.pipe import pipe_schema
from headwater.runtime.ir.topology import Agg, GlobalTable, Store, Topic
from headwater.runtime.ir.windows import Window
from headwater.tests.conformance.notation import by_topic, parse_input, parse_output, token_of
from headwater.tests.runtime.local.local_application import part

A, B, T, G = (Topic(name, 1, "k string", "v string") for name in "ABTG")
NUMBERS = Topic("A", 1, "k string", "v bigint")
OUT = Topic("O", 1, "k string", "v string", writer="test-app")
JOINED = Topic("O", 1, "k string", "v string, w string", writer="test-app")
ROW = Store("rows", 1, "k string", "v string")
GLOBAL = GlobalTable("g", G, Store("g", 1, "k string", "v string"))
SUM = Store("sums", 1, "k string", "v bigint", aggregates=(Agg("v", "sum", "v", "bigint"),))
SUMS = Topic("O", 1, "k string", "v bigint", writer="test-app")
LISTS = Topic("O", 1, "k string", "v array<string>", windowed=True, writer="test-app")
COUNTS = Topic("O", 1, "k string", "v bigint", windowed=True, writer="test-app")


def lists(size, advance, grace):
    return Store(
        "lists",
        1,
        "k string",
        "v array<string>",
        type="window",
        window=Window(size, advance, grace),
        aggregates=(Agg("v", "collect_list", "t", "string"),),
    )


def rows_through(flow_in, flow_out, change):
    """A function on each record of a flat pipe, given as a mapping; None drops it, control rows pass."""

    def step(batches):
        schema = pipe_schema({"f": flow_out})
        for batch in batches:
            rows = [row if row["_kind"] < 0 else change(row) for row in batch.to_pylist()]
            kept = [{name: row.get(name) for name in schema.names} for row in rows if row is not None]
            yield pa.RecordBatch.from_pylist(kept, schema)

    return step


def text_of_null(row):
    """Lists of values show a null as ~, which collect_list would skip."""
    return row | {"t": "~" if row["v"] is None else row["v"]}


def window_part(store, out):
    """Records with a column that is never null, in windows."""
    flow, with_text = Flow("k string", "v string"), Flow("k string", "v string, t string")
    return part(
        "p",
        1,
        (
            ((Source(A, ("f",)),), {}, {"f": flow}),
            rows_through(flow, with_text, text_of_null),
            ((Aggregate("f", store), Sink("f", out, "each_update")), {"f": with_text}, {}),
        ),
        (store,),
    )


def join_part(how):
    nodes = (
        Source(T, ("t",)),
        Source(A, ("f",)),
        Table("t", ROW, at="t"),
        StreamTableJoin("f", "t", ROW, how, {"w": "v"}, at="j"),
        Sink("f", JOINED),
    )
    return part("p", 1, ((nodes, {}, {}),), (ROW,))


def global_part(how):
    flow, by = Flow("k string", "v string"), Flow("k string", "v string, by string")
    nodes = (GlobalJoin("f", GLOBAL, how, {"k": "by"}, {"w": "v"}), Sink("f", JOINED))
    look_up = rows_through(flow, by, lambda row: row | {"by": None if row["v"] == "n" else row["v"]})
    stages = (((Source(A, ("f",)),), {}, {"f": flow}), look_up, (nodes, {"f": by}, {}))
    return part("p", 1, stages, (), (GLOBAL,))


def merge_part():
    nodes = (Source(A, ("a",)), Source(B, ("b",)), Merge(("a", "b"), "f"), Sink("f", OUT))
    return part("p", 1, ((nodes, {}, {}),))


def filter_part():
    """A table with a filter `v > 5`, all of it to a topic once per epoch, what passes as a stream."""
    flow = Flow("k string", "v string")

    def passes(row):
        ok = row["v"] is not None and int(row["v"]) > 5
        if row["_kind"] == 1 and not ok:
            return row | {"_kind": 0, "v": None}
        return row if ok or row["_kind"] < 2 else None

    return part(
        "p",
        1,
        (
            ((Source(T, ("f",)), Table("f", ROW, old=True)), {}, {"f": flow}),
            rows_through(flow, flow, passes),
            ((Settle("f"), ToStream("f"), Sink("f", OUT)), {"f": flow}, {}),
        ),
        (ROW,),
    )


def regroup_parts():
    """A table by the first letter of its value, the rest summed up."""
    between = Topic("between", 1, "g string", "v bigint", writer="test-app")
    sums = Store("sums", 1, "g string", "v bigint", aggregates=(Agg("v", "sum", "v", "bigint"),))
    flow, regrouped = Flow("k string", "v string"), Flow("g string", "v bigint")

    def letter(row):
        if row["_kind"] == 0:
            return row
        return row | {"g": None if row["v"][0] == "~" else row["v"][0], "v": int(row["v"][1:])}

    first = part(
        "p",
        1,
        (
            ((Source(T, ("f",)), Table("f", ROW, old=True)), {}, {"f": flow}),
            rows_through(flow, regrouped, letter),
            ((Sink("f", between, "repartition", of="table"),), {"f": regrouped}, {}),
        ),
        (ROW,),
    )
    out = Topic("O", 1, "g string", "v bigint", writer="test-app")
    second = part(
        "q",
        1,
        (((Source(between, ("f",)), Aggregate("f", sums, of="table"), Sink("f", out, "each_update")), {}, {}),),
        (sums,),
    )
    return first, second


def cache_part():
    nodes = (Source(T, ("f",)), Table("f", ROW, "per_epoch"), Sink("f", OUT, "each_update"))
    return part("p", 1, ((nodes, {}, {}),), (ROW,))


CASES = {
    "table to stream": (
        lambda: [
            part("p", 1, (((Source(T, ("f",)), Table("f", ROW), ToStream("f"), Sink("f", OUT)), {}, {}),), (ROW,))
        ],
        (T, OUT),
        "T.a:1@10 T.a:1@5 T.a:~@20 T.a:~@21 T.b:~@1 T.~:1@2",
        "a:1@10 a:1@5 a:~@20 a:~@21 b:~@1 d=1",
    ),
    "merge by head": (
        lambda: [merge_part()],
        (A, B, OUT),
        "[ a:1@50 a:2@10 B.b:3@20 B.b:4@60 ]",
        "b:3@20 a:1@50 a:2@10 b:4@60 d=0",
    ),
    "merge with nulls": (
        lambda: [merge_part()],
        (A, B, OUT),
        "[ a:1@10 a:2@40 a:3@15 B.b:4@20 B.b:5@50 B.~:~@60 ]",
        "a:1@10 b:4@20 a:2@40 a:3@15 b:5@50 ~:~@60 d=0",
    ),
    "inner join": (
        lambda: [join_part("inner")],
        (A, T, JOINED),
        "a:1@5 T.a:t@20 a:2@10 ~:3@11 a:~@12 b:4@13 T.a:u@8 a:5@14 T.a:~@15 a:6@16 T.~:z@17",
        "a:2t@10 a:5u@14 d=3",
    ),
    "left join": (
        lambda: [join_part("left")],
        (A, T, JOINED),
        "a:1@5 T.a:t@20 a:2@10 ~:3@11 a:~@12 ~:~@13 T.a:~@15 a:6@16",
        "a:1-@5 a:2t@10 ~:3-@11 a:6-@16 d=2",
    ),
    "left join, in time": (
        lambda: [join_part("left")],
        (A, T, JOINED),
        "[ a:1@10 a:2@20 a:3@30 T.a:t@15 T.a:u@25 ]",
        "a:1-@10 a:2t@20 a:3u@30 d=0",
    ),
    "left join, across epochs": (
        lambda: [join_part("left")],
        (A, T, JOINED),
        "[ a:1@10 a:2@30 ] [ T.a:t@15 a:3@40 ]",
        "a:1-@10 a:2-@30 a:3t@40 d=0",
    ),
    "inner global join": (
        lambda: [global_part("inner")],
        (A, G, JOINED),
        "G.x:g@50 a:x@10 ~:x@11 a:n@12 a:~@13 a:y@14 G.x:h@2 a:x@3 G.x:~@1 a:x@15 G.~:h@16",
        "a:xg@10 ~:xg@11 a:xh@3 d=3",
    ),
    "left global join": (
        lambda: [global_part("left")],
        (A, G, JOINED),
        "G.x:g@50 a:x@10 ~:x@11 a:n@12 a:~@13 a:y@14",
        "a:xg@10 ~:xg@11 a:n-@12 a:y-@14 d=1",
    ),
    "sum": (
        lambda: [
            part(
                "p",
                1,
                (((Source(NUMBERS, ("f",)), Aggregate("f", SUM), Sink("f", SUMS, "each_update")), {}, {}),),
                (SUM,),
            )
        ],
        (NUMBERS, SUMS),
        "a:1@10 a:2@5 ~:3@20 a:~@30 b:4@7 a:5@12",
        "a:1@10 a:3@10 b:4@7 a:8@12 d=2",
    ),
    "regrouped table": (
        regroup_parts,
        (T, Topic("O", 1, "g string", "v bigint", writer="test-app")),
        "T.1:a5@10 T.2:a3@20 T.1:a7@15 T.1:b7@12 T.2:~@30 T.3:~4@40 T.1:~@11 T.~:a1@50 T.9:~@60",
        "a:5@10 a:8@20 a:10@20 a:3@20 b:7@12 a:~@30 b:~@12 d=2",
    ),
    "tumbling": (
        lambda: [window_part(lists(10, 10, 100), LISTS)],
        (A, LISTS),
        "a:1@0 a:2@9 a:3@10 b:4@25 a:5@7 a:~@19 ~:6@11",
        "a[0,10):1@0 a[0,10):12@9 a[10,20):3@10 b[20,30):4@25 a[0,10):125@9 a[10,20):3~@19 d=1",
    ),
    "tumbling, late": (
        lambda: [window_part(lists(10, 10, 5), LISTS)],
        (A, LISTS),
        "a:1@3 b:2@14 a:3@9 b:4@15 a:5@9 a:6@10 c:7@4",
        "a[0,10):1@3 b[10,20):2@14 a[0,10):13@9 b[10,20):24@15 a[10,20):6@10 d=2",
    ),
    "tumbling, late at the edge": (
        lambda: [window_part(lists(10, 10, 5), LISTS)],
        (A, LISTS),
        "a:1@24 b:2@10 a:1@25 b:2@19 b:3@20",
        "a[20,30):1@24 b[10,20):2@10 a[20,30):11@25 b[20,30):3@20 d=1",
    ),
    "hopping": (
        lambda: [window_part(lists(10, 4, 100), LISTS)],
        (A, LISTS),
        "a:1@0 a:2@13 a:3@10",
        "a[0,10):1@0 a[4,14):2@13 a[8,18):2@13 a[12,22):2@13 a[4,14):23@13 a[8,18):23@13 d=0",
    ),
    "hopping, late": (
        lambda: [window_part(lists(10, 5, 2), LISTS)],
        (A, LISTS),
        "a:1@7 b:2@12 a:3@8 b:4@17 a:5@9",
        "a[0,10):1@7 a[5,15):1@7 b[5,15):2@12 b[10,20):2@12 a[5,15):13@8 b[10,20):24@17 b[15,25):4@17 d=3",
    ),
    "filtered table": (
        lambda: [filter_part()],
        (T, OUT),
        "T.a:9@10 T.a:3@20 T.a:2@21 T.b:1@5 T.a:8@15 T.a:~@30 T.a:~@31 T.a:9@3",
        "a:9@10 a:~@20 a:8@15 a:~@30 a:9@3 d=0",
    ),
    "record cache": (
        lambda: [cache_part()],
        (T, OUT),
        "[ T.a:9@10 T.b:7@20 T.a:3@5 T.c:8@1 T.c:~@2 ] [ T.a:~@30 T.b:8@31 T.b:6@29 T.c:~@32 ]",
        "b:7@20 a:3@5 a:~@30 b:6@29 d=0",
    ),
}


def seeded(app, topics, batch):
    """Records of one batch, in their topics."""
    declared = {topic.name: topic for topic in topics}
    for name, tokens in by_topic(batch).items():
        topic = declared[name]
        kind = int if "bigint" in topic.value else str
        app.append(
            topic,
            [
                (None if t.key is None else (t.key,), None if t.value is None else (kind(t.value),), t.timestamp)
                for t in tokens
            ],
        )


def written(app, topic):
    """The records of an output topic as tokens."""
    tokens = []
    for row in app.read(topic):
        key = {name[4:]: value for name, value in row.items() if name.startswith("key.")}
        for bound in ("window_start", "window_end"):
            if bound in key:
                key[bound] = int(key[bound].timestamp() * 1000)
        value = {name[6:]: value for name, value in row.items() if name.startswith("value.")}
        here = any(part is not None for part in key.values())
        value = value if row["_kind"] else None
        tokens.append(token_of(topic.name, key if here else None, value, row["_timestamp"]))
    return tokens


@pytest.mark.parametrize("log", ["embedded", "sparse"])
@pytest.mark.parametrize("name", CASES)
def test_records_of_a_case_give_what_kafka_streams_gives(application, name, log):
    parts, topics, given, expected = CASES[name]
    app = application(*parts(), log=log)
    for batch in parse_input(given):
        seeded(app, topics, batch)
        app.run()
    outputs, dropped = parse_output(expected)
    for topic in topics:
        if topic.writer is not None:
            assert written(app, topic) == outputs.get(topic.name, [])
    assert sum(app.dropped.values()) == dropped
