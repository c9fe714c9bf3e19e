"""What a topology writes does not depend on where its epochs end, which task is slow, or which epoch fails.

Equal means: of each writer in each partition the same records in the same order. Drops are counted alike.
"""

from __future__ import annotations

import random

import pytest

from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.joins import StreamTableJoin
from headwater.runtime.engine.operators.stateless import Fork, KeyBy, Merge, Select, Settle, ToStream
from headwater.runtime.engine.operators.tables import Table
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import Agg, Store, Topic
from headwater.runtime.ir.windows import Window
from headwater.tests.runtime.local.local_application import part

APP = "test-app"
FACTS = Topic("facts", 3, "k string", "g string, h string, x double, i bigint")
ROWS_OF_TABLE = Topic("table", 3, "k string", "g string, x double, i bigint")
BY_G = Topic("by_g", 2, "g string", "h string, x double, i bigint", writer=APP)
BY_H = Topic("by_h", 3, "h string", "n bigint, s double", writer=APP)
OUT = Topic("out", 2, "h string", "n bigint, total double, top double, one string", writer=APP)

TABLE = Store("rows", 3, "k string", "g string, x double, i bigint")
WINDOWS = Store(
    "windows",
    2,
    "g string",
    "n bigint, s double, h string",
    type="window",
    window=Window(50, 20, 30),
    retention_ms=80,
    aggregates=(Agg("n", "count"), Agg("s", "sum", "x", "double", "double"), Agg("h", "last", "h", "string", "string")),
)
LAST = Store(
    "last",
    3,
    "h string",
    "n bigint, total double, top double, one string",
    aggregates=(
        Agg("n", "count"),
        Agg("total", "avg", "s", "double", "double"),
        Agg("top", "max", "s", "double", "double"),
        Agg("one", "first", "g", "string", "string"),
    ),
)
GROUPS = Store(
    "groups",
    2,
    "g string",
    "n bigint, s double, m double",
    aggregates=(
        Agg("n", "count"),
        Agg("s", "sum", "x", "double", "double"),
        Agg("m", "avg", "i", "bigint", "double"),
    ),
)


def facts(rng, records):
    """Records whose time wanders, with null keys, null values and null columns."""
    time, made = 0, []
    for _ in range(records):
        time += rng.randrange(0, 12)
        value = (
            rng.choice(["r", "s", "t", None]),
            rng.choice(["u", "v", "w"]),
            rng.choice([None, rng.uniform(-1e6, 1e6), 0.1, float("nan") if rng.random() < 0.05 else 1e300]),
            rng.choice([None, rng.randrange(-(2**40), 2**40)]),
        )
        key = None if rng.random() < 0.1 else (rng.choice("abcdef"),)
        made.append((key, None if rng.random() < 0.1 else value, max(0, time - rng.randrange(0, 60))))
    return made


def windowed_twice():
    """Facts re-keyed, counted in hopping windows, joined with a table, re-keyed and aggregated again."""
    return (
        part(
            "first",
            3,
            (
                (
                    (
                        Source(ROWS_OF_TABLE, ("t",)),
                        Source(FACTS, ("f", "copy")),
                        Table("t", TABLE),
                        StreamTableJoin("copy", "t", TABLE, "inner", {"g": "g", "x": "x"}, at="join"),
                        Merge(("f", "copy"), "m"),
                        KeyBy("m", {"g": "g"}),
                        Sink("m", BY_G, "repartition"),
                    ),
                    {},
                    {},
                ),
            ),
            (TABLE,),
        ),
        part(
            "second",
            2,
            (
                (
                    (
                        Source(BY_G, ("f",)),
                        Aggregate("f", WINDOWS, at="windows"),
                        ToStream("f"),
                        KeyBy("f", {"h": "h"}),
                        Select("f", keep=("n", "s")),
                        Sink("f", BY_H, "repartition", keep_null_keys=True),
                    ),
                    {},
                    {},
                ),
            ),
            (WINDOWS,),
        ),
        part(
            "third",
            3,
            (
                (
                    (
                        Source(BY_H, ("f",)),
                        Select("f", {"g": "h"}, keep=("n", "s")),
                        Aggregate("f", LAST, at="last"),
                        Sink("f", OUT, "each_update"),
                    ),
                    {},
                    {},
                ),
            ),
            (LAST,),
        ),
    )


