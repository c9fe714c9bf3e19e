"""Changes that wait, beside a buffer that looks at one change after another, wherever epochs end."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.changes.facets import setting_changes
from headwater.runtime.changes.model import Verdict
from headwater.runtime.engine.building import subtopology
from headwater.runtime.engine.execution.keyed.groups import window_column
from headwater.runtime.engine.execution.node import TaskEpoch
from headwater.runtime.engine.execution.rows import Rows
from headwater.runtime.engine.operators.aggregations import Aggregate, AggregateSessions
from headwater.runtime.engine.operators.stateless import KeyBy, Select
from headwater.runtime.engine.operators.tables import Suppress, Table
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import Agg, Store, Topic, Topology
from headwater.runtime.ir.windows import SessionWindow, Window
from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.query.stores import StoreQuery
from headwater.runtime.records.types import Kind
from headwater.runtime.state.lmdb.store import LmdbBackend
from headwater.tests.runtime.local.local_application import WHOLE, LocalApplication, part
from headwater.tests.sampled import chosen

FACTS = Topic("facts", 1, "k string", "v bigint")
KEPT = Store("kept", 1, "k string", "v bigint")
CHANGES = Topic("changes", 1, "k string", "v bigint", writer="test-app")
BUFFER = Store("held", 1, "k string", "v bigint", type="changes")

ROWS = Topic("rows", 1, "k string", "n bigint", windowed=True, writer="test-app")
FINAL = Topic("final", 1, "k string", "n bigint", windowed=True, writer="test-app")
COUNTS = Store("counts", 1, "k string", "n bigint", type="window", aggregates=(Agg("n", "count"),))
WINDOWS = Store("held", 1, "k string, window_start timestamp, window_end timestamp", "n bigint", type="window_changes")
KINDS = {
    "tumbling": (Window(10, 10, 7), 7),
    "hopping": (Window(10, 4, 7), 7),
    "session": (SessionWindow(5, 7), 12),
}


class Buffered:
    """Kafka's buffer: entries by (time, key) with what waits. An update is (key, value or None, timestamp, headers)."""

    def __init__(self, wait, most=None, final=False):
        self.wait, self.most, self.final = wait, most, final
        self.clock, self.waits, self.went = -1, {}, []

    def take(self, update, time):
        key, _, timestamp, _ = update
        self.clock = max(self.clock, timestamp)
        place = next((each for each in self.waits if each[1] == key), (time, key))
        self.waits[place] = update
        while self.waits and (
            min(self.waits)[0] <= self.clock - self.wait or (self.most is not None and len(self.waits) > self.most)
        ):
            gone = self.waits.pop(min(self.waits))
            if not self.final or gone[1] is not None:
                self.went.append(gone)


def facts(seed, records=200):
    """Records whose time wanders, some far back, and their headers; with null keys and null values."""
    rng = random.Random(seed)
    time, made, headers = 0, [], []
    for number in range(records):
        time += rng.choice([0, 0, 1, 3, 8])
        key = None if rng.random() < 0.05 else (rng.choice(["a", "b", "c", "ab", "a\0", "", "é"]),)
        made.append((key, None if rng.random() < 0.2 else (number,), max(0, time - rng.choice([0, 0, 0, 5, 30]))))
        headers.append(json.dumps({"n": str(number)}) if seed % 2 and rng.random() < 0.5 else None)
    return made, headers


def run(app, seed, max_records):
    records, headers = facts(seed)
    app.append(FACTS, records, headers=headers if seed % 2 else None)
    app.run(max_records)
    return [
        (key[0], None if value is None else value[0], time, header)
        for (key, value, time), header in zip(records, headers, strict=True)
        if key is not None
    ]


