"""Processors that share a store, beside a computation that takes one record after another, wherever epochs end."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from headwater.runtime.engine.execution.computing import computing
from headwater.runtime.engine.operators.operator import Flow
from headwater.runtime.engine.operators.process import Process
from headwater.runtime.engine.operators.stateless import Fork
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.engine.sql_step import SqlStep
from headwater.runtime.ir.functions import PythonCode, PythonFunction
from headwater.runtime.ir.topology import Store, Topic, dead_letter_topic
from headwater.tests.runtime.local.local_application import WHOLE, part
from headwater.tests.runtime.local.streams_in_cuts import kinds_in_cuts

LEFT = Topic("left", 1, "k string", "v bigint")
RIGHT = Topic("right", 1, "k string", "v bigint")
OUTS = [Topic(f"out{number}", 1, "k string", "text string", writer="test-app") for number in range(3)]
LETTERS = dead_letter_topic("left_dead_letter", LEFT, "test-app")
TEXT = Flow("k string", "text string")
SEEN = Store("seen", 1, "k string", "every array<string>")
CODE = """
from headwater import Record

class Noting:
    def __init__(self, name, every, fails=None):
        self.name, self.every, self.fails = name, every, fails

    def init(self, context):
        self.context, self.seen = context, context.store("seen")
        context.schedule(self.every, "stream_time", self.tick)

    def process(self, record):
        word = f"{self.name}{record.value.v if hasattr(record.value, 'v') else record.value.text}"
        for each in (1, 2):
            row = self.seen.get(record.key)
            every = [*(row.every if row else []), word][-3:]
            self.seen.put(record.key, {"every": every})
            try:
                self.context.forward(Record(record.key, {"text": f"{word}:{''.join(every)}"[-9:]}, record.timestamp))
            except Exception:
                pass
        if word == self.fails:
            raise ValueError(word)

    def tick(self, time):
        rows = "".join(f"{key.k}{len(row.every)}" for key, row in self.seen.all())
        self.context.forward(Record({"k": "tick"}, {"text": f"{self.name}{time}{rows}"[-9:]}, time))
        for key, row in self.seen.all():
            if self.name in row.every[-1]:
                self.seen.delete(key)
