"""Processors beside a computation that takes one record after another, wherever epochs end."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from headwater.runtime import subtopology
from headwater.runtime.engine.operators.operator import Flow
from headwater.runtime.engine.operators.process import Process
from headwater.runtime.engine.operators.stateless import Fork, Merge
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.functions import PythonCode, PythonFunction
from headwater.runtime.ir.topology import Store, Topic
from headwater.runtime.query.stores import StoreQuery
from headwater.runtime.records.types import Kind
from headwater.runtime.state.lmdb.store import LmdbBackend
from headwater.tests.runtime.local.local_application import WHOLE, LocalApplication, Part, part
from headwater.tests.runtime.local.streams_in_cuts import streams_in_cuts

FACTS = Topic("facts", 1, "k string", "v bigint")
OUT = Topic("out", 1, "k string", "n bigint, text string", writer="test-app")
STORE = Store("seen", 1, "k string", "n bigint, every array<bigint>")
COUNTING = """
from headwater import Record

class Counting:
    def __init__(self, step=1):
        self.step = step

    def init(self, context):
        self.context = context
        self.seen = context.store("seen")
        context.schedule("10ms", "stream_time", self.tick)

    def process(self, record):
        if record.key is None:
            self.context.forward(Record(None, {"n": -1, "text": None}, record.timestamp, record.headers))
            return
        before = self.seen.get(record.key)
        if record.value is None:
            gone = self.seen.delete(record.key)
            self.context.forward(Record(record.key, None, record.timestamp))
            assert gone == before
            return
        n = (before.n if before else 0) + self.step
        every = (before.every if before else []) + [record.value.v]
        self.seen.put(record.key, {"n": n, "every": every})
        for number in range(n % 3):
            self.context.forward(Record(record.key, {"n": n, "text": str(number)}, record.timestamp, record.headers))

    def tick(self, time):
        rows = [(key.k, row.n, row.every) for key, row in self.seen.all()]
        self.context.forward(Record({"k": "tick"}, {"n": time, "text": repr(rows)}, time))
"""


def function(text, name):
    return PythonFunction(f"functions.code:{name}", PythonCode((("functions/code.py", text),)))


def topology(text=COUNTING, name="Counting", stores=(STORE,), **fields):
    step = Process(
        "f", function(text, name), "f", {"f": Flow(OUT.key, OUT.value)}, stores=stores, at="process", **fields
    )
    return (part("only", 1, (((Source(FACTS, "f"), step, Sink("f", OUT)), {}, {}),), stores),)


def facts(seed, records=120):
    rng = random.Random(seed)
    time, made = 0, []
    for number in range(records):
        time += rng.choice([0, 0, 1, 3, 8, 30])
        key = None if rng.random() < 0.05 else (rng.choice("abc"),)
        value = None if rng.random() < 0.15 else (number,)
        made.append((key, value, max(0, time - rng.choice([0, 0, 5, 30]))))
    return made


def written(app, topic=OUT):
    return [
        (
            row["key.k"],
            None if row["_kind"] == Kind.TOMBSTONE else (row["value.n"], row["value.text"]),
            row["_timestamp"],
        )
        for row in app.read(topic)
    ]


def counted(records, step=1, interval=10):
    seen, made, due, clock = {}, [], 0, -1
    for key, value, time in records:
        clock = max(clock, time)
        if key is None:
            made.append((None, (-1, None), time))
        elif value is None:
            seen.pop(key[0], None)
            made.append((key[0], None, time))
        else:
            n, every = seen.get(key[0], (0, []))
            seen[key[0]] = n, every = n + step, [*every, value[0]]
            made += [(key[0], (n, str(number)), time) for number in range(n % 3)]
        if clock >= due:
            rows = [(k, *seen[k]) for k in sorted(seen)]
            made.append(("tick", (clock, repr(rows)), clock))
            due = (clock // interval + 1) * interval
    return made


@pytest.mark.parametrize(("seed", "max_records"), streams_in_cuts(3))
def test_records_are_those_of_one_after_another(application, seed, max_records):
    app = application(*topology(options={"step": 1}))
    app.append(FACTS, facts(seed))
    app.run(max_records)
    assert written(app) == counted(facts(seed))


def dropping(keep):
    """In place of a step in SQL: a filter between two Python stages."""

    def step(batches):
        for batch in batches:
            yield batch.filter(pa.array([row["_kind"] < 0 or bool(keep(row)) for row in batch.to_pylist()], pa.bool_()))

    return step


@pytest.mark.parametrize("max_records", [1, 7, WHOLE])
def test_stream_time_is_that_of_all_records_also_of_those_that_another_stage_drops(tmp_path, max_records):
    step = Process("f", function(COUNTING, "Counting"), "f", {"f": Flow(OUT.key, OUT.value)}, stores=(STORE,), at=5)

    def steps(rows):
        rows = rows.process(Source(FACTS, "f"))
        rows = rows.where("f", "v % 5 <> 0", at=4)
        return rows.process(step, Sink("f", OUT))

    built = subtopology(0, "f", file="t.yml")(steps)
    for name, expressions in (
        ("task", {}),
        ("sql", {"t.yml:4": dropping(lambda row: row["v"] is not None and row["v"] % 5)}),
    ):
        app = LocalApplication(tmp_path / name, [Part(built, expressions)])
        app.append(FACTS, facts(4))
        app.run(max_records)
        assert written(app) == counted_but(facts(4), lambda value: value is not None and value[0] % 5)


def counted_but(records, keep):
    """`counted`, for which some records only move stream time."""
    seen, made, due, clock = {}, [], 0, -1
    for key, value, time in records:
        clock = max(clock, time)
        if keep(value):
            if key is None:
                made.append((None, (-1, None), time))
            else:
                n, every = seen.get(key[0], (0, []))
                seen[key[0]] = n, every = n + 1, [*every, value[0]]
                made += [(key[0], (n, str(number)), time) for number in range(n % 3)]
        if clock >= due:
            made.append(("tick", (clock, repr([(k, *seen[k]) for k in sorted(seen)])), clock))
            due = (clock // 10 + 1) * 10
    return made


ALARMS = """
from headwater import Record

