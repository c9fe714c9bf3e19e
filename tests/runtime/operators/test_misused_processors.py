"""What processors give that no record can have, contexts that are used too late, and errors of any kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headwater.runtime.engine.execution.order.origins import Origins
from headwater.runtime.engine.execution.processing.punctuation import Schedules
from headwater.runtime.engine.operators.operator import Flow
from headwater.runtime.engine.operators.process import Process
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.functions import PythonCode, PythonFunction
from headwater.runtime.ir.topology import Store, Topic
from headwater.tests.runtime.local.local_application import part

FACTS = Topic("facts", 1, "k string", "v bigint")
OUT = Topic("out", 1, "k string", "n bigint, text string", writer="test-app")
SEEN = Store("seen", 1, "k string", "n bigint, every array<bigint>")
MANY = Topic(
    "many",
    1,
    "k string",
    "n bigint, text string, price decimal(5,2), at timestamp, parts array<string>, ok boolean, x double",
    writer="test-app",
)
GOOD = {
    "k": 'pa.array(["a"])',
    "n": "pa.array([1])",
    "text": 'pa.array(["t"])',
    "price": 'pa.array([Decimal("1.25")], pa.decimal128(5, 2))',
    "at": 'pa.array([0], pa.timestamp("us", "UTC"))',
    "parts": 'pa.array([["p"]], pa.list_(pa.string()))',
    "ok": "pa.array([True])",
    "x": "pa.array([0.5])",
}
BATCHES = """
from decimal import Decimal

import pyarrow as pa


class Batches:
    def process_batch(self, batch):
        given = {%s}
        if batch["v"].to_pylist() != [1]:
            given = {name: pa.concat_arrays([pa.array(column)] * len(batch)) for name, column in GOOD().items()}
        return pa.table(given)


def GOOD():
    return {%s}
