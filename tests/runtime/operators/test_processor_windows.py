"""Window and session stores of processors beside dicts of all their rows, wherever epochs end."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.engine.execution.node import EpochStore
from headwater.runtime.engine.execution.processing.batches import CONTEXT, KEY_VALUE, SESSION, WINDOW, Moment
from headwater.runtime.engine.execution.processing.context import ProcessorContext
from headwater.runtime.engine.execution.processing.epoch_rows import EpochRows
from headwater.runtime.engine.execution.processing.stores import KeyValueStore
from headwater.runtime.engine.execution.processing.timed_stores import SessionStore, WindowStore
from headwater.runtime.engine.operators.operator import Flow
from headwater.runtime.engine.operators.process import Process
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.functions import PythonCode, PythonFunction
from headwater.runtime.ir.topology import Store, Topic
from headwater.runtime.query.stores import StoreQuery
from headwater.runtime.records.window_keys import segment_start
from headwater.runtime.state.codec import RowCodec
from headwater.runtime.state.lmdb.store import LmdbBackend, LmdbStore
from headwater.tests.runtime.local.local_application import part
from headwater.tests.runtime.local.streams_in_cuts import kinds_in_cuts

S = 1_000
"""Times are whole seconds, in ms: segments are of a minute, or of half of a longer retention."""

KEPT = {"window": 100 * S, "session": 160 * S}
FACTS = Topic("facts", 1, "k string", "v bigint")
OUT = Topic("out", 1, "k string", "text string", writer="test-app")
WINDOWS = Store("windows", 1, "k string", "n bigint, every array<bigint>", "window", retention_ms=KEPT["window"])
SESSIONS = Store("sessions", 1, "k string", "n bigint", "session", retention_ms=KEPT["session"])
CODE = """
import pyarrow as pa

from headwater import Record

SCHEMA = pa.schema({"k": pa.string(), "_start": pa.int64(), "n": pa.int64(), "every": pa.list_(pa.int64())})
TIMES = pa.schema({"k": pa.string(), "_start": pa.int64(), "_end": pa.int64(), "n": pa.int64()})
S = 1_000
SIDES = [(None, None), ("b", None), (None, "b"), ("a", "b"), ("c", "a")]