def written(app, topic):
    found = []
    for row in app.read(topic):
        key = row["key.k"]
        if topic.windowed:
            start, end = (round(row[f"key.window_{side}"].timestamp() * 1000) for side in ("start", "end"))
            key = (key, start, end)
        (value,) = (each.split()[0] for each in topic.value.split(", "))
        there = row["_kind"] != Kind.TOMBSTONE
        found.append((key, row[f"value.{value}"] if there else None, row["_timestamp"], row["_headers"]))
    return found


def held(most=None, wait=20, when_full="emit"):
    nodes = (
        Source(FACTS, "f"),
        Table("f", KEPT, old=True),
        Suppress("f", BUFFER, wait, most, when_full, at="suppress"),
        Sink("f", CHANGES, "each_update"),
    )
    return part("only", 1, ((nodes, {}, {}),), (KEPT, BUFFER))


BUFFERS = ((0, None), (1, None), (0, 0), (1, 1), (2, 3), (3, 6))
BUFFERS_IN_CUTS = chosen(
    [(most, *buffer) for most in (1, 7, WHOLE) for buffer in BUFFERS],
    [(1, 3, 6), *((7, *buffer) for buffer in BUFFERS[1::2]), *((WHOLE, *buffer) for buffer in BUFFERS)],
)


@pytest.mark.parametrize(("max_records", "seed", "most"), BUFFERS_IN_CUTS)
def test_changes_go_on_as_from_a_buffer_that_takes_one_after_another(application, max_records, seed, most):
    app = application(held(most))
    buffer = Buffered(20, most)
    for update in run(app, seed, max_records):
        buffer.take(update, update[2])
    assert written(app, CHANGES) == buffer.went
    assert any(value is None for _, value, _, _ in buffer.went)


WINDOWS_IN_CUTS = chosen(
    [(kind, *cut) for kind in KINDS for cut in ((0, 1), (1, 7), (2, 7), (3, WHOLE))],
    [("session", 0, 1), *((kind, *cut) for kind in KINDS for cut in ((2, 7), (3, WHOLE)))],
)


@pytest.mark.parametrize(("kind", "seed", "max_records"), WINDOWS_IN_CUTS)
def test_windows_give_their_last_rows_once_they_are_closed(application, max_records, seed, kind):
    window, wait = KINDS[kind]
    store = replace(COUNTS, type="session" if kind == "session" else "window", window=window)
    aggregate = AggregateSessions if kind == "session" else Aggregate
    nodes = (
        Source(FACTS, ("f", "g")),
        aggregate("f", store, at="count"),
        # A limit that is not reached changes nothing.
        Suppress("f", WINDOWS, wait, None if seed < 2 else 500, "fail", at="suppress"),
        Sink("f", FINAL, "append"),
        aggregate("g", replace(store, name="again"), at="again"),
        Sink("g", ROWS, "each_update"),
    )
    app = application(part("only", 1, ((nodes, {}, {}),), (store, replace(store, name="again"), WINDOWS)))
    run(app, seed, max_records)
    buffer = Buffered(wait, final=True)
    for (key, start, end), value, timestamp, header in written(app, ROWS):
        # In the order of the end, then of the key, then of the start.
        buffer.take(((key, end, start), value, timestamp, header), end)
    found = [((key, end, start), *rest) for (key, start, end), *rest in written(app, FINAL)]
    assert found == buffer.went
    assert len(found) > 15


PAIRS = Topic("pairs", 1, "odd bigint", "v bigint", writer="test-app")
GROUPS = Topic("groups", 1, "odd bigint", "n bigint", writer="test-app")
GROUPED = Store("grouped", 1, "odd bigint", "n bigint", aggregates=(Agg("n", "sum", "v", "bigint"),))