"""


def processing(code, name, stores=(), topic=FACTS, into=OUT):
    function = PythonFunction(f"functions.code:{name}", PythonCode((("functions/code.py", code),)))
    step = Process("f", function, "f", {"f": Flow(into.key, into.value)}, stores=stores, at="p:1")
    return part("only", 1, (((Source(topic, "f"), step, Sink("f", into)), {}, {}),), stores)


def columns(**changed):
    return ", ".join(f"{name!r}: {value}" for name, value in {**GOOD, **changed}.items())


def batches(topic=FACTS, **changed):
    return processing(BATCHES % (columns(**changed), columns()), "Batches", topic=topic, into=MANY)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"_kind": "pa.array([7])"}, "row 0: `_kind` is 1, or 0 where the value is null, not 7"),
        ({"_kind": "pa.array([-1])"}, "`_kind` is 1, or 0 where the value is null, not -1"),
        ({"_kind": "pa.array([None], pa.int8())"}, "not None"),
        ({"_kind": "pa.array([300])"}, "'_kind' of a batch for 'forward': an array of int64 is no tinyint"),
        ({"_timestamp": "pa.array([2**62])"}, "the timestamp lies after 9999, in milliseconds: 4611686018427387904"),
        ({"_timestamp": "pa.array([253402300800000])"}, "row 0 of the column '_timestamp' of a batch for 'forward'"),
        ({"_timestamp": "pa.array([-1])"}, "the timestamp lies before 1970: -1"),
        ({"_timestamp": "pa.array([None], pa.int64())"}, "'_timestamp' of a batch for 'forward' cannot be null"),
        ({"_timestamp": 'pa.array([0], pa.timestamp("us"))'}, "an array of timestamp[us] is no bigint"),
        ({"_headers": 'pa.array(["no json"])'}, "row 0: `_headers` is null, or JSON with texts by name"),
        ({"_headers": "pa.array(['[1]'])"}, "not '[1]'"),
        ({"_headers": "pa.array(['{\"a\": 1}'])"}, "`_headers` is null, or JSON with texts by name"),
        ({"_headers": 'pa.array([r\'{"a": "\\ud800"}\'])'}, "`_headers` is null, or JSON with texts by name"),
        ({"text": 'pa.array([b"\\xff"]).view(pa.string())'}, "'text' of a batch for 'forward': row 0: b'\\xff' is no"),
        ({"k": 'pa.array([b"\\xff"]).view(pa.string())'}, "'k' of a batch for 'forward': row 0: b'\\xff' is no string"),
        (
            {"parts": 'pa.ListArray.from_arrays([0, 1], pa.array([b"\\xff"]).view(pa.string()))'},
            "row 0: a text that is not UTF-8 is no array<string>",
        ),
        ({"n": 'pa.array(["1"])'}, "'n' of a batch for 'forward': an array of string is no bigint"),
        ({"n": "pa.array([True])"}, "an array of bool is no bigint"),
        ({"n": "pa.array([1.5])"}, "an array of double is no bigint: Float value 1.5"),
        ({"n": 'pa.array([float("nan")])'}, "an array of double is no bigint"),
        ({"n": "pa.array([2**63], pa.uint64())"}, "an array of uint64 is no bigint"),
        ({"text": "pa.array([1])"}, "an array of int64 is no string"),
        ({"price": 'pa.array([Decimal("1.255")])'}, "an array of decimal128(4, 3) is no decimal(5,2)"),
        ({"price": "pa.array([1.25])"}, "an array of double is no decimal(5,2)"),
        ({"price": 'pa.array([Decimal("1234.00")])'}, "is no decimal(5,2)"),
        ({"at": "pa.array([5])"}, "an array of int64 is no timestamp"),
        ({"at": 'pa.array([0], pa.timestamp("us"))'}, "an array of timestamp[us] is no timestamp"),
        (
            {"at": 'pa.array([2**62], pa.timestamp("us", "UTC"))'},
            "'at' of a batch for 'forward': row 0: a time outside of the years 1 to 9999 is no timestamp",
        ),
        ({"at": 'pa.array([1], pa.timestamp("ns", "UTC"))'}, "would lose data"),
        ({"parts": "pa.array([[1]])"}, "is no array<string>"),
        ({"ok": "pa.array([1])"}, "an array of int64 is no boolean"),
        ({"x": 'pa.array(["0.5"])'}, "an array of string is no double"),
    ],
)
def test_batch_with_a_value_that_no_record_has_is_an_error_of_its_record(application, changed, error):
    app = application(batches(**changed))
    app.append(FACTS, [(("a",), (1,), 5)])
    found = app.attempt().error
    assert "p:1: record facts[0]@0 cannot be processed: functions.code:Batches (process_batch) raised" in found
    assert error in found
    assert app.read(MANY) == []


def test_only_the_record_of_such_a_batch_is_left_out_and_counted(application):
    skipping = replace(FACTS, on_error="skip")
    app = application(batches(skipping, _timestamp="pa.array([2**62])"))
    app.append(skipping, [(("a",), (value,), 5 + value) for value in (0, 1, 2)])
    assert app.run(1).dropped == {"p:1:skipped": 1}
    assert [row["_timestamp"] for row in app.read(MANY)] == [5, 7]


@pytest.mark.parametrize(
    "changed",
    [
        {"k": 'pa.array(["a"]).dictionary_encode()', "text": 'pa.array(["t"]).dictionary_encode()'},
        {"text": 'pa.chunked_array([["t"], []])', "n": "pa.chunked_array([[], [1]], pa.int64())"},
        {"text": 'pa.array(["no", "t", "no"]).slice(1, 1)', "n": "pa.array([7, 1, 9])[1:2]"},
        {"k": 'pa.array(["x", "a"])[1:]', "parts": 'pa.array([["no", "n"], ["p"], []])[1:2]'},
        {"text": 'pa.array(["t"], pa.large_string())', "parts": 'pa.array([["p"]], pa.large_list(pa.string()))'},
        {"text": 'pa.array([b"\\xff", b"t"]).view(pa.string())[1:]'},
        {"n": "pa.array([1], pa.int8())", "x": "pa.array([0.5], pa.float32())"},
        {"n": "pa.array([1.0])", "price": 'pa.array([Decimal("1.250")])'},
        {"text": "pa.compute.run_end_encode(pa.array(['t']))"},
        {"at": 'pa.array([0], pa.timestamp("ms", "Europe/Berlin"))'},
        {"_headers": 'pa.array([\'{"h":"1"}\'])', "_timestamp": "pa.array([9], pa.int32())", "_kind": "pa.array([1])"},
    ],
)
def test_array_that_holds_the_same_values_in_another_way_fits(application, changed):
    app = application(batches(**changed))
    app.append(FACTS, [(("a",), (1,), 9)])
    app.run()
    (row,) = app.read(MANY)
    values = {name: row[f"value.{name}"] for name in GOOD if name != "k"}
    assert (row["key.k"], values["n"], values["text"], values["parts"], values["x"]) == ("a", 1, "t", ["p"], 0.5)
    assert (str(values["price"]), values["at"].year, values["ok"], row["_timestamp"]) == ("1.25", 1970, True, 9)
    assert row["_headers"] == ('{"h":"1"}' if "_headers" in changed else None)


def test_record_with_a_null_value_has_no_columns_of_one(application):
    app = application(batches(_kind="pa.array([0])"))
    app.append(FACTS, [(("a",), (1,), 9)])
    app.run()
    (row,) = app.read(MANY)
    assert (row["_kind"], row["value.n"], row["value.text"], row["value.parts"]) == (0, None, None, None)


def single(line, method="process", topic=FACTS):
    code = f"""