GROUPED = Topic("grouped", 2, "g string", "x double, i bigint", writer=APP)
GROUP_OUT = Topic("group_out", 2, "g string", "n bigint, s double, m double", writer=APP)


def regrouped():
    """A table grouped by a column, and what it says written twice: each change, and settled as a stream."""
    return (
        part(
            "first",
            3,
            (
                (
                    (
                        Source(ROWS_OF_TABLE, ("t",)),
                        Table("t", TABLE, old=True, at="table"),
                        Settle("t"),
                        KeyBy("t", {"g": "g"}),
                        Sink("t", GROUPED, "repartition", of="table"),
                    ),
                    {},
                    {},
                ),
            ),
            (TABLE,),
        ),
        part(
            "second",
            2,
            (
                (
                    (
                        Source(GROUPED, ("t",)),
                        Aggregate("t", GROUPS, old=True, of="table", at="groups"),
                        Sink("t", GROUP_OUT, "each_update"),
                    ),
                    {},
                    {},
                ),
            ),
            (GROUPS,),
        ),
    )


def forked():
    """A stream copied, one copy joined, and both merged again."""
    out = Topic("merged", 3, "k string", "g string, x double", writer=APP)
    return (
        part(
            "first",
            3,
            (
                (
                    (
                        Source(ROWS_OF_TABLE, ("t",)),
                        Source(FACTS, ("f",)),
                        Table("t", TABLE),
                        Select("f", keep=("g", "x")),
                        Fork("f", ("a", "b")),
                        StreamTableJoin("b", "t", TABLE, "left", {"x": "x"}, at="join"),
                        Merge(("b", "a"), "m"),
                        Sink("m", out),
                    ),
                    {},
                    {},
                ),
            ),
            (TABLE,),
        ),
    )


TABLE_BY_G = Topic("table_by_g", 2, "g string", "x double", writer=APP)
LATEST = Store("latest", 2, "g string", "x double")
JOINED = Topic("joined", 2, "g string", "h string, x double", writer=APP)


def joined_after_rekeys():
    """A stream and a table, each re-keyed by subtopologies of their own, then joined."""
    return (
        part(
            "facts",
            3,
            (((Source(FACTS, ("f",)), KeyBy("f", {"g": "g"}), Sink("f", BY_G, "repartition")), {}, {}),),
        ),
        part(
            "rows",
            3,
            (
                (
                    (
                        Source(ROWS_OF_TABLE, ("t",)),
                        KeyBy("t", {"g": "g"}),
                        Select("t", keep=("x",)),
                        Sink("t", TABLE_BY_G, "repartition", of="table"),
                    ),
                    {},
                    {},
                ),
            ),
        ),
        part(
            "joined",
            2,
            (
                (
                    (
                        Source(TABLE_BY_G, ("t",)),
                        Source(BY_G, ("f",)),
                        Table("t", LATEST),
                        StreamTableJoin("f", "t", LATEST, "left", {"x": "x"}),
                        Sink("f", JOINED),
                    ),
                    {},
                    {},
                ),
            ),
            (LATEST,),
        ),
    )


TOPOLOGIES = {
    "joined after re-keys": (joined_after_rekeys, (BY_G, TABLE_BY_G, JOINED)),
    "windowed twice": (windowed_twice, (BY_G, BY_H, OUT)),
    "regrouped": (regrouped, (GROUPED, GROUP_OUT)),
    "forked": (forked, (Topic("merged", 3, "k string", "g string, x double", writer=APP),)),
}