def bounds(time):
    low, high = SIDES[time // S % 5]
    return {"from_key": low and {"k": low}, "to_key": high and {"k": high}, "reverse": time // S % 2 == 0}

class Windows:
    def init(self, context):
        self.context, self.rows = context, context.store("windows")
        context.schedule("40s", "stream_time", self.tick)

    def process(self, record):
        time, v = record.timestamp, record.value.v
        start = time - time % (7 * S) + (v % 5) * 7 * S
        before = self.rows.fetch(record.key, start)
        before_all = self.rows.all()
        every = before.every if before else []
        every.append(v)
        row = {"k": record.key.k, "_start": start, "n": len(every), "every": every}
        if v % 6 == 0:
            self.rows.put(record.key, None, start)
        elif v % 6 == 1:
            self.rows.delete_many(pa.Table.from_pylist([row], SCHEMA))
        elif v % 6 == 2:
            self.rows.put_many(pa.Table.from_pylist([{**row, "n": 0}, row], SCHEMA))
        else:
            self.rows.put(record.key, {"n": len(every), "every": every}, start)
        asked = [{"k": k, "_start": at} for k in "abc" for at in (start, start - 7 * S, -1)]
        many = self.rows.get_many(pa.Table.from_pylist(asked, SCHEMA.remove(3).remove(2))).to_pylist()
        said = [
            [each["every"] for each in many],
            [(at, row.n) for at, row in self.rows.fetch(record.key, time - 60 * S, time + 10 * S, reverse=True)],
            [(key.k, at, row.n) for key, at, row in self.rows.fetch_all(time - 70 * S, time, **bounds(time))],
            [(key.k, at, row.n) for key, at, row in self.rows.all(**bounds(time))],
            [(at, row.n, row.every) for at, row in self.rows.fetch(record.key, time - 60 * S, time + 10 * S)],
            [(key.k, at, row.n) for key, at, row in self.rows.fetch_all(time - 30 * S, time)],
            [(key.k, at, row.n) for key, at, row in before_all],
        ]
        self.context.forward(Record(record.key, {"text": repr(said)}, time))

    def tick(self, time):
        said = [(key.k, at, row.n) for key, at, row in self.rows.all()]
        self.context.forward(Record({"k": "tick"}, {"text": repr(said)}, time))
        for key, at, row in self.rows.fetch_all(0, time - 50 * S):
            if row.n > 1:
                self.rows.put(key, None, at)

class Sessions:
    def init(self, context):
        self.context, self.rows = context, context.store("sessions")

    def process(self, record):
        time, v = record.timestamp, record.value.v
        found = list(self.rows.find_sessions(record.key, time - 20 * S, time + 20 * S))
        spans = [{"k": record.key.k, "_start": start, "_end": end} for start, end, _ in found]
        self.rows.delete_many(pa.Table.from_pylist(spans, TIMES.remove(3)))
        start, end = min([time, *(each[0] for each in found)]), max([time, *(each[1] for each in found)])
        n = 1 + sum(row.n for _, _, row in found)
        if v % 2:
            self.rows.put(record.key, {"n": n}, start, end)
        else:
            table = pa.Table.from_pylist([{"k": record.key.k, "_start": start, "_end": end, "n": n}], TIMES)
            self.rows.put_many(table)
            assert self.rows.get_many(table.drop(["n"]))["n"].to_pylist()[0] in (n, None)
        row = self.rows.fetch_session(record.key, start, end)
        said = [
            [(start, end, row.n) for start, end, row in found],
            row and row.n,
            [each[:2] for each in self.rows.find_sessions(record.key, time - 30 * S, time + 5 * S, reverse=True)],
            [(key.k, *at) for key, *at, _ in self.rows.find_all_sessions(time - 30 * S, time - 2 * S, **bounds(time))],
            [(key.k, *at) for key, *at, _ in self.rows.all(**bounds(time))],
            [(key.k, *at) for key, *at, _ in self.rows.fetch_all(time - 70 * S, time, **bounds(time))],
            [each[0] for each in self.rows.fetch(record.key, reverse=True)],
            [(start, end, row.n) for start, end, row in self.rows.fetch(record.key)],
            [(key.k, start, end, row.n) for key, start, end, row in self.rows.all()],
            [(key.k, start, end) for key, start, end, _ in self.rows.fetch_all(time - 70 * S, time - 10 * S)],
        ]
        self.context.forward(Record(record.key, {"text": repr(said)}, time))
"""


def topology(name, store):
    code = PythonFunction(f"functions.code:{name}", PythonCode((("functions/code.py", CODE),)))
    step = Process("f", code, "f", {"f": Flow(OUT.key, OUT.value)}, stores=(store,), at="process")
    return part("only", 1, (((Source(FACTS, "f"), step, Sink("f", OUT)), {}, {}),), (store,))


def facts(seed, records=160):
    chances = random.Random(seed)
    time, made = 0, []
    for number in range(records):
        time += chances.choice([0, 1, 3, 8, 8, 30, 90])
        made.append(((chances.choice("abc"),), (number,), S * max(0, time - chances.choice([0, 0, 5, 30, 190]))))
    return made


class Rows:
    """Rows by key and times, the first of which decides how long they are there."""

    def __init__(self, retention):
        self.retention, self.rows, self.clock, self.late = retention, {}, -1, 0

    def put(self, key, value, *times):
        self.clock = max(self.clock, times[0])
        if times[0] <= self.clock - self.retention:
            self.late += value is not None
        else:
            self.rows[key, times] = value

    def bounded(self, time, first=0, last=2**60):
        """What `bounds` of the processors asks for."""
        low, high = [(None, None), ("b", None), (None, "b"), ("a", "b"), ("c", "a")][time // S % 5]
        found = [each for each in self.there(None, first, last) if (low or "") <= each[0] <= (high or "z")]
        return found[::-1] if time // S % 2 == 0 else found

    def there(self, key=None, first=0, last=2**60):
        segment = max(self.retention // 2, 60 * S)
        found = sorted((times[0] // segment, k, times) for k, times in self.rows)
        return [
            (k, times, self.rows[k, times])
            for _, k, times in found
            if self.rows[k, times] is not None
            and key in (None, k)
            and max(first, self.clock - self.retention + 1) <= times[0] <= last
        ]


def windows(records):
    store, made, due, clock = Rows(KEPT["window"]), [], 0, -1
    for (k,), (v,), time in records:
        clock = max(clock, time)
        start = time - time % (7 * S) + (v % 5) * 7 * S
        before = [row for _, _, row in store.there(k, start, start)]
        everything = [(k, at, len(row)) for k, (at,), row in store.there()]
        for _ in range(2 if v % 6 == 2 else 1):
            store.put(k, None if v % 6 in (0, 1) else [*(before[0] if before else []), v], start)
        said = [
            [
                next((row for _, _, row in store.there(each, at, at)), None)
                for each in "abc"
                for at in (start, start - 7 * S, -1)
            ],
            [(at, len(row)) for _, (at,), row in store.there(k, time - 60 * S, time + 10 * S)][::-1],
            [(k, at, len(row)) for k, (at,), row in store.bounded(time, time - 70 * S, time)],
            [(k, at, len(row)) for k, (at,), row in store.bounded(time)],
            [(at, len(row), row) for _, (at,), row in store.there(k, time - 60 * S, time + 10 * S)],
            [(k, at, len(row)) for k, (at,), row in store.there(None, time - 30 * S, time)],
            everything,
        ]
        made.append((k, repr(said), time))
        if clock >= due:
            rows = [(k, at, len(row)) for k, (at,), row in store.there()]
            made.append(("tick", repr(rows), clock))
            for k, at, n in rows:
                if n > 1 and at <= clock - 50 * S:
                    store.put(k, None, at)
            due = (clock // (40 * S) + 1) * 40 * S
    return store, made


def sessions(records):
    store, made = Rows(KEPT["session"]), []
    for (k,), _, time in records:
        found = [(start, end, n) for _, (end, start), n in store.there(k, time - 20 * S) if start <= time + 20 * S]
        for start, end, _ in found:
            store.put(k, None, end, start)
        start, end = min([time, *(each[0] for each in found)]), max([time, *(each[1] for each in found)])
        n = 1 + sum(each[2] for each in found)
        store.put(k, n, end, start)
        everything = [(k, start, end, n) for k, (end, start), n in store.there()]
        said = [
            found,
            n if end > store.clock - store.retention else None,
            [(start, end) for _, (end, start), _ in store.there(k, time - 30 * S) if start <= time + 5 * S][::-1],
            [(k, start, end) for k, (end, start), _ in store.bounded(time, time - 30 * S) if start <= time - 2 * S],
            [(k, start, end) for k, (end, start), _ in store.bounded(time)],
            [(k, start, end) for k, (end, start), _ in store.bounded(time, time - 70 * S, time)],
            [each[1] for each in everything if each[0] == k][::-1],
            [each[1:] for each in everything if each[0] == k],
            everything,
            [each[:3] for each in everything if time - 70 * S <= each[2] <= time - 10 * S],
        ]
        made.append((k, repr(said), time))
    return store, made


MODELS = {"Windows": (WINDOWS, windows), "Sessions": (SESSIONS, sessions)}


def written(app):
    return [(row["key.k"], row["value.text"], row["_timestamp"]) for row in app.read(OUT)]


@pytest.mark.parametrize(("name", "seed", "max_records"), kinds_in_cuts(list(MODELS), 3, MODELS))
def test_rows_are_those_of_a_dict_also_after_a_restart_and_a_lost_store(application, name, seed, max_records):
    store, model = MODELS[name]
    app, records = application(topology(name, store)), facts(seed)
    for first, state in ((0, "first"), (50, "first"), (100, "lost")):
        app.append(FACTS, records[first : first + 50 if first < 100 else None])
        app.attempt(app.settings(max_records, state=state))
    expected, made = model(records)
    assert written(app) == made
    assert app.dropped == {"process:late": expected.late}
    assert expected.late > 2
    query = StoreQuery("test-app", "only", store, app.log, app.path / "lost", LmdbBackend().open_to_read)
    bounds = ("window_start",) if name == "Windows" else ("window_end", "window_start")
    found = [(row.key["k"], tuple(row.key[each] for each in bounds)) for row in query.rows()]
    assert found == [(k, times) for k, times, _ in expected.there()]


def segments(app, store):
    """The starts of the segments that are on the disk."""
    (path,) = (path.parent for path in (app.path / "state").rglob("data.mdb"))
    return sorted({segment_start(key) for key, _ in LmdbStore(path, writable=False).range(None, None)})


@pytest.mark.parametrize(
    ("name", "store", "found"),
    [  # by 163, all windows up to 63 have expired; by 308, all sessions up to 148
        ("Windows", WINDOWS, [[0], [0, 60], [0, 60, 120], [60, 120], [300]]),
        ("Sessions", SESSIONS, [[0], [0], [0, 80], [0, 80, 160], [80, 160, 240]]),
    ],
)
def test_segments_leave_the_disk_once_all_their_rows_have_expired(application, name, store, found):
    app = application(topology(name, store))
    for (k, time), expected in zip([("a", 20), ("b", 70), ("c", 147), ("d", 163), ("e", 308)], found, strict=True):
        app.append(FACTS, [((k,), (5,), time * S)])
        app.run()
        assert segments(app, store) == [each * S for each in expected]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (
            "put({'k': 'a'}, {'n': 1}, 1.5)",
            "a time in a key of the store 'windows' is no whole number of ms since 1970: 1.5",
        ),
        ("put({'k': 'a'}, {'n': 1, 'every': []}, -1)", "lies before 1970: -1"),
        ("put({'k': 'a'}, {'n': 1, 'every': []}, 2**62 - 1)", "lies after 9999, in milliseconds: 4611686018427387903"),
        ("put_many(pa.table({'k': ['a'], '_start': [253402300800000]}))", "lies after 9999"),
        ("put({'k': 'a'}, {'n': 'x', 'every': []}, 1)", "a row of the store 'windows': n: "),
        ("put({'k': None}, {'n': 1, 'every': []}, 1)", "a key of the store 'windows' cannot be null"),
        ("fetch({'k': 'a'}, '1s')", "is asked for times in whole ms, not for '1s'"),
        ("get({'k': 'a'})", "a window store has no `get`: did you mean `fetch(key, start)`? It has put, fetch,"),
        ("fetchAll(1, 2)", "did you mean `fetch_all`?"),
        ("put_many(pa.table({'k': ['a'], '_start': [-1]}))", "lies before 1970: -1"),
        ("get_many(pa.table({'k': ['a']}))", "a batch for 'windows' lacks the column '_start'; it has k"),
        ("all(from_key={'q': 'a'})", "a key of the store 'windows': it lacks k, and 'q' is no column"),
    ],
)
def test_call_that_does_not_fit_is_told(application, call, error):
    code = f"""
import pyarrow as pa

class Wrong:
    def init(self, context):
        self.rows = context.store("windows")

    def process(self, record):
        self.rows.{call}
"""
    function = PythonFunction("functions.code:Wrong", PythonCode((("functions/code.py", code),)))
    step = Process("f", function, "f", {"f": Flow(OUT.key, OUT.value)}, stores=(WINDOWS,), at="process")
    app = application(part("only", 1, (((Source(FACTS, "f"), step, Sink("f", OUT)), {}, {}),), (WINDOWS,)))
    app.append(FACTS, [(("a",), (1,), 5)])
    assert error in app.attempt().error


@pytest.mark.parametrize(
    ("words", "kind"),
    [(KEY_VALUE, KeyValueStore), (WINDOW, WindowStore), (SESSION, SessionStore), (CONTEXT, ProcessorContext)],
)
def test_words_that_an_error_lists_are_those_that_there_are(words, kind):
    inner = {"key_types", "name", "clock", "expect", "sweep", "late", "flush", "begin", "end"}
    assert {*words.here} == {each for each in dir(kind) if not each.startswith("_")} - inner


class CountedRows:
    """A thousand rows, and how many of them somebody has taken."""

    position = 0

    def __init__(self, rows):
        self.rows, self.taken = rows, 0

    def get_many(self, keys):
        return [self.rows.get(key) for key in keys]

    def range(self, start, end, *, reverse=False):
        for key in sorted(self.rows, reverse=reverse):
            if (start is None or key >= start) and (end is None or key < end):
                self.taken += 1
                yield key, self.rows[key]


@pytest.mark.parametrize("reverse", [False, True])
def test_first_rows_of_a_long_range_are_taken_without_the_others(reverse):
    codec = RowCodec({"n": pa.int64()})
    numbers = [b"%04d" % number for number in range(1000)]
    committed = CountedRows(dict(zip(numbers, codec.encode([pa.array(range(1000))], np.zeros(1000, int)), strict=True)))
    rows = EpochRows("rows", codec.types, EpochStore(committed), Moment.at_start(-1))
    rows.put(b"0500", None, 1)
    first = next(rows.between(None, None, reverse=reverse))
    assert [row.n for _, row, _ in first[:3]] == ([999, 998, 997] if reverse else [0, 1, 2])
    assert committed.taken < 20


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_random_cuts_clients_and_failures_change_nothing(application, name):
    store, model = MODELS[name]
    app = application(topology(name, store), log="sparse")
    app.append(FACTS, facts(4))
    app.run_randomly(4, moving=True)
    assert written(app) == model(facts(4))[1]


KEEPING = """
later = []

class Keeping:
    def init(self, context):
        self.rows = context.store("{store}")

    def process(self, record):
        if record.value.v == 1:
            later.append(self.rows.{call})
        else:
            list(later[0])
"""


@pytest.mark.parametrize(
    ("store", "call"),
    [
        (WINDOWS, "all()"),
        (WINDOWS, "fetch(record.key, 0, 9)"),
        (WINDOWS, "fetch_all(0, 9)"),
        (SESSIONS, "all()"),
        (SESSIONS, "fetch(record.key)"),
        (SESSIONS, "fetch_all(0, 9)"),
        (SESSIONS, "find_sessions(record.key, 0, 9)"),
        (SESSIONS, "find_all_sessions(0, 9)"),
    ],
)
def test_iterator_that_is_kept_from_an_earlier_epoch_is_refused(application, store, call):
    text = KEEPING.format(store=store.name, call=call)
    code = PythonFunction("functions.code:Keeping", PythonCode((("functions/code.py", text),)))
    step = Process("f", code, "f", {"f": Flow(OUT.key, OUT.value)}, stores=(store,), at="process")
    app = application(part("only", 1, (((Source(FACTS, "f"), step, Sink("f", OUT)), {}, {}),), (store,)))
    app.append(FACTS, [(("a",), (1,), 5)])
    app.run()
    app.append(FACTS, [(("a",), (2,), 6)])
    assert "are of one epoch, and that of this one has ended" in app.attempt().error
