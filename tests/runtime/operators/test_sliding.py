"""Sliding windows beside a computation that takes one record after another, wherever epochs end."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

from headwater.runtime import Materialize, subtopology
from headwater.runtime.engine.operators.aggregations import Aggregate, AggregateSliding, AggregateWith, Reduce
from headwater.runtime.engine.operators.stateless import KeyBy, Select
from headwater.runtime.engine.operators.tables import FinalResults
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.functions import PythonCode, PythonFunction
from headwater.runtime.ir.topology import Agg, Store, Topic
from headwater.runtime.ir.windows import SlidingWindow
from headwater.runtime.query.stores import StoreQuery
from headwater.runtime.records.types import Kind
from headwater.runtime.state.lmdb.store import LmdbBackend
from headwater.tests.runtime.local.local_application import WHOLE, LocalApplication, Part, part
from headwater.tests.runtime.local.streams_in_cuts import streams_in_cuts
from headwater.tests.sampled import chosen

DIFFERENCE, GRACE = 10, 15
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
    "slides",
    1,
    "k string",
    OUT.value,
    type="window",
    window=SlidingWindow(DIFFERENCE, GRACE),
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
    nodes = (Source(FACTS, ("f",)), AggregateSliding("f", store, emit, at="slides"), Sink("f", OUT, emit))
    return (part("only", 1, ((nodes, {}, {}),), (store,)),)


def facts(seed, records=250, start=0, back=(0, 0, 0, 1, 2, 5, 12, 20, 24, 25, 26, 60)):
    """Records whose time wanders, some far back; with null keys and null values."""
    rng = random.Random(seed)
    time, made = start, []
    for number in range(records):
        time += rng.choice([0, 0, 1, 1, 3, 8, 30 if rng.random() < 0.3 else 0])
        value = (rng.choice([None, number % 17]), rng.choice([None, 0.1, 1e300, -1e300, float(number)]))
        key = None if rng.random() < 0.05 else (rng.choice("abc"),)
        made.append((key, None if rng.random() < 0.1 else value, max(0, time - rng.choice(back))))
    return made


class Model:
    """One record after another. `rows`: (key, start) -> (values, timestamp); `updates`: (key, start, values, time)."""

    def __init__(self, difference=DIFFERENCE, grace=GRACE, retention=None):
        self.difference, self.grace = difference, grace
        self.retention = retention or max(2 * difference, 1) + grace
        self.rows, self.updates, self.dropped, self.clock, self.latest = {}, [], 0, -1, -1
        self.final = []

    def of(self, records):
        for key, value, time in records:
            if key is None or value is None:
                self.dropped += 1
                continue
            before, self.clock = self.clock, max(self.clock, time)
            self.record(key[0], value, time)
            closed = [
                each for each in self.rows if self.closed(each[1], self.clock) and not self.closed(each[1], before)
            ]
            self.final += [(key, start, *self.rows[key, start]) for start, key in sorted((s, k) for k, s in closed)]
        return self

    def closed(self, start, clock):
        return start + self.difference < clock - self.grace

    def record(self, key, value, time):
        if self.closed(time, self.clock):
            self.dropped += 1
            return
        visible = self.latest - self.retention
        there = {
            start: row
            for (of, start), row in self.rows.items()
            if of == key and max(visible + 1, time - 2 * self.difference, 0) <= start <= time + 1
        }
        if time < self.difference:
            self.early(key, value, time, there)
            return
        over = sorted((start for start in there if start <= time <= start + self.difference), reverse=True)
        ended = max((start for start in there if start + self.difference < time), default=None)
        for start in over:
            self.put(key, start, there[start], value, time)
        at_end = time - self.difference in there
        previous = there[time - self.difference][1] if at_end else -1
        if at_end and previous >= time:
            return
        if ended is not None:
            previous = there[ended][1]
        if previous >= max(0, time - self.difference - 1) and previous + 1 not in there:
            self.put(key, previous + 1, ([], -1), value, time)
        if not at_end:
            reaches = ended is not None and previous >= time - self.difference
            self.put(key, time - self.difference, there[ended] if reaches else ([], -1), value, time)
        inside = [start for start in over if start > time - self.difference]
        if time + 1 not in there and inside and there[inside[0]][1] > time:
            self.copy(key, time + 1, there[inside[0]])

    def early(self, key, value, time, there):
        """All records before the difference are in the window that starts at 0."""
        inside = sorted(start for start in there if 0 < start <= time)
        for start in inside:
            self.put(key, start, there[start], value, time)
        like = there[inside[-1]] if inside else there.get(0)
        if time + 1 not in there and like is not None and like[1] > time:
            self.copy(key, time + 1, like)
        if 0 in there and there[0][1] < time and there[0][1] + 1 not in there:
            self.put(key, there[0][1] + 1, ([], -1), value, time)
        self.put(key, 0, there.get(0, ([], -1)), value, time)

    def put(self, key, start, row, value, time):
        if self.closed(start, self.clock):
            self.dropped += 1
        else:
            self.copy(key, start, ([*row[0], value], max(row[1], time)))

    def copy(self, key, start, row):
        self.rows[key, start] = row
        self.latest = max(self.latest, start)
        self.updates.append((key, start, *row))


def result(values):
    every = [value[0] for value in values]
    known = [each for each in every if each is not None]
    doubles = [value[1] for value in values if value[1] is not None]
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


def results(updates):
    return [(key, start, result(values), time) for key, start, values, time in updates]


def written(app, difference=DIFFERENCE, topic=OUT):
    """Updates as (key, start, results, time); windows reach from their start as far as the difference."""
    found = []
    for row in app.read(topic):
        start, end = (round(row[f"key.window_{side}"].timestamp() * 1000) for side in ("start", "end"))
        assert end == start + difference
        assert row["_kind"] == Kind.VALUE
        values = tuple(row[f"value.{column.split()[0]}"] for column in topic.value.split(", "))
        found.append((row["key.k"], start, values, row["_timestamp"]))
    return found


@pytest.mark.parametrize(("seed", "max_records"), streams_in_cuts(6))
def test_updates_are_those_of_one_record_after_another(application, seed, max_records):
    app = application(*topology())
    records = facts(seed, start=(0, 1000)[seed % 2])
    app.append(FACTS, records)
    app.run(max_records)
    model = Model().of(records)
    assert written(app) == results(model.updates)
    assert app.dropped.total() == model.dropped
    assert model.dropped > 30


EXTENTS = ((0, 0), (0, 4), (1, 0), (3, 0), (7, 2), (2, 40), (40, 3))


@pytest.mark.parametrize(
    ("max_records", "difference", "grace"),
    chosen(
        [(most, *extent) for most in (7, WHOLE) for extent in EXTENTS],
        [(7, 0, 4), (7, 40, 3), *((WHOLE, *extent) for extent in EXTENTS)],
    ),
)
def test_any_difference_and_grace_give_what_one_record_after_another_gives(application, difference, grace, max_records):
    app = application(*topology(store=replace(STORE, window=SlidingWindow(difference, grace))))
    records = facts(difference, 400, start=5)
    app.append(FACTS, records)
    app.run(max_records)
    model = Model(difference, grace).of(records)
    assert written(app, difference) == results(model.updates)
    assert app.dropped.total() == model.dropped


@pytest.mark.parametrize("max_records", [1, 7, WHOLE])
def test_windows_of_records_in_order_hold_the_records_between_their_bounds(application, max_records):
    records = [each for each in facts(3, 100, start=50, back=(0,)) if None not in each[:2]]
    app = application(*topology())
    app.append(FACTS, records)
    app.run(max_records)
    expected = {}
    for key in "abc":
        own = [(value, time) for of, value, time in records if of == (key,)]
        for start in {bound for _, time in own for bound in (time - DIFFERENCE, time + 1)}:
            inside = [(value, time) for value, time in own if start <= time <= start + DIFFERENCE]
            if inside:
                expected[key, start] = result([value for value, _ in inside]), inside[-1][1]
    assert {each[:2]: each[2:] for each in written(app)} == expected


def test_longer_retention_finds_windows_that_are_closed(application):
    records = facts(5, start=500)
    app = application(*topology(store=replace(STORE, retention_ms=200)))
    app.append(FACTS, records)
    app.run(7)
    model = Model(retention=200).of(records)
    assert written(app) == results(model.updates)
    assert app.dropped.total() == model.dropped != Model().of(records).dropped


@pytest.mark.parametrize("max_records", [7, WHOLE])
def test_per_epoch_writes_the_last_row_of_each_window_that_has_changed(application, max_records):
    app = application(*topology("per_epoch"))
    app.append(FACTS, facts(6))
    app.run(max_records)
    last = {each[:2]: each for each in results(Model().of(facts(6)).updates)}
    found = written(app)
    assert {each[:2]: each for each in found} == last
    assert max_records == 7 or len(found) == len(last)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_cuts_clients_and_failures_change_nothing(application, seed):
    app = application(*topology(), log=("embedded", "sparse", "embedded")[seed])
    app.append(FACTS, facts(seed))
    app.run_randomly(seed, moving=True)
    assert written(app) == results(Model().of(facts(seed)).updates)


@pytest.mark.parametrize(("seed", "max_records"), streams_in_cuts(3))
def test_final_rows_come_out_once_when_their_windows_close(application, seed, max_records):
    nodes = (Source(FACTS, ("f",)), AggregateSliding("f", STORE), FinalResults("f", STORE), Sink("f", OUT))
    app = application(part("only", 1, ((nodes, {}, {}),), (STORE,)))
    records = facts(seed, start=(0, 400)[seed % 2])
    app.append(FACTS, records)
    app.run(max_records)
    model = Model().of(records)
    assert written(app) == results(model.final)
    assert len(model.final) > 100


@pytest.mark.parametrize("max_records", [1, 7, WHOLE])
def test_columns_over_aggregates_are_stored_beside_the_state(tmp_path, max_records):
    out = Topic("out", 1, "k string", "n bigint, every array<bigint>, twice bigint", windowed=True, writer="test-app")
    store = replace(STORE, value=out.value, aggregates=(STORE.aggregates[0], STORE.aggregates[6]))

    def steps(rows):
        rows = rows.process(Source(FACTS, "f"), AggregateSliding("f", store))
        rows = rows.with_columns("f", {"twice bigint": "n * 2"})
        return rows.process(Materialize("f", store), Sink("f", out, "each_update"))

    app = LocalApplication(tmp_path, [Part(subtopology(0, "f", file="t.yml")(steps))])
    app.append(FACTS, facts(8, 100))
    app.run(max_records)
    updates = results(Model().of(facts(8, 100)).updates)
    assert written(app, topic=out) == [(k, s, (v[0], v[6], v[0] * 2), time) for k, s, v, time in updates]


COUNTS = Topic("counts", 1, "n bigint", "windows bigint", writer="test-app")
BY_COUNT = Topic("by_count", 1, "n bigint", "v bigint", writer="test-app")
OF_COUNTS = Store("of_counts", 1, "n bigint", "windows bigint", aggregates=(Agg("windows", "count"),))


@pytest.mark.parametrize("max_records", chosen((1, 7, WHOLE), (7, WHOLE)))
def test_groups_of_rows_take_back_the_rows_that_are_replaced(application, max_records):
    """The table of windows is counted by their number of records: each update has the row that it replaces."""
    first = (
        Source(FACTS, ("f",)),
        AggregateSliding("f", STORE, old=True),
        Select("f", {"v": "total"}, keep=("n",)),
        KeyBy("f", {"n": "n"}),
        Select("f", keep=("v",)),
        Sink("f", BY_COUNT, "repartition", of="table"),
    )
    second = (Source(BY_COUNT, ("f",)), Aggregate("f", OF_COUNTS, of="table"), Sink("f", COUNTS, "each_update"))
    app = application(part("a", 1, ((first, {}, {}),), (STORE,)), part("b", 1, ((second, {}, {}),), (OF_COUNTS,)))
    app.append(FACTS, facts(7, 100))
    app.run(max_records)
    last = {each[:2]: len(each[2]) for each in Model().of(facts(7, 100)).updates}
    found = {row["key.n"]: row["value.windows"] for row in app.read(COUNTS)}
    assert {n: count for n, count in found.items() if count} == Counter(last.values())


@pytest.mark.parametrize("max_records", [1, WHOLE])
def test_store_shows_the_windows_that_have_not_expired(application, max_records):
    app = application(*topology())
    app.append(FACTS, facts(9, 100))
    app.run(max_records)
    model = Model().of(facts(9, 100))
    oldest = model.clock - 2 * DIFFERENCE - GRACE + 1
    expected = {at: len(values) for at, (values, _) in model.rows.items() if at[1] >= oldest}
    query = StoreQuery("test-app", "only", STORE, app.log, app.path / "state", LmdbBackend().open_to_read)
    rows = list(query.rows())
    assert {(row.key["k"], row.key["window_start"]): row.value["n"] for row in rows} == expected
    assert all(row.key["window_end"] == row.key["window_start"] + DIFFERENCE for row in rows)
    key, start = max(expected)
    bounded = list(query.rows({"k": key}, start, start + 1))
    assert [(row.key["k"], row.key["window_start"]) for row in bounded] == [(key, start)]


def test_sum_that_overflows_fails_for_the_record_that_makes_it(application):
    app = application(*topology())
    app.append(FACTS, [(("a",), (2**62, 1.0), 100), (("b",), (2**62, 1.0), 101), (("a",), (2**62, 1.0), 103)])
    with pytest.raises(Exception, match="sum"):
        app.run()


def test_window_of_no_difference_holds_the_records_of_a_moment(application):
    app = application(*topology(store=replace(STORE, window=SlidingWindow(0, 0))))
    app.append(FACTS, [(("a",), (1, None), 100), (("a",), (2, None), 100), (("a",), (3, None), 101)])
    app.run()
    assert [(start, values[:2], time) for _, start, values, time in written(app, 0)] == [
        (100, (1, 1), 100),
        (100, (2, 3), 100),
        (101, (1, 3), 101),
    ]


CODE = PythonCode(
    (
        (
            "functions/facts.py",
            """
