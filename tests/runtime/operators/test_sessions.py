"""Sessions beside a computation that takes one record after another, wherever epochs end."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

from headwater.runtime import Materialize, subtopology
from headwater.runtime.engine.operators.aggregations import Aggregate, AggregateSessions
from headwater.runtime.engine.operators.joins import StreamTableJoin
from headwater.runtime.engine.operators.stateless import KeyBy, Select
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import Agg, Store, Topic
from headwater.runtime.ir.windows import SessionWindow
from headwater.runtime.query.stores import StoreQuery
from headwater.runtime.records.types import Kind
from headwater.runtime.state.lmdb.store import LmdbBackend
from headwater.tests.runtime.local.local_application import WHOLE, LocalApplication, Part, part
from headwater.tests.runtime.local.streams_in_cuts import streams_in_cuts
from headwater.tests.sampled import chosen

GAP, GRACE = 10, 15
FACTS = Topic("facts", 1, "k string", "v bigint, x double")
OUT = Topic(
    "out",
    1,
    "k string",
    "n bigint, total bigint, exact double, least bigint, one bigint, latest bigint, every array<bigint>, "
    "different bigint",
    windowed=True,
    writer="test-app",
)
STORE = Store(
    "sessions",
    1,
    "k string",
    OUT.value,
    type="session",
    window=SessionWindow(GAP, GRACE),
    aggregates=(
        Agg("n", "count"),
        Agg("total", "sum", "v", "bigint"),
        Agg("exact", "avg", "x", "double", "double"),
        Agg("least", "min", "v", "bigint"),
        Agg("one", "first", "v", "bigint"),
        Agg("latest", "last", "v", "bigint", options=(True,)),
        Agg("every", "collect_list", "v", "bigint", "array<bigint>"),
        Agg("different", "approx_count_distinct", "v", "bigint"),
    ),
)


def topology(emit="each_update", store=STORE):
    nodes = (Source(FACTS, ("f",)), AggregateSessions("f", store, emit, at="sessions"), Sink("f", OUT, emit))
    return (part("only", 1, ((nodes, {}, {}),), (store,)),)


def facts(seed, records=250):
    """Records whose time wanders, some far back; with null keys and null values."""
    rng = random.Random(seed)
    time, made = 0, []
    for number in range(records):
        time += rng.choice([0, 0, 1, 3, 8, 30])
        back = rng.choice([0, 0, 0, 5, 12, 30, 60])
        value = (rng.choice([None, number % 17]), rng.choice([None, 0.1, 1e300, -1e300, float(number)]))
        key = None if rng.random() < 0.05 else (rng.choice("abc"),)
        made.append((key, None if rng.random() < 0.1 else value, max(0, time - back)))
    return made


def sessions_of(records, gap=GAP, grace=GRACE, retention=GAP + GRACE):
    """(Updates as (key, start, end, result or None), dropped records), one record after the other."""
    live, updates, clock, dropped = {}, [], -1, 0
    for number, (key, value, time) in enumerate(records):
        if key is None:
            dropped += 1
            continue
        before, clock = clock, max(clock, time)
        near = sorted(
            (end, start)
            for of, start, end in live
            if of == key and end >= time - gap and start <= time + gap and end > before - retention
        )
        start, end = min([time, *(s for _, s in near)]), max([time, *(e for e, _ in near)])
        if end < clock - gap - grace:
            dropped += 1
            continue
        joined = sorted([*(row for e, s in near for row in live.pop((key, s, e))), (number, value)], key=lambda r: r[0])
        if start < end:
            updates += [(key[0], s, e, None) for e, s in near]
        live[key, start, end] = joined
        updates.append((key[0], start, end, result([value for _, value in joined])))
    return updates, dropped


def result(values):
    every = [None if value is None else value[0] for value in values]
    known = [each for each in every if each is not None]
    doubles = [value[1] for value in values if value is not None and value[1] is not None]
    return (
        len(values),
        sum(known) if known else None,
        float(sum(map(Fraction, doubles))) / len(doubles) if doubles else None,
        min(known, default=None),
        every[0],
        known[-1] if known else None,
        known,
        len(set(known)),
    )


def bounds_of(row):
    start, end = (round(row[f"key.window_{side}"].timestamp() * 1000) for side in ("start", "end"))
    assert row["_timestamp"] == end
    return row["key.k"], start, end


def written(app):
    """Updates as `sessions_of` gives them; the time of each is the end of its session."""
    found = []
    for row in app.read(OUT):
        values = tuple(row[f"value.{column.split()[0]}"] for column in OUT.value.split(", "))
        found.append((*bounds_of(row), None if row["_kind"] == Kind.TOMBSTONE else values))
    return found


@pytest.mark.parametrize(("seed", "max_records"), streams_in_cuts(4))
def test_updates_are_those_of_one_record_after_another(application, seed, max_records):
    app = application(*topology())
    app.append(FACTS, facts(seed))
    app.run(max_records)
    updates, dropped = sessions_of(facts(seed))
    assert written(app) == updates
    assert app.dropped.total() == dropped
    assert any(each[3] is None for each in updates)
    assert dropped > 10


@pytest.mark.parametrize("max_records", chosen((1, 7, WHOLE), (7, WHOLE)))
def test_longer_retention_finds_closed_sessions_until_they_expire(application, max_records):
    store = replace(STORE, retention_ms=200)
    app = application(*topology(store=store))
    app.append(FACTS, facts(26, 100))
    app.run(max_records)
    updates, dropped = sessions_of(facts(26, 100), retention=200)
    assert written(app) == updates != sessions_of(facts(26, 100))[0]
    assert app.dropped.total() == dropped


def test_records_that_are_late_by_far_more_than_the_gap_find_their_sessions(application):
    grace, far = 10_000_000, 9_000_000
    rng = random.Random(11)
    records = [(key, value, time + rng.choice([0, 0, far])) for key, value, time in facts(11)]
    app = application(*topology(store=replace(STORE, window=SessionWindow(GAP, grace))))
    app.append(FACTS, records)
    app.run(7)
    updates, dropped = sessions_of(records, grace=grace, retention=GAP + grace)
    assert written(app) == updates
    assert app.dropped.total() == dropped
    assert len({each[1] // far for each in updates}) == 2


def test_per_epoch_writes_the_last_row_of_each_session_once_and_none_that_came_and_went(application):
    app = application(*topology("per_epoch"))
    app.append(FACTS, facts(6))
    app.run()
    last = {each[:3]: each for each in sessions_of(facts(6))[0]}
    assert sorted(written(app)) == sorted(each for each in last.values() if each[3] is not None)
    app.append(FACTS, [(("a",), (1, 1.0), 10_000), (("a",), (2, 2.0), 10_008), (("b",), (3, 3.0), 9_999)])
    app.run()
    ends = [(each[:3], each[3] and each[3][0]) for each in written(app)[-2:]]
    assert ends == [(("a", 10_000, 10_008), 2), (("b", 9_999, 9_999), 1)]
    app.append(FACTS, [(("a",), (1, 1.0), 10_009)])
    app.run()
    assert [(each[:3], each[3] and each[3][0]) for each in written(app)[-2:]] == [
        (("a", 10_000, 10_008), None),
        (("a", 10_000, 10_009), 3),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_cuts_clients_and_failures_change_nothing(application, seed):
    app = application(*topology(), log=("embedded", "sparse", "embedded")[seed])
    app.append(FACTS, facts(seed))
    app.run_randomly(seed, moving=True)
    assert written(app) == sessions_of(facts(seed))[0]


COUNTS = Topic("counts", 1, "n bigint", "sessions bigint", writer="test-app")
BY_COUNT = Topic("by_count", 1, "n bigint", "v bigint", writer="test-app")
OF_COUNTS = Store("of_counts", 1, "n bigint", "sessions bigint", aggregates=(Agg("sessions", "count"),))


@pytest.mark.parametrize("max_records", chosen((1, 7, WHOLE), (7, WHOLE)))
def test_deleted_sessions_are_taken_back_from_the_groups_of_their_rows(application, max_records):
    """The table of sessions is counted by their number of records: each update has the row that it replaces."""
    first = (
        Source(FACTS, ("f",)),
        AggregateSessions("f", STORE, old=True, at="sessions"),
        Select("f", {"v": "total"}, keep=("n",)),
        KeyBy("f", {"n": "n"}),
        Select("f", keep=("v",)),
        Sink("f", BY_COUNT, "repartition", of="table"),
    )
    second = (
        Source(BY_COUNT, ("f",)),
        Aggregate("f", OF_COUNTS, of="table"),
        Sink("f", COUNTS, "each_update"),
    )
    app = application(part("a", 1, ((first, {}, {}),), (STORE,)), part("b", 1, ((second, {}, {}),), (OF_COUNTS,)))
    app.append(FACTS, facts(7, 100))
    app.run(max_records)
    there = {}
    for key, start, end, values in sessions_of(facts(7, 100))[0]:
        there[key, start, end] = values
    expected = Counter(values[0] for values in there.values() if values is not None)
    found = {row["key.n"]: row["value.sessions"] for row in app.read(COUNTS)}
    assert {n: count for n, count in found.items() if count} == expected


@pytest.mark.parametrize("max_records", [1, 7, WHOLE])
def test_columns_over_aggregates_are_stored_beside_the_state(tmp_path, max_records):
    out = Topic("out", 1, "k string", "each bigint", windowed=True, writer="test-app")
    store = replace(STORE, value="n bigint, total bigint, each bigint", aggregates=STORE.aggregates[:2])

    def steps(rows):
        rows = rows.process(Source(FACTS, "f"), AggregateSessions("f", store, at=3))
        rows = rows.with_columns("f", {"each bigint": "total div n"})
        return rows.process(Materialize("f", store), Sink("f", out, "each_update"))

    app = LocalApplication(tmp_path, [Part(subtopology(0, "f", file="t.yml")(steps))])
    app.append(FACTS, facts(8, 100))
    app.run(max_records)
    expected = [
        (k, s, e, None if values is None or values[1] is None else values[1] // values[0], values is None)
        for k, s, e, values in sessions_of(facts(8, 100))[0]
    ]
    found = [(*bounds_of(row), row["value.each"], row["_kind"] == Kind.TOMBSTONE) for row in app.read(out)]
    assert found == expected


@pytest.mark.parametrize("max_records", [1, WHOLE])
def test_store_shows_the_sessions_that_have_not_expired(application, max_records):
    app = application(*topology())
    app.append(FACTS, [(key, value, time) for key, value, time in facts(9, 100) if value is not None])
    app.run(max_records)
    records = [each for each in facts(9, 100) if each[1] is not None]
    there = {each[:3]: each[3] for each in sessions_of(records)[0]}
    clock = max(time for key, _, time in records if key is not None)
    expected = {at: row[0] for at, row in there.items() if row is not None and at[2] > clock - GAP - GRACE}
    query = StoreQuery("test-app", "only", STORE, app.log, app.path / "state", LmdbBackend().open_to_read)
    rows = list(query.rows())
    assert {(r.key["k"], r.key["window_start"], r.key["window_end"]): r.value["n"] for r in rows} == expected
    assert all(row.timestamp == row.key["window_end"] for row in rows)
    (first, *_) = sorted(expected, key=lambda each: each[1])
    bounded = list(query.rows({"k": first[0]}, first[1], first[1] + 1))
    assert [(r.key["k"], r.key["window_start"], r.key["window_end"]) for r in bounded] == [first]


ASKED = Topic("asked", 1, "k string", "what bigint", windowed=True)
ANSWERED = Topic("answered", 1, "k string", "what bigint, found bigint", windowed=True, writer="test-app")


@pytest.mark.parametrize("max_records", chosen((1, 7, WHOLE), (7, WHOLE)))
def test_join_finds_the_row_of_the_session_with_these_bounds(application, max_records):
    store = replace(STORE, retention_ms=1_000_000)
    nodes = (
        Source(FACTS, ("f",)),
        Source(ASKED, ("asked",)),
        AggregateSessions("f", store, at="sessions"),
        StreamTableJoin("asked", "f", store, "left", {"found": "n"}, at="join"),
        Sink("asked", ANSWERED),
    )
    app = application(part("only", 1, ((nodes, {}, {}),), (store,)))
    updates = sessions_of(facts(10, 100), retention=1_000_000)[0]
    there = {each[:3]: each[3] and each[3][0] for each in updates}
    asked = [*there, ("a", 0, 1_000_000), ("nobody", *updates[0][1:3])]
    app.append(FACTS, facts(10, 100))
    last = max(time for _, _, time in facts(10, 100))
    keys = [*((k, start * 1000, end * 1000) for k, start, end in asked), None]  # timestamps are microseconds
    app.append(ASKED, [(key, (number,), last + 1) for number, key in enumerate(keys)])
    app.run(max_records)
    found = [row["value.found"] for row in app.read(ANSWERED)]
    assert found == [*(there.get(each) for each in asked), None]
    assert None in there.values()