class Alarms:
    def init(self, context):
        self.context = context
        self.left = context.store("left")
        self.ticks = context.schedule("100ms", "stream_time", self.tick)

    def process(self, record):
        word = record.key.k
        if word == "start":
            self.context.schedule(f"{record.value.v}ms", "stream_time", self.alarm)
        elif word == "stop":
            for each in self.context.schedules(self.alarm):
                if each.interval == record.value.v:
                    each.cancel()
        elif word == "quiet":
            self.ticks.cancel()
        self.say(word, record.timestamp)

    def alarm(self, time):
        self.say("alarm", time)
        before = self.left.get({"k": "alarms"})
        self.left.put({"k": "alarms"}, {"n": (before.n if before else 0) + 1})

    def tick(self, time):
        rows = list(self.left.all())
        self.say("tick" + str(rows[0][1].n if rows else 0), time)

    def say(self, word, time):
        self.context.forward(Record({"k": word}, {"n": self.context.stream_time, "text": None}, time))
"""
LEFT = Store("left", 1, "k string", "n bigint")


def alarms(records):
    """Schedules as Kafka Streams keeps them: a queue by time, here also by when they were made."""
    made, clock, count = [], -1, 0
    queue = [{"due": 0, "every": 100, "what": "tick", "number": 0}]
    for number, (key, value, time) in enumerate(records, 1):
        clock, word = max(clock, time), key[0]
        if word == "start":
            queue.append({"due": 0, "every": value[0], "what": "alarm", "number": number})
        elif word == "stop":
            queue = [each for each in queue if each["what"] != "alarm" or each["every"] != value[0]]
        elif word == "quiet":
            queue = [each for each in queue if each["what"] != "tick"]
        made.append((word, (clock, None), time))
        while queue and (first := min(queue, key=lambda each: (each["due"], each["number"])))["due"] <= clock:
            count += first["what"] == "alarm"
            made.append((f"tick{count}" if first["what"] == "tick" else "alarm", (clock, None), clock))
            first["due"] += ((clock - first["due"]) // first["every"] + 1) * first["every"]
            if first["what"] == "tick":
                made[-1] = (f"tick{count}", *made[-1][1:])
    return made


def words(seed, records=80):
    rng = random.Random(seed)
    time, made = 0, []
    for number in range(records):
        time += rng.choice([0, 1, 7, 40, 250])
        word = rng.choice(["start", "start", "stop", "x", "x", "x"]) if number != 60 else "quiet"
        made.append(((word,), (rng.choice([30, 45]),), max(0, time - rng.choice([0, 0, 60]))))
    return made


@pytest.mark.parametrize(("seed", "max_records"), streams_in_cuts(3))
def test_punctuations_go_on_in_the_next_run_and_stay_cancelled(application, seed, max_records):
    app = application(*topology(ALARMS, "Alarms", (LEFT,)))
    for first in range(0, 80, 20):
        app.append(FACTS, words(seed)[first : first + 20])
        app.run(max_records)
    assert written(app) == alarms(words(seed))


WALL = """
from headwater import Record