@pytest.mark.parametrize(
    ("max_records", "most"), chosen([(1, None), (7, 2), (WHOLE, None), (WHOLE, 2)], [(7, 2), (WHOLE, None)])
)
def test_groups_behind_it_are_those_of_the_rows_that_went_on(application, max_records, most):
    """Each change has the row that went on before: a group takes back what it has had, and nothing else."""
    first = (
        Source(FACTS, "f"),
        Table("f", KEPT, old=True),
        Suppress("f", BUFFER, 20, most, old=True, at="suppress"),
        Select("f", {"odd": "v"}, keep=("v",)),
        KeyBy("f", {"odd": "odd"}),
        Select("f", keep=("v",)),
        Sink("f", PAIRS, "repartition", of="table"),
    )
    second = (Source(PAIRS, "f"), Aggregate("f", GROUPED, of="table"), Sink("f", GROUPS, "each_update"))
    app = application(part("a", 1, ((first, {}, {}),), (KEPT, BUFFER)), part("b", 1, ((second, {}, {}),), (GROUPED,)))
    buffer = Buffered(20, most)
    for update in run(app, 4, max_records):
        buffer.take(update, update[2])
    rows = {key: value for key, value, _, _ in buffer.went}
    groups = {row["key.odd"]: row["value.n"] for row in app.read(GROUPS) if row["_kind"] != Kind.TOMBSTONE}
    gone = {row["key.odd"] for row in app.read(GROUPS)} - {value for value in rows.values() if value is not None}
    last = {row["key.odd"]: row["_kind"] for row in app.read(GROUPS)}
    assert {n: total for n, total in groups.items() if n not in gone} == {v: v for v in rows.values() if v is not None}
    assert {last[n] for n in gone} == {Kind.TOMBSTONE}


def test_changed_settings_count_for_changes_that_wait(application):
    updates = [((key,), (number,), number) for number, key in enumerate("abcdef")]
    app = application(held(wait=1000))
    app.append(FACTS, updates)
    app.run()
    assert written(app, CHANGES) == []
    for wait, most, key, time, expected in [
        (1000, 4, "g", 7, "abc"),
        (1000, None, "g", 7, "abc"),
        (1000, 4, "h", 7, "abcd"),
        (3, 4, "g", 10, "abcdefgh"),
    ]:
        app = LocalApplication(app.path, [held(most, wait)])
        app.append(FACTS, [((key,), (6,), time)])
        app.run()
        assert "".join(key for key, *_ in written(app, CHANGES)) == expected


def test_changed_settings_are_told():
    def description(*waits):
        nodes = [Suppress("f", BUFFER, wait, most) for wait, most in waits]

        def steps(rows):
            return rows.process(
                Source(FACTS, "f"), Table("f", KEPT, old=True), *nodes, Sink("f", CHANGES, "each_update")
            )

        made = subtopology(0, "f", file="t.yml")(steps)
        assert {each.store for each in made.fillers} == {"kept", "held"}
        return TopologyDescription.from_topology(Topology("test", "app", "1", "h", (made,)))

    was, is_ = description((20, None), (5, None)), description((30, 7), (6, None))
    changes = list(setting_changes("test-app", was, is_, {}))
    assert {each.verdict for each in changes} == {Verdict.COMPATIBLE}
    assert [each.what.split("; ")[0] for each in changes] == [
        "its suppress.for was 20ms, is 30ms",
        "its suppress.max_records was none, is 7",
        "its suppress_2.for was 5ms, is 6ms",
    ]


def test_buffer_that_is_full_fails_the_task_and_loses_nothing(application):
    app = application(held(3))
    app.append(FACTS, [(("a",), (1,), 10), (("b",), (2,), 11), (("a",), (3,), 12), (("c",), (4,), 13)])
    result = LocalApplication(app.path, [held(2, when_full="fail")]).attempt()
    assert "buffer held is full: 2 changes wait" in result.error
    assert "record facts[0]@3 cannot be processed" in result.error
    assert written(app, CHANGES) == []
    app.append(FACTS, [(("d",), (5,), 40)])
    app.run()
    assert written(app, CHANGES) == [("a", 3, 12, None), ("b", 2, 11, None), ("c", 4, 13, None)]