import threading

from headwater import Record

kept = []
later = []


def once():
    raise ValueError("once")
    yield 1


rows = once()


def taken(record, found):
    return record._replace(value={{"n": len(list(found)), "text": None}})


class Odd:
    @property
    def n(self):
        raise RuntimeError("no n")


class Single:
    def init(self, context):
        self.context = context
        self.store = context.store("seen")
        kept.append((context, self.store, context.schedule("1d", "stream_time", self.tick)))

    def process(self, record):
        pass

    def tick(self, time):
        pass

    def close(self):
        pass

    def {method}(self, *given):
        record = given[0] if given else None
        {line}
"""
    return processing(code, "Single", (SEEN,), topic)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (
            f"self.context.forward(record._replace(timestamp={2**62}, value=None))",
            f"lies after 9999, in milliseconds: {2**62}",
        ),
        (
            "self.context.forward(record._replace(timestamp=253402300800000, value=None))",
            "the timestamp of a forwarded record lies after 9999, in milliseconds: 253402300800000",
        ),
        ("self.context.forward(record._replace(timestamp=-1, value=None))", "lies before 1970: -1"),
        ("self.context.forward(record._replace(timestamp=True, value=None))", "is no whole number of ms since 1970"),
        ("self.context.forward(record._replace(headers={'h': '\\ud800'}, value=None))", "texts that UTF-8 can write"),
        (
            "import pyarrow as pa; self.store.put_many(pa.table({'k': ['a'], 'n': [1], 'every': [[1]],"
            " '_timestamp': [2**62]}))",
            "row 0 of the column '_timestamp' of a batch for 'seen': the timestamp lies after 9999",
        ),
        (
            "import pyarrow as pa; self.store.put_many(pa.table({'k': pa.array([b'\\xff']).view(pa.string()),"
            " 'n': [1], 'every': [[1]]}))",
            "the column 'k' of a batch for 'seen': row 0: b'\\xff' is no string",
        ),
        ("self.context.forward(Record({'k': 'a'}, Odd(), 1))", "cannot be read: RuntimeError: no n"),
    ],
)
def test_single_value_that_no_record_has_is_an_error(application, line, error):
    app = application(single(line))
    app.append(FACTS, [(("a",), (1,), 5)])
    assert error in app.attempt().error
    assert app.read(OUT) == []


@pytest.mark.parametrize("time", [253_402_300_799_999, 0])
def test_last_and_first_times_of_records_are_read_again(application, time):
    app = application(single("self.context.forward(record._replace(value=None))"))
    app.append(FACTS, [(("a",), (1,), time)])
    app.run()
    assert [row["_timestamp"] for row in app.read(OUT)] == [time]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("kept[0][0].forward(record._replace(value=None))", "are of one epoch, and that of this one has ended"),
        ("kept[0][1].put(record.key, {'n': 1, 'every': []})", "are of one epoch"),
        ("kept[0][1].get(record.key)", "are of one epoch"),
        ("list(kept[0][1].all())", "are of one epoch"),
        ("kept[0][0].schedule('1s', 'stream_time', self.tick)", "are of one epoch"),
        ("kept[0][0].schedules(self.tick)", "are of one epoch"),
        ("kept[0][2].cancel()", "are of one epoch"),
        ("kept[0][0].stream_time", "are of one epoch"),
        ("kept[0][0].topic", "are of one epoch"),
    ],
)
def test_what_is_kept_from_an_earlier_epoch_is_refused(application, line, error):
    app = application(single(f"if record.value.v == 2:\n            {line}"))
    app.append(FACTS, [(("a",), (1,), 5)])
    app.run()
    app.append(FACTS, [(("a",), (2,), 6)])
    found = app.attempt().error
    assert "record facts[0]@1 cannot be processed: functions.code:Single (process) raised UnfitValueError:" in found
    assert error in found


def test_iterator_of_a_store_that_is_kept_from_an_earlier_epoch_is_refused_as_often_as_it_is_asked(application):
    line = "later.append(self.store.all()) if record.value.v == 1 else self.context.forward(taken(record, later[0]))"
    app = application(single(line))
    app.append(FACTS, [(("a",), (1,), 5)])
    app.run()
    app.append(FACTS, [(("a",), (2,), 6)])
    found = app.attempt().error
    assert "record facts[0]@1 cannot be processed: functions.code:Single (process) raised UnfitValueError:" in found
    assert "are of one epoch, and that of this one has ended" in found
    assert app.read(OUT) == []


def test_record_that_fails_once_is_not_taken_for_processed(application):
    line = "self.context.forward(taken(record, rows))"
    app = application(single(line))
    app.append(FACTS, [(("a",), (1,), 5)])
    found = app.attempt().error
    assert "p:1: " in found
    assert "raised ValueError: once" in found
    assert "when the same records were processed again, nothing failed" in found
    assert app.read(OUT) == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    "line",
    [
        "self.context.forward(record._replace(value=None))",
        "self.store.put(record.key, {'n': 1, 'every': []})",
        "self.store.delete(record.key)",
        "kept[-1][2].cancel()",
    ],
)
def test_another_thread_can_lose_nothing_unseen(application, line):
    text = f"thread = threading.Thread(target=lambda: {line})\n        thread.start()\n        thread.join()"
    app = application(single(text))
    app.append(FACTS, [(("a",), (1,), 5)])
    found = app.attempt().error
    assert "record facts[0]@0 cannot be processed: functions.code:Single (process) raised UnfitValueError" in found
    assert "are used in the thread in which the processor is called, and not in another one" in found


def test_close_cannot_forward(application):
    app = application(single("self.context.forward(Record({'k': 'a'}, None, 1))", "close"))
    app.append(FACTS, [(("a",), (1,), 5)])
    found = app.attempt().error
    assert "functions.code:Single (close, p:1) raised UnfitValueError: `close` cannot forward records" in found


ENDS = [
    ("raise asyncio.CancelledError('stop')", "CancelledError: stop"),
    ("raise SystemExit(3)", "SystemExit: 3"),
    ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ("raise GeneratorExit", "GeneratorExit"),
    ("raise Own('mine')", "Own: mine"),
    ("os._exit(0)", "ProcessExitError: os._exit(0) would end the whole process: raise an error instead"),
    (
        "os.execv('/bin/true', ['true'])",
        "ProcessExitError: os.execv('/bin/true', ['true']) would end the whole process: raise an error instead",
    ),
]


def ending(line, method, batch=False):
    name = "process_batch" if batch else "process"
    fails = "13 in batch['v'].to_pylist()" if batch else "batch.value.v == 13"
    return f"""