def fed(app, seed):
    rng = random.Random(seed)
    for partition in range(3):
        if any(FACTS in part.sources for part in app.parts):
            app.append(FACTS, facts(rng, 60), partition)
        rows = [(k, v and (v[0], v[2], v[3]), t) for k, v, t in facts(rng, 40)]
        app.append(ROWS_OF_TABLE, rows, partition)
    return app


def by_writer(app, topics):
    """Records by topic, partition and writer; offsets, which follow commits, left out."""
    found = {}
    for topic in topics:
        for row in app.read(topic):
            found.setdefault((topic.name, row["partition"], row["lane"]), []).append(repr(row))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("schedules", [(0, 1), pytest.param((2, 3), marks=pytest.mark.soak)], ids=["first", "more"])
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_random_cuts_stalls_and_failures_give_the_same_records(application, name, schedules):
    build, topics = TOPOLOGIES[name]
    whole = fed(application(*build()), 1)
    whole.run()
    expected = by_writer(whole, topics)
    assert len(expected) > 2
    for schedule in schedules:
        cut = fed(application(*build(), log=("embedded", "sparse")[schedule % 2]), 1)
        cut.run_randomly(schedule)
        assert by_writer(cut, topics) == expected
        assert cut.dropped == whole.dropped


TOTALS = Topic("totals", 2, "g string", "n bigint, s double, m double", writer=APP)
WINDOW_TOTALS = Topic("window_totals", 2, "g string", "n bigint, s double", windowed=True, writer=APP)
STREAMED = Store("streamed", 2, "g string", "n bigint, s double, m double", aggregates=GROUPS.aggregates)


def collapsed(emit, mode):
    """Totals of a stream, plain and by window, and those of a regrouped table."""
    table, groups = regrouped()
    groups = part(
        "second",
        2,
        (
            (
                (
                    Source(GROUPED, ("t",)),
                    Aggregate("t", GROUPS, emit, old=True, of="table"),
                    Sink("t", GROUP_OUT, mode),
                ),
                {},
                {},
            ),
        ),
        (GROUPS,),
    )
    rekey = part(
        "facts", 3, (((Source(FACTS, ("f",)), KeyBy("f", {"g": "g"}), Sink("f", BY_G, "repartition")), {}, {}),)
    )
    totals = part(
        "totals",
        2,
        (
            (
                (
                    Source(BY_G, ("f", "w")),
                    Aggregate("f", STREAMED, emit, old=True),
                    Aggregate("w", WINDOWS, emit, old=True),
                    Sink("f", TOTALS, mode),
                    Sink("w", WINDOW_TOTALS, mode),
                ),
                {},
                {},
            ),
        ),
        (STREAMED, WINDOWS),
    )
    return table, groups, rekey, totals


def last_values(app, topics):
    """The last record of each key; a deletion leaves nothing."""
    found = {}
    for topic in topics:
        for row in app.read(topic):
            key = (topic.name, *(str(value) for name, value in row.items() if name.startswith("key.")))
            values = {name: repr(value) for name, value in row.items() if name.startswith("value.")}
            found[key] = (values, row["_timestamp"]) if row["_kind"] else None
    return {key: row for key, row in found.items() if row is not None}


@pytest.mark.slow
def test_collapsed_changes_end_with_the_same_rows_in_every_cut(application):
    topics = (GROUP_OUT, TOTALS, WINDOW_TOTALS)
    whole = fed(application(*collapsed("each_update", "each_update")), 2)
    whole.run()
    expected = last_values(whole, topics)
    assert len(expected) > 20
    for schedule, (emit, mode) in enumerate(
        [("per_epoch", "each_update"), ("each_update", "per_epoch"), ("per_epoch", "per_epoch")]
    ):
        cut = fed(application(*collapsed(emit, mode)), 2)
        cut.run_randomly(schedule)
        assert last_values(cut, topics) == expected
        assert cut.dropped == whole.dropped


def test_one_epoch_writes_each_key_once(application):
    app = fed(application(*collapsed("per_epoch", "each_update")), 2)
    app.run()
    records = app.read(TOTALS)
    assert len({row["key.g"] for row in records}) == len(records)
