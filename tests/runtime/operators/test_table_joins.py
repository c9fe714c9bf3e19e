"""Joins of two tables beside a computation that takes one change after another, wherever epochs end."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import pandas as pd
import pytest

from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.joins import TableTableJoin
from headwater.runtime.engine.operators.stateless import Fork, KeyBy, Select
from headwater.runtime.engine.operators.tables import Table
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import Agg, Store, Topic
from headwater.runtime.records.types import Kind
from headwater.tests.runtime.local.local_application import WHOLE, part
from headwater.tests.sampled import chosen

LEFT, RIGHT, THIRD = (Topic(name, 1, "k string", "v bigint") for name in ("left", "right", "third"))
OUT = Topic("out", 1, "k string", "v bigint, w bigint", writer="test-app")
ROWS = Store("lefts", 1, "k string", "v bigint")
OTHERS = Store("rights", 1, "k string", "v bigint")
HOWS = ("inner", "left", "outer")


def topology(how, emit="each_update"):
    nodes = (
        Source(LEFT, ("f",)),
        Source(RIGHT, ("f.right",)),
        Table("f", ROWS, at="left"),
        Table("f.right", OTHERS, at="right"),
        TableTableJoin("f", "f.right", ROWS, OTHERS, how, {"w": "v"}, emit, at="join"),
        Sink("f", OUT, emit),
    )
    return (part("only", 1, ((nodes, {}, {}),), (ROWS, OTHERS)),)


def changes(seed, records=60):
    """Changes of both sides in any order of time: deletions of rows that are not there, equal values, null keys."""
    rng = random.Random(seed)
    return {
        topic: [
            (
                None if rng.random() < 0.05 else (rng.choice("abcdef"),),
                None if rng.random() < 0.4 else (rng.choice([None, 1, 2, 3]),),
                max(0, 3 * number + rng.choice([-40, 0, 0, 25])),
            )
            for number in range(records)
        ]
        for topic in (LEFT, RIGHT)
    }


def taken(queues):
    """Records as a task takes them: of the heads of all topics the earliest, of equal ones the one declared first."""
    left = {topic: list(records) for topic, records in queues.items()}
    while any(left.values()):
        topic = min((t for t in left if left[t]), key=lambda t: (left[t][0][2], list(left).index(t)))
        yield topic, left[topic].pop(0)


def joined(how, records):
    """(Updates as (key, row or None, timestamp), the rows at the end, dropped records), one change after another."""
    sides = {LEFT: {}, RIGHT: {}}
    updates, rows, dropped = [], {}, 0
    for topic, (key, value, time) in records:
        if key is None:
            dropped += 1
            continue
        mine, other = sides[topic], sides[RIGHT if topic is LEFT else LEFT]
        old = mine.pop(key, None)
        if value is not None:
            mine[key] = (value, time)
        met = other.get(key)
        if how == "inner" or (how == "left" and topic is RIGHT):
            gives = met is not None
        else:
            gives = not (old is None and value is None and met is None)
        if not gives:
            continue
        this, that = sides[LEFT].get(key), sides[RIGHT].get(key)
        there = {"inner": this and that, "left": this, "outer": this or that}[how] is not None
        row = ((this or [(None,)])[0][0], (that or [(None,)])[0][0]) if there else None
        updates.append((key[0], row, time if met is None else max(time, met[1])))
        rows[key[0]] = row
    return updates, {key: row for key, row in rows.items() if row is not None}, dropped


def written(app, topic=OUT):
    return [
        (
            row["key.k"],
            None if row["_kind"] == Kind.TOMBSTONE else (row["value.v"], row["value.w"]),
            row["_timestamp"],
        )
        for row in app.read(topic)
    ]


@pytest.mark.parametrize(
    ("max_records", "how"), chosen(product((1, 7, WHOLE), HOWS), [(1, "outer"), *product((7, WHOLE), HOWS)])
)
def test_updates_are_those_of_one_change_after_another(application, how, max_records):
    app = application(*topology(how))
    for topic, records in changes(1).items():
        app.append(topic, records)
    app.run(max_records)
    updates, _, dropped = joined(how, taken(changes(1)))
    assert written(app) == updates
    assert app.dropped.total() == dropped > 0
    assert sum(row is None for _, row, _ in updates) > 10


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("first", [LEFT, RIGHT], ids=lambda topic: topic.name)
def test_side_that_comes_late_meets_the_rows_of_the_other(application, how, first):
    app = application(*topology(how))
    records = changes(2)
    second = RIGHT if first is LEFT else LEFT
    for topic in (first, second):
        app.append(topic, records[topic])
        app.run(7)
    updates, _, _ = joined(how, [(topic, record) for topic in (first, second) for record in records[topic]])
    assert written(app) == updates


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("max_records", [7, WHOLE])
def test_rows_at_the_end_are_those_of_a_join_of_data_frames(application, how, max_records):
    app = application(*topology(how, "per_epoch"))
    for topic, records in changes(3).items():
        app.append(topic, records)
    app.run(max_records)
    frames = [frame(records) for records in changes(3).values()]
    merged = frames[0].merge(frames[1], how=how, on="k").sort_values("k")
    expected = [tuple(None if pd.isna(cell) else cell for cell in row) for row in merged.itertuples(index=False)]
    last = {key: row for key, row, _ in written(app)}
    assert [(key, *row) for key, row in sorted(last.items()) if row is not None] == expected
    assert expected


def frame(records):
    """The last value of each key, of which none is a deletion."""
    last = {key[0]: value for key, value, _ in records if key is not None}
    rows = [(key, value[0]) for key, value in last.items() if value is not None]
    return pd.DataFrame(rows, columns=["k", f"v{len(rows)}"]).astype(object)


@pytest.mark.parametrize("how", HOWS)
def test_per_epoch_has_the_last_change_of_each_key_and_none_of_rows_that_came_and_went(application, how):
    app = application(*topology(how, "per_epoch"))
    done, before = [], {}
    for seed in range(3):
        records, start = changes(seed, 10), len(written(app))
        for topic, each in records.items():
            app.append(topic, each)
        app.run()
        earlier = len(joined(how, done)[0])
        done += taken(records)
        updates, rows, _ = joined(how, done)
        last = {key: (key, row, time) for key, row, time in updates[earlier:]}
        expected = [each for each in last.values() if each[1] is not None or each[0] in before]
        assert sorted(written(app)[start:], key=str) == sorted(expected, key=str)
        before = rows


BY_VALUE = Topic("by_value", 1, "v bigint", "w bigint", writer="test-app")
TOTALS = Topic("totals", 1, "v bigint", "n bigint, total bigint", writer="test-app")
OF_VALUES = Store(
    "of_values", 1, "v bigint", TOTALS.value, aggregates=(Agg("n", "count"), Agg("total", "sum", "w", "bigint"))
)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("max_records", [7, WHOLE])
def test_replaced_rows_are_taken_back_from_their_groups(application, how, max_records):
    first = (
        Source(LEFT, ("f",)),
        Source(RIGHT, ("f.right",)),
        Table("f", ROWS, at="left"),
        Table("f.right", OTHERS, at="right"),
        TableTableJoin("f", "f.right", ROWS, OTHERS, how, {"w": "v"}, old=True, at="join"),
        KeyBy("f", {"v": "v"}),
        Select("f", keep=("w",)),
        Sink("f", BY_VALUE, "repartition", keep_null_keys=True, of="table"),
    )
    second = (
        Source(BY_VALUE, ("f",)),
        Aggregate("f", OF_VALUES, of="table"),
        Sink("f", TOTALS, "each_update"),
    )
    app = application(part("a", 1, ((first, {}, {}),), (ROWS, OTHERS)), part("b", 1, ((second, {}, {}),), (OF_VALUES,)))
    for topic, records in changes(4).items():
        app.append(topic, records)
    app.run(max_records)
    _, rows, _ = joined(how, taken(changes(4)))
    counts, sums = Counter(), Counter()
    for v, w in rows.values():
        counts[v] += 1
        sums[v] += w or 0
    assert totals(app) == {key: (count, sums[key]) for key, count in counts.items() if key is not None}


def totals(app):
    """The groups at the end: (rows, total)."""
    found = {}
    for row in app.read(TOTALS):
        found[row["key.v"]] = None if row["_kind"] == Kind.TOMBSTONE else (row["value.n"], row["value.total"] or 0)
    return {key: each for key, each in found.items() if each is not None}


ONCE = {"inner": 1, "left": 1, "outer": 2}
"""Tombstones of a row that is on both sides: an inner join has one, though the change meets no row any more."""


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("max_records", [7, WHOLE])
def test_change_that_comes_on_both_sides_meets_itself(application, how, max_records):
    """A table joined with itself: both sides see the row after the change, and groups have each row once."""
    nodes = (
        Source(LEFT, ("t",)),
        Table("t", ROWS, at="left"),
        Fork("t", ("t", "f", "f.t")),
        TableTableJoin("f", "f.t", ROWS, ROWS, how, {"w": "v"}, old=True, this_made_of=("t",), other_made_of=("t",)),
        Fork("f", ("f", "g")),
        Sink("f", OUT, "each_update"),
        KeyBy("g", {"v": "v"}),
        Select("g", keep=("w",)),
        Sink("g", BY_VALUE, "repartition", of="table"),
    )
    sums = (Source(BY_VALUE, ("f",)), Aggregate("f", OF_VALUES, of="table"), Sink("f", TOTALS, "each_update"))
    app = application(part("a", 1, ((nodes, {}, {}),), (ROWS,)), part("b", 1, ((sums, {}, {}),), (OF_VALUES,)))
    records = changes(8)[LEFT]
    app.append(LEFT, records)
    app.run(max_records)
    rows, updates = {}, []
    for key, value, time in records:
        if key is None:
            continue
        if value is not None:
            updates += [(key[0], value * 2, time)] * 2
        elif key in rows:
            updates += [(key[0], None, time)] * ONCE[how]
        rows = {each: row for each, row in {**rows, key: value}.items() if row is not None}
    assert written(app) == updates
    counts = Counter(value[0] for value in rows.values() if value[0] is not None)
    assert totals(app) == {value: (count, value * count) for value, count in counts.items()}


@pytest.mark.parametrize("max_records", [7, WHOLE])
def test_joined_table_is_joined_again(application, max_records):
    """A chain: what one join gives is a side of the next, with a store of its own."""
    middle = Store("middle", 1, "k string", "v bigint, w bigint")
    out = Topic("chained", 1, "k string", "v bigint, w bigint, x bigint", writer="test-app")
    thirds = Store("thirds", 1, "k string", "v bigint")
    nodes = (
        Source(LEFT, ("f",)),
        Source(RIGHT, ("f.right",)),
        Source(THIRD, ("f.third",)),
        Table("f", ROWS, at="left"),
        Table("f.right", OTHERS, at="right"),
        Table("f.third", thirds, at="third"),
        TableTableJoin("f", "f.right", ROWS, OTHERS, "outer", {"w": "v"}, at="join"),
        Table("f", middle, at="middle"),
        TableTableJoin("f", "f.third", middle, thirds, "left", {"x": "v"}, at="again"),
        Sink("f", out, "each_update"),
    )
    app = application(part("only", 1, ((nodes, {}, {}),), (ROWS, OTHERS, thirds, middle)))
    records = {**changes(5), THIRD: changes(6)[LEFT]}
    for topic, each in records.items():
        app.append(topic, each)
    app.run(max_records)
    _, rows, _ = joined("outer", (each for each in taken(records) if each[0] is not THIRD))
    thirds_last = {key[0]: value for key, value, _ in records[THIRD] if key is not None}
    found = {
        row["key.k"]: None if row["_kind"] == Kind.TOMBSTONE else tuple(row[f"value.{name}"] for name in "vwx")
        for row in app.read(out)
    }
    assert {key: row for key, row in found.items() if row is not None} == {
        key: (*row, (thirds_last.get(key) or (None,))[0]) for key, row in rows.items()
    }


@pytest.mark.slow
def test_random_cuts_clients_and_failures_change_no_row(application):
    app = application(*topology("outer"))
    records = changes(7)
    for topic in (RIGHT, LEFT):
        app.append(topic, records[topic])
    app.run_randomly(7)
    _, rows, _ = joined("outer", taken(records))
    last = {key: row for key, row, _ in written(app)}
    assert {key: row for key, row in last.items() if row is not None} == rows
