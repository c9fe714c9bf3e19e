"""Joins by a foreign key beside a batch join and beside a computation that takes one record after another."""

from __future__ import annotations

import random

import pytest

from headwater.runtime.engine.execution.joins import foreign_key as answer
from headwater.runtime.engine.execution.joins import foreign_key_stores as subscriptions
from headwater.runtime.log.state import LogState
from headwater.runtime.query.stores import StoreQuery
from headwater.runtime.records.types import Kind
from headwater.runtime.state.lmdb.store import LmdbBackend
from headwater.tests.runtime.local.foreign_keys import (
    ANSWERS,
    ASKING_WINDOWS,
    CUSTOMERS,
    EXPIRED,
    JOINED_WINDOWS,
    LEFT,
    ORDERS,
    OUT,
    SUBSCRIPTIONS,
    WINDOWED_OUT,
    feed,
    parts,
    parts_in_windows,
)
from headwater.tests.runtime.local.local_application import APPLICATION, WHOLE
from headwater.tests.sampled import chosen


def changes(seed, records=60):
    """Changes of both tables: rows that come, change, go; foreign keys that are null, or of nobody."""
    rng = random.Random(seed)
    time, orders, customers = 0, [], []
    for _ in range(records):
        time += rng.randrange(0, 5)
        back = max(0, time - rng.choice([0, 0, 0, 20]))
        if rng.random() < 0.6:
            value = (rng.choice(["a", "b", "c", "d", None]), rng.randrange(3))
            orders.append(((rng.randrange(8),), None if rng.random() < 0.2 else value, back))
        else:
            customers.append(((rng.choice("abc"),), None if rng.random() < 0.3 else (rng.choice("xyz"),), back))
    return orders, customers


def joined(orders, customers, how):
    """The batch join of the last rows."""
    left = {key[0]: value for key, value, _ in orders}
    right = {key[0]: value for key, value, _ in customers}
    found = {}
    for order, value in left.items():
        if value is not None and (how == "left" or right.get(value[0]) is not None):
            found[order] = (*value, *(right.get(value[0]) or (None,)))
    return found


def last_rows(app):
    """Order -> values and timestamp of its last record, if that is no deletion."""
    last = {row["key.o"]: row for row in app.read(OUT)}
    columns = ("value.c", "value.n", "value.name", "_timestamp")
    return {key: tuple(row[name] for name in columns) for key, row in last.items() if row["_kind"] != Kind.TOMBSTONE}


def fed(application, how, orders, customers):
    app = application(*parts(how))
    feed(app, ORDERS, orders)
    feed(app, CUSTOMERS, customers)
    return app


CUTS = chosen(
    [(how, seed, cuts) for how in ("inner", "left") for seed in range(3) for cuts in ((1, WHOLE), (7, WHOLE))],
    [("left", 0, (1, WHOLE)), ("left", 1, (7, WHOLE)), ("inner", 2, (7, WHOLE))],
)
"""Join, changes, and the most records of an epoch in each run. Epochs of one record take longest."""


@pytest.mark.parametrize(("how", "seed", "cuts"), CUTS)
def test_last_rows_are_those_of_a_batch_join_wherever_epochs_end(application, seed, cuts, how):
    orders, customers = changes(seed)
    found = []
    for max_records in cuts:
        app = fed(application, how, orders, customers)
        app.run(max_records)
        found.append(last_rows(app))
    assert {key: row[:-1] for key, row in found[0].items()} == joined(orders, customers, how)
    # Their times as well: whoever answers waits for those who ask.
    assert all(rows == found[0] for rows in found)


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("held_back", [ORDERS, CUSTOMERS], ids=lambda topic: topic.name)
def test_last_rows_are_those_of_a_batch_join_where_one_side_is_held_back(application, held_back, how):
    inputs = dict(zip((ORDERS, CUSTOMERS), changes(4), strict=True))
    app = application(*parts(how))
    for topic in sorted(inputs, key=lambda each: each is held_back):
        feed(app, topic, inputs[topic])
        app.run(7)
    assert {key: row[:-1] for key, row in last_rows(app).items()} == joined(*inputs.values(), how)


@pytest.mark.parametrize("how", ["inner", "left"])
def test_last_rows_are_the_same_when_epochs_fail_tasks_stall_and_clients_go(application, how):
    orders, customers = changes(7)
    app = fed(application, how, orders, customers)
    app.run_randomly(3, moving=True)
    assert {key: row[:-1] for key, row in last_rows(app).items()} == joined(orders, customers, how)


def in_windows(app):
    """The last rows of all windows; and how many rows are kept of each kind, when all is processed."""
    last = {(row["key.o"], row["key.window_start"]): row for row in app.read(WINDOWED_OUT)}
    columns = ("value.c", "value.n", "value.name", "_timestamp")
    rows = {key: tuple(row[name] for name in columns) for key, row in last.items() if row["_kind"] != Kind.TOMBSTONE}
    kept = {}
    for part, store in (("right", ASKING_WINDOWS), ("left", JOINED_WINDOWS), ("left", EXPIRED)):
        query = StoreQuery(APPLICATION, part, store, app.log, app.path / "state", LmdbBackend().open_to_read)
        kept[store.name] = len(list(query.rows()))
    return rows, kept