"""


def noting(name, flow, every, fails=None, **fields):
    code = PythonFunction("functions.code:Noting", PythonCode((("functions/code.py", CODE),)))
    options = {"name": name, "every": every, "fails": fails}
    place = {"at": f"step:{name}", "turn": "ABC".index(name)}
    return Process(flow, code, name, {flow: TEXT}, stores=(SEEN,), options=options, **place, **fields)


class Model:
    """Processors as Kafka Streams runs them. `behind`: the processors that get what one forwards, and its outputs."""

    def __init__(self, every, behind, fails=None, refused=None):
        self.refused = refused
        self.rows, self.clock, self.out = {}, -1, {number: [] for number in range(3)}
        self.every, self.behind, self.fails, self.words = every, behind, fails, []
        self.due = dict.fromkeys(every, 0)

    def record(self, name, k, v, time):
        self.clock = max(self.clock, time)
        before = dict(self.rows), {number: list(each) for number, each in self.out.items()}
        try:
            self.process(name, k, v, time)
        except ValueError:
            self.rows, self.out = before
        while (at := min((due, list(self.due).index(each), each) for each, due in self.due.items()))[0] <= self.clock:
            self.tick(at[2])
            self.due[at[2]] = (self.clock // self.every[at[2]] + 1) * self.every[at[2]]

    def process(self, name, k, v, time):
        word = f"{name}{v}"
        self.words.append(word)
        for _ in (1, 2):
            self.rows[k] = [*self.rows.get(k, []), word][-3:]
            self.forward(name, k, f"{word}:{''.join(self.rows[k])}"[-9:], time)
        if word == self.fails:
            raise ValueError

    def forward(self, name, k, text, time):
        for reader in self.behind[name]:
            if isinstance(reader, int):
                self.out[reader].append((k, text, time))
            elif self.refused is not None and text.startswith(self.refused):
                raise ValueError
            else:
                self.process(reader, k, text, time)

    def tick(self, name):
        rows = "".join(f"{k}{len(self.rows[k])}" for k in sorted(self.rows))
        self.forward(name, "tick", f"{name}{self.clock}{rows}"[-9:], self.clock)
        for k in [k for k, row in self.rows.items() if name in row[-1]]:
            del self.rows[k]


def facts(seed, records=60):
    chances = random.Random(seed)
    time, made = 0, []
    for number in range(records):
        time += chances.choice([1, 3, 8, 30])
        made.append((chances.choice("ab"), number, time))
    return made


def built(*nodes):
    return part("only", 1, ((nodes, {}, {}),), (SEEN,))


SHAPES = {
    "of two topics": (
        (Source(LEFT, "a"), Source(RIGHT, "b"), noting("A", "a", "20ms"), noting("B", "b", "35ms")),
        ("a", "b"),
        {"A": [0], "B": [1]},
    ),
    "of one topic": (
        (Source(LEFT, "f"), Fork("f", ("a", "b")), noting("A", "a", "20ms"), noting("B", "b", "35ms")),
        ("a", "b"),
        {"A": [0], "B": [1]},
    ),
    "one behind the other": (
        (Source(LEFT, "a"), noting("A", "a", "20ms"), noting("B", "a", "35ms")),
        ("a",),
        {"A": ["B"], "B": [0]},
    ),
    "two behind one": (
        (
            *(Source(LEFT, "a"), noting("A", "a", "20ms"), Fork("a", ("a", "c", "b"))),
            *(noting("B", "b", "35ms"), noting("C", "c", "20ms")),
        ),
        ("a", "b", "c"),
        {"A": [0, "C", "B"], "B": [1], "C": [2]},
    ),
}
EVERY = {"A": 20, "B": 35, "C": 20}


@pytest.mark.parametrize(("shape", "seed", "max_records"), kinds_in_cuts(list(SHAPES), 2, SHAPES))
def test_each_sees_what_the_others_have_stored(application, shape, seed, max_records):
    nodes, ends, behind = SHAPES[shape]
    app = application(built(*nodes, *(Sink(end, topic) for end, topic in zip(ends, OUTS, strict=False))))
    model = Model({name: EVERY[name] for name in behind}, behind)
    records = facts(seed)
    two = shape == "of two topics"
    for first, state in ((0, "first"), (30, "lost")):
        these = records[first : first + 30]
        for topic, odd in ((LEFT, 0), (RIGHT, 1)):
            mine = [each for each in these if not two or each[1] % 2 == odd]
            if two or topic is LEFT:
                app.append(topic, [((k,), (v,), time) for k, v, time in mine])
        app.attempt(app.settings(max_records, state=state))
    for k, v, time in records:
        if shape == "of one topic":
            model.clock = max(model.clock, time)
            model.process("A", k, v, time)
            model.record("B", k, v, time)
        else:
            model.record("B" if two and v % 2 else "A", k, v, time)
    for number, _ in enumerate(ends):
        found = [(row["key.k"], row["value.text"], row["_timestamp"]) for row in app.read(OUTS[number])]
        assert found == model.out[number]


@pytest.mark.parametrize("who", ["A", "B"])
@pytest.mark.parametrize("max_records", [1, 7, WHOLE])
def test_record_that_one_of_them_fails_for_leaves_nothing_also_where_the_other_catches_it(
    application, who, max_records
):
    behind, every, records = {"A": ["B"], "B": [0]}, {"A": 20, "B": 35}, facts(7)
    fine = Model(every, behind)
    for k, v, time in records:
        fine.record("A", k, v, time)
    fails = next(word for word in fine.words[20:] if word[0] == who)
    topic = replace(LEFT, on_error="skip")
    steps = (noting("A", "a", "20ms", fails), noting("B", "a", "35ms", fails))
    app = application(built(Source(topic, "a"), *steps, Sink("a", OUTS[0])))
    app.append(topic, [((k,), (v,), time) for k, v, time in records])
    app.run(max_records)
    model = Model(every, behind, fails)
    for k, v, time in records:
        model.record("A", k, v, time)
    assert [(row["key.k"], row["value.text"], row["_timestamp"]) for row in app.read(OUTS[0])] == model.out[0]
    assert app.dropped.total() > 0


FAILING = {
    "a filter": (SqlStep("where", ("a",), condition="1 / if(text like 'A7:%', 0, 1) > 0", at="step:between"), "divi"),
    "a date that Python does not have": (
        SqlStep(
            "with_columns",
            ("a",),
            columns={"late": "date_add(date'9999-12-31', if(text like 'A7:%', 1, 0))"},
            types={"late": "date"},
            at="step:between",
        ),
        "a processor cannot be given this record: late holds",
    ),
}


def failing_between(what, on_error):
    step, error = FAILING[what]
    steps = noting("A", "a", "20ms"), computing(step, TEXT, ("a",)), noting("B", "a", "35ms")
    topic = replace(LEFT, on_error=on_error)
    letters = {LEFT.name: LETTERS} if on_error == "dead_letter" else {}
    made = built(Source(topic, "a", dead_letter=letters.get(LEFT.name)), *steps, Sink("a", OUTS[0]))
    return replace(made, subtopology=replace(made.subtopology, sources=(topic,), dead_letters=letters)), error


@pytest.mark.parametrize("what", FAILING)
@pytest.mark.parametrize("max_records", [1, 7, WHOLE])
def test_record_that_a_step_between_them_fails_for_leaves_nothing(application, what, max_records):
    topology, error = failing_between(what, "dead_letter")
    app = application(topology)
    app.append(LEFT, [((k,), (v,), time) for k, v, time in facts(7)])
    app.run(max_records)
    model = Model({"A": 20, "B": 35}, {"A": ["B"], "B": [0]}, refused="A7:")
    for k, v, time in facts(7):
        model.record("A", k, v, time)
    assert [(row["key.k"], row["value.text"], row["_timestamp"]) for row in app.read(OUTS[0])] == model.out[0]
    (letter,) = app.read(LETTERS)
    assert (letter["value.offset"], letter["value.step"]) == (7, "step:between")
    assert error in letter["value.error"]


@pytest.mark.parametrize("what", FAILING)
def test_record_that_a_step_between_them_fails_for_stops_the_run(application, what):
    topology, error = failing_between(what, "fail")
    app = application(topology)
    app.append(LEFT, [((k,), (v,), time) for k, v, time in facts(7)])
    result = app.attempt()
    assert result.status == "failed"
    assert "step:between: record left[0]@7 cannot be processed: " in result.error
    assert error in result.error


@pytest.mark.slow
def test_random_cuts_clients_and_failures_change_nothing(application):
    nodes, ends, behind = SHAPES["two behind one"]
    app = application(built(*nodes, *(Sink(end, topic) for end, topic in zip(ends, OUTS, strict=True))), log="sparse")
    app.append(LEFT, [((k,), (v,), time) for k, v, time in facts(3)])
    app.run_randomly(3, moving=True)
    model = Model(EVERY, behind)
    for k, v, time in facts(3):
        model.record("A", k, v, time)
    found = [[(row["key.k"], row["value.text"], row["_timestamp"]) for row in app.read(topic)] for topic in OUTS]
    assert found == [model.out[number] for number in range(3)]