import asyncio
import os


class Own(BaseException):
    pass


class Ending:
    def init(self, context):
        self.context = context
        if {method!r} == "tick":
            context.schedule("1s", "stream_time", self.tick)

    def {name}(self, batch):
        if {method!r} != "tick" and {fails}:
            {line}

    def tick(self, time):
        if time == 13:
            {line}
"""


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(("line", "error"), ENDS)
def test_whatever_a_processor_raises_is_of_its_record_and_counted(application, line, error, batch):
    failing = application(processing(ending(line, "process", batch), "Ending"))
    failing.append(FACTS, [(("a",), (value,), value) for value in (12, 13, 14)])
    found = failing.attempt().error
    assert "p:1: record facts[0]@1 cannot be processed: functions.code:Ending (process" in found
    assert f"raised {error}\n  functions/code.py:" in found
    skipping = replace(FACTS, on_error="skip")
    app = application(processing(ending(line, "process", batch), "Ending", topic=skipping))
    app.append(skipping, [(("a",), (value,), value) for value in (12, 13, 14)])
    assert app.run().dropped == {"p:1:skipped": 1}


@pytest.mark.parametrize(("line", "error"), ENDS)
def test_whatever_a_punctuation_raises_ends_the_run_and_is_named(application, line, error):
    app = application(processing(ending(line, "tick"), "Ending"))
    app.append(FACTS, [(("a",), (13,), 13)])
    assert f"functions.code:Ending (tick, a punctuation, p:1) raised {error}\n  functions/code.py:" in (
        app.attempt().error
    )


CHAIN = """
class Chain:
    def init(self, context):
        self.context = context

    def process(self, record):
        self.context.schedule("5s", "stream_time", self.again)

    def again(self, time):
        self.context.schedule("5s", "stream_time", self.again)
