"""Records that fail: they are left out or end their task, and all that is left is as if they had never come."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from io import StringIO

import pytest

from headwater.readable_text import visible
from headwater.runtime import subtopology
from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.errors import Stop, TasksOfCause, WaitsFor
from headwater.runtime.driver.event_lines import JsonLines, Lines
from headwater.runtime.driver.events import EpochCommitted, Event, Observers, TasksWait, WaitEnded
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.driver.status import RunStatus
from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.process import Process
from headwater.runtime.engine.operators.stateless import Call, KeyBy, ToStream
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.functions import PythonCode, PythonFunction, Udf
from headwater.runtime.ir.topology import Agg, Store, Topic, dead_letter_topic
from headwater.runtime.ir.windows import Window
from headwater.runtime.task_id import TaskId
from headwater.tests.runtime.local.local_application import APPLICATION, LocalApplication, Part, part
from headwater.tests.runtime.local.summing import PARTITIONS, TOTALS, WORDS

MOST = 2**63 - 1
AT = "topologies/t.yml:7"
LETTERS = dead_letter_topic("t_words_dead_letter", WORDS, APPLICATION)


def summed(on_error="fail", places=None):
    """Numbers of each key, summed up; a sum that overflows fails."""
    words = replace(WORDS, on_error=on_error)
    sums = Topic("sums", PARTITIONS, "k string", "n bigint, s bigint", writer=APPLICATION)
    kept = LETTERS if "dead_letter" in (on_error, *(places or {}).values()) else None
    nodes = (Source(words, "f", dead_letter=kept), Aggregate("f", TOTALS, at=AT), Sink("f", sums, "each_update"))
    made = part("sums", PARTITIONS, ((nodes, {}, {}),), (TOTALS,))
    letters = {"words": LETTERS} if kept else {}
    return replace(
        made, subtopology=replace(made.subtopology, sources=(words,), on_error=places or {}, dead_letters=letters)
    )


def fed(app: LocalApplication) -> LocalApplication:
    app.append(WORDS, [((key,), (x,), n) for n, (key, x) in enumerate([("a", 1), ("a", MOST), ("b", 5), ("a", 2)])])
    app.append(WORDS, [(("c",), (7,), 1)], 1)
    return app


def sums(app: LocalApplication) -> list[tuple[str, int, int]]:
    topic = Topic("sums", PARTITIONS, "k string", "n bigint, s bigint", writer=APPLICATION)
    return sorted((row["key.k"], row["value.n"], row["value.s"]) for row in app.read(topic))


WITHOUT = [("a", 1, 1), ("a", 2, 3), ("b", 1, 5), ("c", 1, 7)]


@pytest.mark.parametrize("max_records", [1, 2, 100])
def test_record_that_fails_is_skipped_and_the_others_are_as_if_it_had_never_come(tmp_path, max_records) -> None:
    app = fed(LocalApplication(tmp_path, [summed("skip")]))
    result = app.run(max_records)
    assert sums(app) == WITHOUT
    assert app.dropped == {f"{AT}:skipped": 1}
    assert result.records == 5


@pytest.mark.parametrize("max_records", [1, 2, 100])
def test_record_that_fails_is_kept_as_a_dead_letter_with_the_epoch(tmp_path, max_records) -> None:
    app = fed(LocalApplication(tmp_path, [summed("dead_letter")]))
    app.run(max_records)
    assert sums(app) == WITHOUT
    (letter,) = app.read(LETTERS)
    assert letter["value.key"] == '{"k": "a"}'
    assert letter["value.value"] == f'{{"x": {MOST}}}'
    assert [letter[f"value.{name}"] for name in ("topic", "partition", "offset", "step")] == ["words", 0, 1, AT]
    assert letter["value.error"] == "sum overflows bigint (cast the argument to a wider type)"


@pytest.mark.parametrize(("topic", "flow"), [("fail", "skip"), ("dead_letter", "skip")])
def test_what_the_flow_says_counts_before_what_the_topic_says(tmp_path, topic, flow) -> None:
    app = fed(LocalApplication(tmp_path, [summed(topic, {AT: flow})]))
    app.run()
    assert sums(app) == WITHOUT
    assert app.dropped == {f"{AT}:skipped": 1}


def test_flow_may_fail_where_its_topic_skips(tmp_path) -> None:
    app = fed(LocalApplication(tmp_path, [summed("skip", {AT: "fail"})]))
    result = app.attempt()
    assert result.status == "failed"
    assert f"{AT}: record words[0]@1 cannot be processed: sum overflows bigint" in (result.error or "")
    assert sums(app) == [("c", 1, 7)]


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_record_from_before_1970_does_not_advance_the_time(tmp_path, policy) -> None:
    app = LocalApplication(tmp_path, [summed(policy)])
    app.append(WORDS, [(("a",), (1,), 5), (("a",), (2,), -7), (("a",), (3,), 4)])
    app.run()
    assert sums(app) == [("a", 1, 1), ("a", 2, 4)]
    if policy == "dead_letter":
        (letter,) = app.read(LETTERS)
        assert (letter["value.timestamp"].timestamp(), letter["_timestamp"], letter["_order"]) == (-0.007, 0, 5)


def test_record_from_after_9999_is_a_dead_letter_without_a_time_and_does_not_advance_it(tmp_path) -> None:
    app = LocalApplication(tmp_path, [summed("dead_letter")])
    app.append(WORDS, [(("a",), (1,), 5), (("a",), (2,), 2**62), (("a",), (3,), 4)])
    app.run()
    assert sums(app) == [("a", 1, 1), ("a", 2, 4)]
    (letter,) = app.read(LETTERS)
    assert (letter["value.timestamp"], letter["_timestamp"], letter["_order"]) == (None, 5, 5)
    assert f"has the timestamp {2**62}, which lies after 9999" in letter["value.error"]


def test_task_that_fails_names_all_records_that_its_stores_let_know(tmp_path) -> None:
    app = LocalApplication(tmp_path, [summed()])
    app.append(WORDS, [(("a",), (x,), n) for n, x in enumerate([1, MOST, MOST, 3, MOST])])
    result = app.attempt()
    assert result.error is not None
    assert "record words[0]@1 cannot be processed" in result.error
    assert "and topologies/t.yml:7: record words[0]@2 cannot be processed" in result.error
    assert "and topologies/t.yml:7: record words[0]@4 cannot be processed" in result.error


def test_two_records_that_overflow_together_are_left_out_one_after_the_other(tmp_path) -> None:
    app = LocalApplication(tmp_path, [summed("skip")])
    app.append(WORDS, [(("a",), (x,), n) for n, x in enumerate([MOST, 1, -1, 1, 1])])
    app.run()
    assert sums(app) == [("a", 1, MOST), ("a", 2, MOST - 1), ("a", 3, MOST)]
    assert app.dropped == {f"{AT}:skipped": 2}


PAIRS = Topic("pairs", 1, "k string", "x bigint, y bigint", on_error="skip")


def summed_twice():
    """The sums of x, and in a later step those of y."""
    stores = [
        Store(f"{c}s", 1, "k string", "s bigint", aggregates=(Agg("s", "sum", c, "bigint", "bigint"),)) for c in "xy"
    ]
    topics = [Topic(f"{c}_sums", 1, "k string", "s bigint", writer=APPLICATION) for c in "xy"]
    nodes = [Source(PAIRS, ("f", "g"))]
    for edge, store, topic in zip("fg", stores, topics, strict=True):
        nodes += [Aggregate(edge, store, at=f"t.yml:{store.name}"), Sink(edge, topic, "each_update")]
    made = part("pairs", 1, ((tuple(nodes), {}, {}),), tuple(stores))
    return replace(made, subtopology=replace(made.subtopology, sources=(PAIRS,))), topics


@pytest.mark.parametrize("max_records", [1, 2, 100])
def test_record_that_fails_at_a_later_step_is_left_out_before_a_later_record_that_it_made_fail(
    tmp_path, max_records
) -> None:
    made, topics = summed_twice()
    app = LocalApplication(tmp_path, [made])
    # The second record overflows y. With its x, which is stored first, the third one would overflow x.
    pairs = [(0, 1), (MOST, MOST), (1, 0), (2, 3)]
    app.append(PAIRS, [(("a",), pair, n) for n, pair in enumerate(pairs)])

    app.run(max_records)

    assert app.dropped == {"t.yml:ys:skipped": 1}
    assert [[row["value.s"] for row in app.read(topic)] for topic in topics] == [[0, 1, 3], [1, 1, 4]]


def test_task_that_fails_stops_alone_and_the_rerun_goes_on_after_the_fix(tmp_path) -> None:
    app = LocalApplication(tmp_path, [summed()])
    app.append(WORDS, [(("a",), (x,), n) for n, x in enumerate([1, MOST, 2])])
    app.append(WORDS, [(("b",), (1,), n) for n in range(20)], 1)
    result = app.attempt(app.settings(max_records=2))
    assert result.status == "failed"
    assert sums(app)[-1] == ("b", 20, 20)
    assert "record words[0]@1" in (result.error or "")

    fixed = LocalApplication(tmp_path, [summed("skip")])
    fixed.run()
    assert [each for each in sums(fixed) if each[0] == "a"] == [("a", 1, 1), ("a", 2, 3)]


def summed_in_windows(on_error="fail"):
    """Sums of each key, re-keyed into one partition and counted in windows there."""
    by_key = Topic("by_key", 1, "k string", "n bigint, s bigint", writer=APPLICATION)
    windows = Store(
        "windows",
        1,
        "k string",
        "n bigint",
        type="window",
        window=Window(10, 10, 0),
        retention_ms=10,
        aggregates=(Agg("n", "count"),),
    )
    nodes = (
        Source(replace(WORDS, on_error=on_error), "f"),
        Aggregate("f", TOTALS, at=AT),
        ToStream("f"),
        KeyBy("f", {"k": "k"}),
        Sink("f", by_key, "repartition"),
    )
    counted = (Source(by_key, "f"), Aggregate("f", windows, at="windows"), Sink("f", COUNTS, "each_update"))
    return (
        part("sums", PARTITIONS, ((nodes, {}, {}),), (TOTALS,)),
        part("windows", 1, ((counted, {}, {}),), (windows,)),
    )


class Told:
    """What a run tells of tasks that wait."""

    def __init__(self) -> None:
        self.waits: list[Event] = []

    def on(self, event: Event) -> None:
        if isinstance(event, TasksWait | WaitEnded):
            self.waits.append(event)


COUNTS = Topic("counts", 1, "k string", "n bigint", windowed=True, writer=APPLICATION)


def test_who_reads_what_a_stopped_task_writes_waits_so_that_its_records_are_not_late_after_the_fix(tmp_path) -> None:
    app = LocalApplication(tmp_path, summed_in_windows())
    app.append(WORDS, [(("a",), (x,), time) for x, time in [(1, 0), (MOST, 1), (2, 2), (3, 12)]])
    app.append(WORDS, [(("b",), (1,), time) for time in range(0, 1000, 20)], 1)
    told = Told()
    stopped = app.attempt(observer=told)
    assert (stopped.status, stopped.waits_for) == ("failed", (APPLICATION,))
    assert stopped.waiting > 0
    stop = Stop("sum overflows bigint (cast the argument to a wider type)", "words", 0, 1, AT)
    cause = WaitsFor(APPLICATION, "stopped", "sums", 0, stop)
    assert told.waits == [TasksWait(APPLICATION, (TaskId(1, 0),), cause)]
    status = stopped.metrics
    assert (status.failed_tasks, status.stops) == (("0_0",), {"0_0": stop})
    assert status.waits == (TasksOfCause(cause, ("1_0",)),)

    fixed = LocalApplication(tmp_path, summed_in_windows("skip"))
    fixed.run()
    assert fixed.dropped == {f"{AT}:skipped": 1}
    assert [row["_timestamp"] for row in fixed.read(COUNTS) if row["key.k"] == "a"] == [0, 2, 12]


def test_errors_of_all_tasks_that_stop_are_told(tmp_path) -> None:
    app = LocalApplication(tmp_path, [summed()])
    for partition in range(2):
        app.append(WORDS, [(("a",), (MOST,), 0), (("a",), (1,), 1)], partition)
    error = app.attempt().error or ""
    assert "record words[0]@1 cannot be processed" in error
    assert "record words[1]@1 cannot be processed" in error


def test_lasting_run_ends_once_no_task_can_get_a_record_any_more(tmp_path) -> None:
    app = LocalApplication(tmp_path, [summed()])
    for partition in range(PARTITIONS):
        app.append(WORDS, [(("a",), (MOST,), 0), (("a",), (1,), 1)], partition)
    cluster = LocalCluster(expressions=app.expressions)
    (result,) = run_topologies([app.topology], app.settings(), cluster, until_caught_up=False).applications
    assert (result.status, result.commits) == ("failed", 0)


class StopsBehind:
    """Stops a run once a topic has so many records. Until then nobody else does."""

    def __init__(self, records: int) -> None:
        self.stop = threading.Event()
        self._left = records

    def on(self, event: Event) -> None:
        if isinstance(event, EpochCommitted):
            self._left -= event.records
            if self._left <= 0:
                self.stop.set()


def test_lasting_run_goes_on_with_the_tasks_that_have_not_stopped(tmp_path) -> None:
    app = LocalApplication(tmp_path, [summed()])
    app.append(WORDS, [(("a",), (x,), n) for n, x in enumerate([MOST, 1])])
    app.append(WORDS, [(("b",), (1,), n) for n in range(20)], 1)
    observer = StopsBehind(20)
    (result,) = run_topologies(
        [app.topology],
        app.settings(max_records=3),
        LocalCluster(expressions=app.expressions),
        until_caught_up=False,
        observer=observer,
        stop=observer.stop,
    ).applications
    assert result.status == "failed"
    assert sums(app)[-1] == ("b", 20, 20)


CODE = PythonCode(
    (
        ("functions/facts.py", "def half(n):\n    if n % 3 == 0:\n        raise ValueError(n)\n    return n // 2\n"),
        (
            "functions/passing.py",
            "class Passing:\n    def init(self, context):\n        self.context = context\n"
            "    def process(self, record):\n        self.context.forward(record)\n",
        ),
    )
)
HALVES = Topic("halves", 1, "k string", "x bigint, h bigint", writer=APPLICATION)


@pytest.mark.parametrize("behind", [False, True], ids=["first", "behind a processor"])
@pytest.mark.parametrize("max_records", [4, 100])
def test_all_records_that_a_function_fails_for_are_left_out_at_once_each_with_its_reason(
    tmp_path, behind, max_records
) -> None:
    numbers = replace(PAIRS, value="x bigint", on_error="dead_letter")
    letters = dead_letter_topic("t_pairs_dead_letter", numbers, APPLICATION)
    udf = Udf("half", PythonFunction("functions.facts:half", CODE), {"x": "bigint"}, "bigint")
    passing = Process("f", PythonFunction("functions.passing:Passing", CODE), "p", at=3)

    def steps(rows):
        before = (Source(numbers, "f", dead_letter=letters), *([passing] if behind else []))
        return rows.process(*before, Call("f", "h", udf, ("x",), at=4), Sink("f", HALVES))

    app = LocalApplication(tmp_path, [Part(subtopology(0, "halves", file="t.yml")(steps), {})])
    app.append(numbers, [(("a",), (n,), n) for n in range(20)])
    app.run(max_records)

    assert [row["value.h"] for row in app.read(HALVES)] == [n // 2 for n in range(20) if n % 3]
    said = "functions.facts:half raised ValueError: {}\n  functions/facts.py:3, in half: raise ValueError(n)"
    assert [row["value.error"] for row in app.read(letters)] == [said.format(n) for n in range(0, 20, 3)]
    # Attempt 0 fails before it writes a file, and the next one has left out all: one after another is for steps behind
    # others that keep something, as what these have kept of one record may be why the next one fails.
    attempts = {each.stem.rpartition("-")[2] for each in (app.path / "log").rglob("*-halves-*.seg")}
    assert attempts == {"a1"} or behind


ODD_ERRORS = """
class Odd(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def half(n):
    if n == 0:
        raise ValueError("lone \\udc80 \\ud800")
    if n == 1:
        raise KeyError("\\x1b[2J\\r\\n12:00:00 all is well\\u202e\\x85")
    if n == 2:
        raise Odd
    if n == 3:
        raise type("Odder\\u202e", (ValueError,), {"__str__": lambda self: 5})
    return n // 2
"""
"""Errors whose texts nobody can write, or that have none."""

ODD_TEXTS = [
    "functions.facts:half raised ValueError: lone \\udc80 \\ud800",
    "functions.facts:half raised KeyError: '\\x1b[2J\\r\\n12:00:00 all is well\\u202e\\x85'",
    "functions.facts:half raised Odd",
    "functions.facts:half raised Odder\\u202e",
]


@pytest.mark.parametrize("on_error", ["dead_letter", "fail", "skip"])
def test_errors_whose_texts_nobody_can_write_end_nothing_else(tmp_path, on_error, capsys) -> None:
    numbers = replace(PAIRS, value="x bigint", on_error=on_error)
    letters = dead_letter_topic("t_pairs_dead_letter", numbers, APPLICATION) if on_error == "dead_letter" else None
    code = PythonCode((("functions/facts.py", ODD_ERRORS),))
    udf = Udf("half", PythonFunction("functions.facts:half", code), {"x": "bigint"}, "bigint")

    def steps(rows):
        return rows.process(
            Source(numbers, "f", dead_letter=letters), Call("f", "h", udf, ("x",), at=4), Sink("f", HALVES)
        )

    app = LocalApplication(tmp_path, [Part(subtopology(0, "halves", file="t.yml")(steps), {})])
    app.append(numbers, [(("a",), (n,), n) for n in range(5)])
    log = StringIO()
    result = app.attempt(observer=Observers(Lines(), JsonLines(log)))

    printed = capsys.readouterr().err + log.getvalue()
    assert visible(printed, lines=True) == printed
    assert not [line for line in printed.splitlines() if line.startswith("12:00:00 all is well")]
    assert [json.loads(line) for line in log.getvalue().splitlines()]
    status = RunStatus.from_text(APPLICATION, app.log.read_status(APPLICATION) or "")
    assert status is not None
    if on_error == "fail":
        assert ODD_TEXTS[0] in (result.error or "")
        assert status.ended == "failed"
    else:
        assert (result.status, status.ended) == ("caught_up", "caught_up")
        assert [row["value.h"] for row in app.read(HALVES)] == [2]
    if letters is not None:
        errors = [row["value.error"].partition("\n  functions")[0] for row in app.read(letters)]
        assert errors == ODD_TEXTS
