"""Joins of two streams beside a computation that takes one record after another, wherever epochs end."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pandas as pd
import pytest

from headwater.runtime.engine.operators.joins import StreamJoin
from headwater.runtime.engine.operators.stateless import Fork
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import Store, Topic
from headwater.runtime.ir.windows import JoinWindow
from headwater.runtime.query.stores import StoreQuery
from headwater.runtime.state.lmdb.store import LmdbBackend
from headwater.tests.runtime.local.local_application import WHOLE, part
from headwater.tests.sampled import chosen

LEFT = Topic("left", 1, "k string", "l bigint")
RIGHT = Topic("right", 1, "k string", "r bigint")
OUT = Topic("out", 1, "k string", "l bigint, r bigint", writer="test-app")
WINDOWS = [JoinWindow(10, 10, 5), JoinWindow(0, 20, 0), JoinWindow(15, 0, 30), JoinWindow(0, 0, 0)]
SEGMENT = 60_000


def side(name, value, window, **more):
    return Store(name, 1, "k string", value, type="window", window=window, **more)


def join(window, how="inner", **more):
    waiting = Store("waiting", 1, "of_this boolean, record_time timestamp, k string, record_number bigint", OUT.value)
    this, other = side("this", "l bigint", window, **more), side("other", "r bigint", window, **more)
    return StreamJoin("f", "g", this, other, how, {"r": "r"}, None if how == "inner" else waiting, at="join")


def topology(node, right=RIGHT):
    nodes = (Source(LEFT, "f"), Source(right, "g"), node, Sink("f", OUT))
    return (part("only", 1, ((nodes, {}, {}),), node.stores),)


def records(seed, count=120, keys="abc", step=(0, 0, 1, 2, 7), first=0):
    """Records whose time wanders, some far back; with null keys, null values and equal ones."""
    rng = random.Random(seed)
    time, made = 0, []
    for number in range(first, first + count):
        time += rng.choice(step) if rng.random() < 0.97 else 60
        back = rng.choice([0, 0, 0, 0, 3, 12, 40])
        key = None if rng.random() < 0.05 else (rng.choice(keys),)
        made.append((key, None if rng.random() < 0.07 else (number,), max(0, time - back)))
        if rng.random() < 0.1:
            made.append(made[-1])
    return made


def taken(left, right):
    """Both in the order in which a task takes them: the earlier head first, the left one of equal ones."""
    left, right, found = list(left), list(right), []
    while left or right:
        of_left = bool(left) and (not right or left[0][2] <= right[0][2])
        found.append((of_left, *(left if of_left else right).pop(0)))
    return found


class Model:
    """Kafka's rules, one record after the other. `retention`: of both stores."""

    def __init__(self, window, how, retention=None):
        self.window, self.how = window, how
        self.retention = retention or window.kept_ms
        self.clock, self.dropped, self.results = -1, 0, []
        self.stored = {True: [], False: []}
        self.clocks = {True: -1, False: -1}
        self.waiting = []

    def keeps(self, of_left):
        return self.how == "outer" or (self.how == "left" and of_left)

    def give(self, key, left, right, time, of_left):
        self.results.append((key and key[0], left, right, time) if of_left else (key and key[0], right, left, time))

    def take(self, of_left, key, value, time):
        self.clock = max(self.clock, time)
        if value is None or (key is None and not self.keeps(of_left)):
            self.dropped += 1
            return
        if key is None:
            self.give(None, value[0], None, time, of_left)
            return
        if time == self.clock:
            self.ripe()
        before, after = self.window.before_ms, self.window.after_ms
        back, ahead = (before, after) if of_left else (after, before)
        others = [
            (at, number, found)
            for number, (whose, at, found) in enumerate(self.stored[not of_left])
            if whose == key and time - back <= at <= time + ahead and at > self.clocks[not of_left] - self.retention
        ]
        for at, _, found in sorted(others):
            self.waiting = [w for w in self.waiting if (w[0], w[1], w[2]) != (at, not of_left, key)]
            self.give(key, value[0], found[0], max(time, at), of_left)
        if not others and self.keeps(of_left):
            if time + ahead < self.clock:
                self.give(key, value[0], None, time, of_left)
            else:
                self.waiting.append((time, of_left, key, value))
        self.clocks[of_left] = max(self.clocks[of_left], time)
        length = max(self.retention // 2, SEGMENT)
        if time // length < (self.clocks[of_left] - self.retention) // length:
            self.dropped += 1
        else:
            self.stored[of_left].append((key, time, value))

    def ripe(self):
        def is_ripe(waiting):
            time, of_left, *_ = waiting
            ahead = self.window.after_ms if of_left else self.window.before_ms
            return self.clock > time + ahead + self.window.grace_ms

        for time, of_left, key, value in sorted(filter(is_ripe, self.waiting), key=lambda each: each[:3]):
            self.give(key, value[0], None, time, of_left)
        self.waiting = [each for each in self.waiting if not is_ripe(each)]


def expected(left, right, window, how, retention=None):
    model = Model(window, how, retention)
    for each in taken(left, right):
        model.take(*each)
    return model


def written(app):
    return [(row["key.k"], row["value.l"], row["value.r"], row["_timestamp"]) for row in app.read(OUT)]


HOWS = ("inner", "left", "outer")
JOINS_IN_CUTS = chosen(
    [(window, how, most) for window in WINDOWS for how in HOWS for most in (1, 7, WHOLE)],
    [
        (WINDOWS[0], "outer", 1),
        *((window, "outer", 7) for window in WINDOWS),
        *((window, how, WHOLE) for window in WINDOWS for how in HOWS),
    ],
)
"""An outer join has the results of the others, too: it is enough in short epochs, which take longest."""


@pytest.mark.parametrize(("window", "how", "max_records"), JOINS_IN_CUTS, ids=str)
def test_results_are_those_of_one_record_after_another(application, window, how, max_records):
    left, right = records(1), records(2, first=1000)
    app = application(*topology(join(window, how)))
    app.append(LEFT, left)
    app.append(RIGHT, right)
    app.run(max_records)
    model = expected(left, right, window, how)
    assert written(app) == model.results
    assert app.dropped.total() == model.dropped


@pytest.mark.parametrize("max_records", [1, WHOLE])
def test_few_records_find_theirs_among_many_of_other_keys(application, max_records):
    """Their keys begin with each other's; where few are looked for among many, only those are read."""
    keys = ["a", "ab", "a\x00b", *(f"a{number}" for number in range(40))]
    right = [((keys[number % len(keys)],), (number,), number // 10) for number in range(430)]
    left = [((key,), (number,), 42 - number) for number, key in enumerate(keys[:5])]
    app = application(*topology(join(WINDOWS[0], "left")))
    app.append(RIGHT, right)
    app.run(WHOLE)
    app.append(LEFT, left)
    app.run(max_records)
    model = Model(WINDOWS[0], "left")
    for of_left, some in ((False, right), (True, left)):
        for each in some:
            model.take(of_left, *each)
    assert written(app) == model.results
    assert len(model.results) > 10


@pytest.mark.parametrize(("max_records", "how"), chosen(product((1, WHOLE), HOWS[:2]), [(1, "left"), (WHOLE, "inner")]))
def test_longer_retention_lets_late_records_find_more(application, how, max_records):
    left, right = records(3, 60), records(4, 60, first=1000)
    app = application(*topology(join(WINDOWS[0], how, retention_ms=200)))
    app.append(LEFT, left)
    app.append(RIGHT, right)
    app.run(max_records)
    model = expected(left, right, WINDOWS[0], how, retention=200)
    assert written(app) == model.results != expected(left, right, WINDOWS[0], how).results


@pytest.mark.parametrize("max_records", [1, WHOLE])
def test_records_of_far_segments_are_dropped_and_counted_as_kafkas_stores_do(application, max_records):
    left, right = records(5, 60, step=(0, 1, 40_000)), records(6, 60, step=(0, 1, 40_000), first=1000)
    left += [(("a",), (number,), 5) for number in range(3)]
    app = application(*topology(join(WINDOWS[0], "outer")))
    app.append(LEFT, left)
    app.append(RIGHT, right)
    app.run(max_records)
    model = expected(left, right, WINDOWS[0], "outer")
    assert written(app) == model.results
    assert app.dropped.total() == model.dropped
    assert app.dropped["join:late"] == 3


def self_join():
    nodes = (
        Source(LEFT, "s"),
        Fork("s", ("f", "g")),
        replace(join(WINDOWS[0]), other_store=side("other", "l bigint", WINDOWS[0]), values={"r": "l"}),
        Sink("f", OUT),
    )
    return (part("only", 1, ((nodes, {}, {}),), nodes[2].stores),)


@pytest.mark.parametrize("max_records", [1, 7, WHOLE])
def test_record_of_a_self_join_is_taken_once_for_each_side(application, max_records):
    left = records(7, 60)
    app = application(*self_join())
    app.append(LEFT, left)
    app.run(max_records)
    model = Model(WINDOWS[0], "inner")
    for each in left:
        model.take(True, *each)
        model.take(False, *each)
    assert written(app) == model.results
    assert app.dropped.total() == model.dropped


@pytest.mark.parametrize(
    ("max_records", "how"), chosen(product((1, WHOLE), HOWS[::2]), [(1, "outer"), (WHOLE, "inner")])
)
def test_stores_show_the_records_that_can_be_found_and_those_that_wait(application, how, max_records):
    left, right = records(8, 60), records(9, 60, first=1000)
    node = join(JoinWindow(10, 20, 15), how)
    app = application(*topology(node))
    app.append(LEFT, left)
    app.append(RIGHT, right)
    app.run(max_records)
    model = expected(left, right, JoinWindow(10, 20, 15), how)

    def rows(store, *bounds):
        query = StoreQuery("test-app", "only", store, app.log, app.path / "state", LmdbBackend().open_to_read)
        return list(query.rows(*bounds))

    for store, of_left, column in ((node.this_store, True, "l"), (node.other_store, False, "r")):
        shown = sorted((r.key["window_start"], r.key["k"], r.value[column]) for r in rows(store))
        visible = model.clocks[of_left] - model.retention
        kept = [(time, key[0], value[0]) for key, time, value in model.stored[of_left] if time > visible]
        assert shown == sorted(kept) != []
        time, key, _ = kept[0]
        assert {r.key["window_start"] for r in rows(store, {"k": key}, time, time + 1)} == {time}
    if node.unmatched is not None:
        waiting = [
            (r.key["of_this"], r.key["k"], r.value["l"], r.value["r"], r.timestamp) for r in rows(node.unmatched)
        ]
        assert sorted(waiting, key=str) == sorted(
            (
                (of_left, k[0], v[0] if of_left else None, None if of_left else v[0], t)
                for t, of_left, k, v in model.waiting
            ),
            key=str,
        )
        assert waiting


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_cuts_clients_and_failures_change_nothing(application, seed):
    left, right = records(seed, 200), records(seed + 100, 200, first=1000)
    app = application(*topology(join(WINDOWS[0], "outer")), log=("embedded", "sparse", "embedded")[seed])
    app.append(LEFT, left)
    app.append(RIGHT, right)
    app.run_randomly(seed, moving=True)
    assert written(app) == expected(left, right, WINDOWS[0], "outer").results


def test_side_that_comes_later_finds_what_waits(application):
    """One input is held back: what came first waits for it, whatever epochs there were."""
    app = application(*topology(join(WINDOWS[0], "left")))
    app.append(LEFT, [(("a",), (1,), 10), (("b",), (2,), 11), (("a",), (3,), 40)])
    app.run(1)
    app.append(RIGHT, [(("b",), (4,), 15), (("a",), (5,), 45), (("c",), (6,), 66)])
    app.run(1)
    assert written(app) == [("a", 1, None, 10), ("b", 2, None, 11), ("a", 3, 5, 45)]


UNHURRIED = JoinWindow(50, 60, 5_000)
"""Waits so long that no record of `records` comes too late, nor alone at once."""


def frame(records, value):
    """The records with a value."""
    rows = [(key and key[0], cell[0], time) for key, cell, time in records if cell is not None]
    return pd.DataFrame(rows, columns=["k", value, "time"]).reset_index(names=f"of_{value}")


def batch_join(left, right, window, how):
    """The join of the data frames of both, as (key, left, right, time) in any order."""
    this, other = frame(left, "l"), frame(right, "r")
    both = this.dropna(subset="k").merge(other.dropna(subset="k"), on="k", suffixes=("", "_r"))
    pairs = both[both.time_r.between(both.time - window.before_ms, both.time + window.after_ms)]
    found = [*zip(pairs.k, pairs.l, pairs.r, pairs[["time", "time_r"]].max(axis=1), strict=True)]
    for kept, side in ((("left", "outer"), this), (("outer",), other)):
        if how in kept:
            name = side.columns[2]
            alone = side[~side[f"of_{name}"].isin(pairs[f"of_{name}"])]
            values = [(value, None) if name == "l" else (None, value) for value in alone[name]]
            found += [(k, *value, time) for k, value, time in zip(alone.k, values, alone.time, strict=True)]
    return sorted(found, key=str)


@pytest.mark.parametrize(
    ("max_records", "how"),
    chosen(product((7, WHOLE), HOWS), [(7, "outer"), *product((WHOLE,), HOWS)]),
)
@pytest.mark.parametrize("held_back", [None, LEFT, RIGHT], ids=lambda topic: topic.name if topic else "none")
def test_records_are_those_of_a_batch_join_also_where_one_side_is_held_back(application, how, held_back, max_records):
    inputs = {LEFT: records(10), RIGHT: records(11, first=1000)}
    app = application(*topology(join(UNHURRIED, how)))
    for topic in sorted(inputs, key=lambda each: each is held_back):
        app.append(topic, inputs[topic])
        if held_back is not None:
            app.run(max_records)
    # What still waits comes out at the next record after its time, which waits then.
    app.append(LEFT, [(("end",), (-1,), 20_000)])
    app.run(max_records)
    found = sorted(written(app), key=str)
    assert found == batch_join(inputs[LEFT], inputs[RIGHT], UNHURRIED, how)
    assert len(found) > 100


@pytest.mark.parametrize("max_records", [1, WHOLE])
def test_results_have_the_headers_of_the_record_at_which_they_come_out(application, max_records):
    app = application(*topology(join(JoinWindow(5, 5, 0), "left")))
    app.append(LEFT, [(("a",), (1,), 10), (("b",), (2,), 11)], headers=['{"h": "1"}', '{"h": "2"}'])
    app.append(RIGHT, [(("a",), (3,), 12), (("c",), (4,), 20)], headers=['{"h": "3"}', '{"h": "4"}'])
    app.run(max_records)
    assert [(row["value.l"], row["value.r"], row["_headers"]) for row in app.read(OUT)] == [
        (1, 3, '{"h": "3"}'),
        (2, None, '{"h": "4"}'),
    ]