@pytest.mark.parametrize("limit", [None, 400])
def test_query_shows_what_waits(application, limit):
    app = application(held(limit))
    buffer = Buffered(20)
    for update in run(app, 2, 7):
        buffer.take(update, update[2])
    query = StoreQuery("test-app", "only", BUFFER, app.log, app.path / "state", LmdbBackend().open_to_read)
    found = [(row.key["k"], row.value["v"], row.timestamp) for row in query.rows()]
    assert found == sorted((key, value, time) for key, value, time, _ in buffer.waits.values())
    assert [row["k"] for row in query.to_table().to_pylist()] == [key for key, *_ in found]


def test_query_shows_the_windows_that_are_open(application):
    store = replace(COUNTS, window=KINDS["tumbling"][0])
    nodes = (Source(FACTS, "f"), Aggregate("f", store, at="count"), Suppress("f", WINDOWS, 7), Sink("f", FINAL))
    app = application(part("only", 1, ((nodes, {}, {}),), (store, WINDOWS)))
    app.append(
        FACTS, [(("a",), (1,), 3), (("b",), (1,), 13), (("a",), (1,), 14), (("a",), (1,), 15), (("a",), (1,), 9)]
    )
    app.run()
    query = StoreQuery("test-app", "only", WINDOWS, app.log, app.path / "state", LmdbBackend().open_to_read)
    found = [(*row.key.values(), row.value["n"], row.timestamp) for row in query.rows()]
    assert found == [("a", 0, 10, 2, 9), ("a", 10, 20, 2, 15), ("b", 10, 20, 1, 13)]


class CountingRows:
    """Rows of a store, and how many somebody has asked for."""

    position = 0

    def __init__(self):
        self.rows, self.asked = {}, 0

    def get_many(self, keys):
        self.asked += len(keys)
        return [self.rows.get(key) for key in keys]

    def range(self, start, end, *, reverse=False):
        for key in sorted(self.rows, reverse=reverse):
            if key >= start and (end is None or key < end):
                self.asked += 1
                yield key, self.rows[key]


@pytest.mark.parametrize("most", [None, 1000])
@pytest.mark.parametrize("store", [BUFFER, WINDOWS], ids=lambda store: store.type)
def test_changes_that_stay_are_not_read(store, most):
    committed = CountingRows()
    suppress = Suppress("f", store, 10_000, most)

    def epoch(keys, times, clock):
        work = TaskEpoch(0, 0, {"held": clock}, lambda _: committed, lambda _: committed)
        number = np.arange(len(keys))
        ends = np.array(times)
        columns = {"k": pa.array(keys), "window_start": window_column(ends), "window_end": window_column(ends)}
        rows = Rows((number,), np.ones(len(keys), np.int8), np.array(times), number, None, {}, (), ())
        names = [name for name in columns if name in store.key]
        value = store.value.split()[0]
        edges = {"f": rows.with_columns({name: columns[name] for name in names}, {value: pa.array(number)})}
        suppress.run(edges, work)
        written = {change["key"]: change["value"] for change in work.store(store).changes().to_pylist()}
        committed.rows = {key: row for key, row in {**committed.rows, **written}.items() if row is not None}
        return edges["f"].columns["k"].to_pylist()

    assert epoch([f"k{number:03}" for number in range(900)], range(100, 1000), -1) == []
    committed.asked = 0
    assert epoch(["new"], [10_102], 999) == ["k000", "k001", "k002"]
    assert committed.asked < 12


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_cuts_clients_and_failures_change_nothing(application, seed):
    most = (None, 3, 6)[seed]
    app = application(held(most), log=("embedded", "sparse", "embedded")[seed])
    records, headers = facts(seed)
    app.append(FACTS, records, headers=headers)
    app.run_randomly(seed, moving=True)
    buffer = Buffered(20, most)
    for (key, value, time), header in zip(records, headers, strict=True):
        if key is not None:
            buffer.take((key[0], None if value is None else value[0], time, header), time)
    assert written(app, CHANGES) == buffer.went