"""


@pytest.mark.parametrize("times", [1, 2])
def test_punctuation_that_makes_itself_at_the_same_time_for_ever_is_ended_and_named(application, times):
    app = application(processing(CHAIN + CHAIN.splitlines()[-1] + "\n" if times == 2 else CHAIN, "Chain"))
    app.append(FACTS, [(("a",), (1,), 7)])
    found = app.attempt().error
    assert "the punctuation `again` of f, every 5000 ms of stream time, is scheduled at 7 by one that" in found
    assert "for the 10,001th time" in found
    assert "do not make another one when it runs" in found


class Counted(int):
    """A length of time that counts how often it is compared."""

    compared = 0

    def __eq__(self, other):
        Counted.compared += 1
        return int(self) == other

    def __hash__(self):
        return hash(int(self))


def test_schedules_of_init_are_found_without_going_through_all(application):
    count = 1_000

    def epoch(before):
        schedules = Schedules("p", 0, before, Origins(0, np.array([5, 6])), 0, lambda: None)
        for number in range(count):
            schedules.of_init(f"{1 + number % 2}s", "stream_time", print)
        return [replace(each, interval_ms=Counted(each.interval_ms)) for each in schedules.left()]

    left = epoch(epoch([]))
    assert len(left) == count
    assert Counted.compared <= 4 * count


class Named:
    """What a schedule calls, which counts how often its name is asked for."""

    asked = 0

    def __init__(self, name):
        self.name = name

    def __call__(self, time):
        pass

    @property
    def __name__(self):
        Named.asked += 1
        return self.name


def test_schedules_of_a_method_are_found_without_going_through_those_of_others():
    schedules = Schedules("p", 0, [], Origins(0, np.array([5, 6])), 0, lambda: None)
    made = [schedules.of_init("1s", "stream_time", Named(f"m{number % 100}")) for number in range(1_000)]
    made[7].cancel()
    Named.asked = 0
    assert schedules.running("m7") == made[107::100]
    assert schedules.running("m8") == made[8::100]
    assert Named.asked <= 20


@pytest.mark.parametrize("time", [2**62, 253_402_300_800_000, -1])
def test_record_of_a_topic_with_a_time_that_no_record_has_fails_and_moves_no_time(application, time):
    line = "self.context.forward(Record(record.key, {'n': self.context.stream_time, 'text': None}, record.timestamp))"
    stopped = application(single(line))
    stopped.append(FACTS, [(("a",), (1,), 5), (("a",), (2,), time), (("a",), (3,), 7)])
    fault = "lies before 1970" if time < 0 else "lies after 9999, in milliseconds"
    assert f"record 1 of facts-0 has the timestamp {time}, which {fault}" in stopped.attempt().error
    skipping = replace(FACTS, on_error="skip")
    app = application(single(line, topic=skipping))
    app.append(skipping, [(("a",), (1,), 5), (("a",), (2,), time), (("a",), (3,), 7)])
    assert app.run().dropped == {"facts:skipped": 1}
    assert [(row["value.n"], row["_timestamp"]) for row in app.read(OUT)] == [(5, 5), (7, 7)]