class Beating:
    def init(self, context):
        self.context = context
        self.beat = context.schedule("10s", "wall_clock", self.tick)

    def process(self, record):
        place = {"n": self.context.offset, "text": self.context.topic}
        self.context.forward(Record(record.key, place, record.timestamp))

    def tick(self, time):
        assert self.context.topic is None and self.context.offset is None
        self.context.forward(Record({"k": "beat"}, {"n": self.context.stream_time, "text": self.context.task_id}, time))
        if time == 66_000:
            self.beat.cancel()
"""


class Clock:
    """A feed that appends, and lets time pass, in turn."""

    def __init__(self, app, entries):
        self.app, self.entries, self.time = app, list(entries), 1_000

    def more(self):
        if not self.entries:
            return False
        entry = self.entries.pop(0)
        if isinstance(entry, int):
            self.time = entry
        else:
            self.app.append(FACTS, entry)
        return True

    def now(self):
        return self.time

    def stream_time(self):
        return -1


def test_wall_clock_punctuates_also_where_no_record_comes(application):
    app = application(*topology(WALL, "Beating", ()))
    record = [(("a",), (1,), 500)]
    feed = Clock(app, [record, 10_999, 11_000, 20_999, record, 55_000, 60_000, 66_000, 99_000, record])
    app.attempt(feed=feed)
    beats = [("beat", (500, "only_0"), time) for time in (11_000, 55_000, 66_000)]
    first, second, third = (("a", (offset, "facts"), 500) for offset in range(3))
    assert written(app) == [first, beats[0], second, beats[1], beats[2], third]


def test_task_that_has_stopped_punctuates_no_more(application):
    stops = "    def process(self, record):\n        assert record.value.v != 2\n"
    app = application(*topology(WALL.replace("    def process(self, record):\n", stops), "Beating", ()))
    feed = Clock(app, [[(("a",), (1,), 500)], [(("a",), (2,), 500)], 30_000])
    result = app.attempt(feed=feed)
    assert "assert record.value.v != 2" in result.error
    assert written(app) == [("a", (0, "facts"), 500)]


TTL = """
from headwater import Record

class Once:
    def init(self, context):
        self.context, self.seen = context, context.store("seen")

    def process(self, record):
        before = self.seen.put_if_absent(record.key, {"n": record.value.v, "every": []})
        longer = {"k": "b\\0"}
        self.seen.put_all([({"k": "z"}, {"n": 1, "every": []}), ({"k": "z"}, None), (longer, {"n": 1, "every": []})])
        assert [*self.seen.all(reverse=True)] == [*self.seen.all()][::-1]
        assert [*self.seen.prefix({"k": "b"}, reverse=True)] == [*self.seen.range({"k": "b"}, {"k": "b"})]
        self.seen.delete(longer)
        rows = [key.k for key, _ in self.seen.range({"k": "b"})] + [key.k for key, _ in self.seen.prefix({"k": "a"})]
        rows += [key.k for key, _ in self.seen.range({"k": "a"}, {"k": "c"}, reverse=True)] + [str(self.seen.count())]
        assert [*self.seen.range({"k": "c"}, {"k": "a"}, reverse=True)] == []
        n = before.n if before else None
        self.context.forward(Record(record.key, {"n": n, "text": "".join(rows)}, record.timestamp))