def digits(old, new):
    if new.v == 13:
        return None
    if new.v == 14:
        raise ValueError(f"{new.v} behind {old.v}")
    return {"v": (old.v or 0) * 20 + (new.v or 0) + 1, "x": new.x}


class Listing:
    def initial(self):
        return {"listed": ""}

    def add(self, state, key, value):
        return {"listed": f"{state.listed}{key.k}{value.v} "}
""",
        ),
    )
)
CALLED = {
    "reduce": (Reduce, PythonFunction("functions.facts:digits", CODE), FACTS.value),
    "class": (AggregateWith, PythonFunction("functions.facts:Listing", CODE), "listed string"),
}


def folding(how, emit="each_update"):
    kind, function, value = CALLED[how]
    out = replace(OUT, value=value)
    store = replace(STORE, value=value, aggregates=())
    nodes = (Source(FACTS, ("f",)), kind("f", store, function, emit, at="slides"), Sink("f", out, emit))
    return part("only", 1, ((nodes, {}, {}),), (store,)), out


def folded(how, key, values):
    if how == "class":
        return ("".join(f"{key}{v} " for v, _ in values),)
    found = values[0][0]
    for v, _ in values[1:]:
        found = (found or 0) * 20 + (v or 0) + 1
    return found, values[-1][1]


def few(seed):
    """Facts of whose windows none holds so many that a bigint is too small."""
    return [(key, value and (value[0] and value[0] % 13, value[1]), time) for key, value, time in facts(seed, 120)]


@pytest.mark.parametrize("how", CALLED)
@pytest.mark.parametrize("max_records", [1, 7, WHOLE])
def test_functions_are_called_for_each_record_of_a_window_in_order(application, how, max_records):
    made, out = folding(how)
    app = application(made)
    app.append(FACTS, few(2))
    app.run(max_records)
    model = Model().of(few(2))
    assert written(app, topic=out) == [(k, s, folded(how, k, values), time) for k, s, values, time in model.updates]
    assert app.dropped.total() == model.dropped


def test_reduced_windows_are_written_once_an_epoch(application):
    made, out = folding("reduce", "per_epoch")
    app = application(made)
    app.append(FACTS, few(4))
    app.run()
    last = {(k, s): (k, s, folded("reduce", k, values), time) for k, s, values, time in Model().of(few(4)).updates}
    assert {each[:2]: each for each in written(app, topic=out)} == last


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (13, "functions.facts:digits returned None, which deletes a row; that of a sliding window stays"),
        (14, "functions.facts:digits raised ValueError: 14 behind 1"),
    ],
)
def test_function_that_fails_names_the_record(application, value, cause):
    app = application(folding("reduce")[0])
    app.append(FACTS, [(("a",), (1, None), 100), (("a",), (value, None), 103)])
    assert f"record facts[0]@1 cannot be processed: {cause}" in app.attempt(app.settings()).error