@pytest.mark.parametrize("how", chosen(("inner", "left"), ("left",)))
def test_windows_expire_once_also_when_epochs_fail_tasks_stall_and_clients_go(application, how):
    """All answers come after the rows have expired in one run, and stores are restored in the other."""
    orders, customers = changes(9, records=150)
    orders = [each for each in orders if each[1] is not None]
    found = []
    for run in (lambda app: app.run(), lambda app: app.run_randomly(3, moving=True)):
        app = application(*parts_in_windows(how))
        feed(app, ORDERS, orders)
        feed(app, CUSTOMERS, customers)
        run(app)
        found.append(in_windows(app))
    rows, kept = found[0]
    assert found[1] == (rows, kept)
    assert len(rows) > 20
    # A window is found for 15 ms, and orders of 8 keys come all the time.
    assert kept[EXPIRED.name] == 0
    assert 0 < kept[JOINED_WINDOWS.name] < 16
    assert 0 < kept[ASKING_WINDOWS.name] < 16


def test_nothing_is_deleted_that_is_not_there(application):
    app = fed(application, "inner", *changes(11))
    app.run(7)
    there = set()
    for row in app.read(OUT):
        assert row["_kind"] == Kind.VALUE or row["key.o"] in there
        (there.discard if row["_kind"] == Kind.TOMBSTONE else there.add)(row["key.o"])


def test_result_stays_when_its_subscriber_changes_before_the_answer_comes(application):
    """Both changes are taken in one epoch, so the first answer is for a row that is another one by then."""
    app = fed(application, "inner", [((1,), ("a", 1), 10), ((1,), ("b", 1), 11)], [(("b",), ("x",), 5)])
    app.run()
    assert last_rows(app) == {1: ("b", 1, "x", 11)}
    assert app.dropped == {"join:outdated_answer": 1}


def test_null_foreign_keys_of_an_inner_join_are_counted_and_delete_the_result(application):
    app = fed(application, "inner", [((1,), ("a", 1), 10)], [(("a",), ("x",), 5)])
    app.run()
    feed(app, ORDERS, [((1,), (None, 2), 12)])
    app.run()
    assert last_rows(app) == {}
    assert app.dropped == {"join:null_foreign_key": 1}


def test_subscriptions_are_those_of_the_rows_that_are_there(application):
    orders, customers = changes(5)
    app = fed(application, "left", orders, customers)
    app.run(7)
    last = {key[0]: value for key, value, _ in orders}
    expected = {(value[0], order) for order, value in last.items() if value is not None and value[0] is not None}
    query = StoreQuery(APPLICATION, "right", SUBSCRIPTIONS, app.log, app.path / "state", LmdbBackend().open_to_read)
    assert {(row.key["c"], row.key["o"]) for row in query.rows()} == expected


def test_only_rows_with_exactly_the_foreign_key_are_answered(application):
    """Subscriptions are found by the beginning of their keys."""
    keys = ["a", "ab", "a\x00", "a\x00b", ""]
    orders = [((number,), (key, 0), 10) for number, key in enumerate(keys)]
    app = fed(application, "inner", orders, [((key,), ("x",), 5) for key in keys])
    app.run()
    feed(app, CUSTOMERS, [((key,), (f"new {number}",), 20 + number) for number, key in enumerate(keys)])
    app.run()
    assert last_rows(app) == {number: (key, 0, f"new {number}", 20 + number) for number, key in enumerate(keys)}
    feed(app, CUSTOMERS, [(("a",), None, 30)])
    app.run()
    assert sorted(last_rows(app)) == [1, 2, 3, 4]


@pytest.mark.parametrize("max_records", [7, WHOLE])
def test_answers_to_many_are_written_some_at_a_time(application, max_records, monkeypatch):
    """So memory does not grow with the subscribers of a row. Some of them come and go between its changes."""
    monkeypatch.setattr(answer, "MOST_TOGETHER", 50)
    monkeypatch.setattr(subscriptions, "_TOGETHER", 20)
    rng = random.Random(1)
    orders = [((number,), ("a", 0), 1) for number in range(300)]
    app = fed(application, "inner", orders, [(("a",), ("x",), 1), (("b",), ("y",), 1)])
    app.run()
    later = [((rng.randrange(400),), rng.choice([("a", 1), ("b", 1), None]), 10 + number) for number in range(40)]
    names = [((rng.choice("ab"),), (f"name {number}",), 10 + 4 * number) for number in range(10)]
    feed(app, ORDERS, later)
    feed(app, CUSTOMERS, names)
    app.run(max_records)
    assert {key: row[:-1] for key, row in last_rows(app).items()} == joined(orders + later, names, "inner")
    state = LogState.load(app.log.commits(APPLICATION))
    written = [each for partition in range(LEFT) for each in state.ranges(ANSWERS.name, partition)]
    assert max(each.end_offset - each.start_offset for each in written) <= 50 + 20 + len(later)
    assert sum(each.end_offset - each.start_offset for each in written) > 1500