"""


@pytest.mark.parametrize("max_records", [1, 7, WHOLE])
def test_rows_expire_by_stream_time_and_leave_the_store(application, max_records):
    store = replace(STORE, retention_ms=20)
    app = application(*topology(TTL, "Once", (store,)))
    records = [(key or ("d",), value or (0,), time) for key, value, time in facts(8)]
    app.append(FACTS, records)
    app.run(max_records)
    seen, expected, clock = {}, [], -1
    for (k,), (v,), time in records:
        clock = max(clock, time)
        seen = {key: row for key, row in seen.items() if row[1] > clock - 20}
        before = seen.get(k)
        seen.setdefault(k, (v, time))
        seen = {key: row for key, row in seen.items() if row[1] > clock - 20}
        rows = "".join([each for each in sorted(seen) if each >= "b"] + [each for each in seen if each == "a"])
        rows += "".join(each for each in sorted(seen, reverse=True) if each <= "c") + str(len(seen))
        expected.append((k, (before and before[0], rows), time))
    assert written(app) == expected
    assert sum(row[1][0] is None for row in expected) > 30
    query = StoreQuery("test-app", "only", store, app.log, app.path / "state", LmdbBackend().open_to_read)
    assert {row.key["k"] for row in query.rows()} == set(seen)
    app.append(FACTS, [(("e",), (1,), clock + 1_000)])
    app.append(FACTS, [(("e",), (1,), clock + 1_001)])
    app.run(1)
    kept = StoreQuery("test-app", "only", STORE, app.log, app.path / "state", LmdbBackend().open_to_read)
    assert [row.key["k"] for row in kept.rows()] == ["e"]


SPLIT = """
from headwater import Record

class Split:
    def init(self, context):
        self.context = context
        context.schedule("50ms", "stream_time", self.tick)

    def process(self, record):
        for number in range(3):
            value = None if record.value is None else {"v": record.value.v * 10 + number}
            self.context.forward(record._replace(value=value), flow="odd" if number % 2 else "even")

    def tick(self, time):
        self.context.forward(Record(None, None, time), "odd")
        self.context.forward(Record(None, {"v": 1}, time), "even")
        self.context.forward(Record(None, {"v": 2}, time), "odd")

class Same:
    def init(self, context):
        self.context = context
        context.schedule("50ms", "stream_time", lambda time: context.forward(Record(None, {"v": -1}, time)))

    def process(self, record):
        self.context.forward(record)
"""
PLAIN = Topic("plain", 1, "k string", "v bigint", writer="test-app")


@pytest.mark.parametrize("max_records", [1, 7, WHOLE])
def test_what_is_forwarded_goes_all_its_way_before_the_next(application, max_records):
    flow = Flow(FACTS.key, FACTS.value)
    nodes = (
        Source(FACTS, "f"),
        Process("f", function(SPLIT, "Split"), "f", {"even": flow, "odd": flow}, named=True),
        Fork("even", ("even", "copy")),
        Process("copy", function(SPLIT, "Same"), "copy", turn=1),
        Merge(("even", "odd", "copy"), "all"),
        Sink("all", PLAIN),
    )
    app = application(part("only", 1, ((nodes, {}, {}),)))
    app.append(FACTS, facts(6), headers=['{"h":"1"}', *[None] * 119])
    app.run(max_records)
    expected, due, clock = [], 0, -1
    for key, value, time in facts(6):
        clock, k = max(clock, time), key and key[0]
        v = None if value is None else value[0]
        for number in range(3):
            made = (k, None if v is None else v * 10 + number, time)
            expected += [made] if number % 2 else [made, made]
        if clock >= due:
            split = [(None, None, clock), (None, 1, clock), (None, 1, clock), (None, 2, clock)]
            expected += [*split, (None, -1, clock)]
            due = (clock // 50 + 1) * 50
    found = app.read(PLAIN)
    assert [(row["key.k"], row["value.v"], row["_timestamp"]) for row in found] == expected
    assert [row["_headers"] for row in found if row["_headers"]] == ['{"h":"1"}'] * 5


FAILING = """
from headwater import Record

class Failing:
    def init(self, context):
        self.context, self.left = context, context.store("left")

    def process(self, record):
        row = self.left.get(record.key)
        n = (row.n if row else 0) + 1
        self.left.put(record.key, {"n": n})
        self.context.forward(Record(record.key, {"n": n, "text": None}, record.timestamp))
        if record.value.v % 7 == 3:
            raise ValueError("seven")
        if record.value.v == 50:
            self.context.forward(Record(record.key, {"m": n, "text": None}, record.timestamp))
"""


@pytest.mark.parametrize("max_records", [1, 7, WHOLE])
def test_failing_record_is_left_out_with_all_that_it_has_stored_and_forwarded(application, max_records):
    topic = replace(FACTS, on_error="skip")
    step = Process("f", function(FAILING, "Failing"), "f", {"f": Flow(OUT.key, OUT.value)}, stores=(LEFT,), at="p:1")
    app = application(part("only", 1, (((Source(topic, "f"), step, Sink("f", OUT)), {}, {}),), (LEFT,)))
    records = [(("ab"[number % 2],), (number,), number) for number in range(60)]
    app.append(topic, records)
    app.run(max_records)
    counts, expected = {"a": 0, "b": 0}, []
    for (k,), (v,), time in records:
        if v % 7 != 3 and v != 50:
            counts[k] += 1
            expected.append((k, (counts[k], None), time))
    assert written(app) == expected
    assert app.dropped.total() == 60 - len(expected)


def test_failing_record_stops_its_task_and_names_the_line(application):
    app = application(*topology(FAILING, "Failing", (LEFT,)))
    app.append(FACTS, [(("a",), (1,), 5), (("a",), (50,), 6)])
    error = app.attempt().error
    assert "record facts[0]@1 cannot be processed" in error
    assert "functions/code.py:16, in process" in error
    assert "'m' is no column" in error
    assert written(app) == []


def test_punctuation_that_fails_blames_no_record(application):
    tick = """
        context.schedule("1s", "stream_time", self.tick)

    def tick(self, time):
        raise KeyError(time)
"""
    text = FAILING.replace("\n    def process", f"{tick}\n    def process")
    app = application(*topology(text, "Failing", (LEFT,)))
    app.append(replace(FACTS, on_error="skip"), [(("a",), (1,), 5), (("a",), (2,), 6)])
    error = app.attempt().error
    assert "functions.code:Failing (tick, a punctuation, process) raised KeyError: 5" in error
    assert "functions/code.py:" in error
    assert written(app) == []


BATCHING = """
import pyarrow as pa

from headwater import Record


class Batching:
    def init(self, context):
        self.context = context
        self.seen = context.store("seen")
        context.schedule("10ms", "stream_time", self.tick)

    def process_batch(self, batch):
        rows = batch.to_pylist()
        keys = sorted({row["k"] for row in rows if row["k"] is not None})
        found = self.seen.get_many(pa.table({"k": pa.array(keys, pa.string())})).to_pylist()
        seen = {k: (row["n"], row["every"]) for k, row in zip(keys, found) if row["_timestamp"] is not None}
        made = []
        for number, row in enumerate(rows):
            if row["k"] is None:
                made.append((number, None, -1, None, 1))
            elif row["_kind"] == 0:
                seen.pop(row["k"], None)
                made.append((number, row["k"], None, None, 0))
            else:
                n, every = seen.get(row["k"], (0, []))
                seen[row["k"]] = n + 1, [*every, row["v"]]
                made += [(number, row["k"], n + 1, str(each), 1) for each in range((n + 1) % 3)]
        gone = [k for k in keys if k not in seen]
        self.seen.delete_many(pa.table({"k": pa.array(gone, pa.string())}))
        kept = [{"k": k, "n": n, "every": every} for k, (n, every) in seen.items()]
        kinds = pa.schema({"k": pa.string(), "n": pa.int64(), "every": pa.list_(pa.int64())})
        self.seen.put_many(pa.Table.from_pylist(kept, kinds))
        names = ("_row", "k", "n", "text", "_kind")
        kinds = (pa.int64(), pa.string(), pa.int64(), pa.string(), pa.int8())
        columns = [pa.array([row[at] for row in made], kind) for at, kind in enumerate(kinds)]
        return pa.table(columns, names=names)

    def tick(self, time):
        rows = [(key.k, row.n, row.every) for key, row in self.seen.all()]
        assert rows == [(key.k, *self.seen.get(key)) for key, _ in self.seen.all()]
        self.context.forward(Record({"k": "tick"}, {"n": time, "text": repr(rows)}, time))
"""


@pytest.mark.parametrize(("seed", "max_records"), streams_in_cuts(3))
def test_batches_end_where_punctuations_are_due(application, seed, max_records):
    app = application(*topology(BATCHING, "Batching"))
    app.append(FACTS, facts(seed), headers=['{"h":"1"}'] * 120)
    app.run(max_records)
    assert written(app) == counted(facts(seed))
    assert {(row["_headers"], row["key.k"] == "tick") for row in app.read(OUT)} == {('{"h":"1"}', False), (None, True)}


@pytest.mark.parametrize(
    ("made", "error"),
    [
        ('batch.select(["k"])', "lacks the column 'n'"),
        ('batch.append_column("n", batch["v"]).append_column("text", batch["k"])', "has a column 'v'"),
        ('pa.table({"k": ["a"], "n": [1], "text": ["x"]})', "its column `_row` has to say"),
        (
            'pa.table({"k": ["a"], "n": ["one"], "text": ["x"], "_row": [0]})',
            "'n' of a batch for 'forward': an array of string is no bigint",
        ),
        ('pa.table({"k": ["a"], "n": [1], "text": ["x"], "_row": [2]})', "has numbers from 0 to"),
        ("7", "not int"),
    ],
)
def test_batch_that_does_not_fit_is_told(application, made, error):
    text = f"import pyarrow as pa\n\nclass Wrong:\n    def process_batch(self, batch):\n        return {made}\n"
    app = application(*topology(text, "Wrong", ()))
    app.append(FACTS, [(("a",), (1,), 5), (("a",), (2,), 6)])
    found = app.attempt().error
    assert "(process_batch)" in found
    assert error in found


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("record.value['v']", "the columns of a row are its attributes: `row.v`"),
        ("record.value.w", "the row has no column 'w': it has v"),
        ("record.value.v = 5", "a row is read-only: `row._replace(v=...)` gives a copy with another value"),
        ("record.value._replace(v='x')", "v: 'x' is no bigint"),
        ("self.seen.get('a')", "a key of the store 'seen': 'a' has no k; give a mapping by column, {'k': ...}"),
        ("self.seen.get(None)", "a key of the store 'seen' cannot be null"),
        ("self.seen.put(record.key, record.value)", "a row of the store 'seen': Row(v=1) has no n, every;"),
        ("self.seen.put_all({record.key: {'n': 1, 'every': 1}})", "every: 1 is no array<bigint>"),
        ("self.seen.put_many({'k': ['a']})", "'seen' takes many rows as an Arrow RecordBatch or Table, not dict"),
        (
            "self.seen.putIfAbsent(record.key, None)",
            "has no `putIfAbsent`: did you mean `put_if_absent`?",
        ),
        ("self.context.getStateStore('seen')", "the context has no `getStateStore`: did you mean `store`?"),
        ("self.context.store('sen')", "'sen' is not one of the step's `stores`: did you mean 'seen'?"),
        (
            "self.context.forward(record.key, record.value)",
            "`forward` takes a `headwater.Record(key, value",
        ),
        ("return record", "`process` returns records, which are lost: forward each with `context.forward`"),
        ("yield record", "`process` has `yield` in it, so nothing of it runs"),
    ],
)
def test_mistake_is_told_as_what_it_is(application, line, error):
    text = f"""
class Wrong:
    def init(self, context):
        self.context, self.seen = context, context.store("seen")

    def process(self, record):
        assert record.value._replace(v=2)._asdict() == {{"v": 2}}
        {line}
"""
    app = application(*topology(text, "Wrong"))
    app.append(FACTS, [(("a",), (1,), 5)])
    assert error in app.attempt().error


@pytest.mark.parametrize("max_records", [1, 7, WHOLE])
def test_record_for_which_a_batch_fails_is_left_out(application, max_records):
    text = """
class Picky:
    def init(self, context):
        self.left = context.store("left")

    def process_batch(self, batch):
        assert 13 not in batch["v"].to_pylist()
        self.left.put_many(batch.select(["k"]).append_column("n", batch["v"]))
        return batch.select(["k"]).append_column("n", batch["v"]).append_column("text", batch["k"])
"""
    step = Process("f", function(text, "Picky"), "f", {"f": Flow(OUT.key, OUT.value)}, stores=(LEFT,), at="p:1")
    topic = replace(FACTS, on_error="skip")
    app = application(part("only", 1, (((Source(topic, "f"), step, Sink("f", OUT)), {}, {}),), (LEFT,)))
    app.append(topic, [((str(number),), (number,), number) for number in range(20)])
    app.run(max_records)
    assert [row[1][0] for row in written(app)] == [number for number in range(20) if number != 13]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_cuts_clients_and_failures_change_nothing(application, seed):
    app = application(*topology(ALARMS, "Alarms", (LEFT,)), log=("embedded", "sparse", "embedded")[seed])
    app.append(FACTS, words(seed))
    app.run_randomly(seed, moving=True)
    assert written(app) == alarms(words(seed))
