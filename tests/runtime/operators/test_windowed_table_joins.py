"""Joins of two tables with windows beside a computation that takes one record after another, wherever epochs end."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from itertools import product

import pytest

from headwater.runtime import Materialize
from headwater.runtime.engine.operators.aggregations import Aggregate, AggregateSessions, AggregateSliding
from headwater.runtime.engine.operators.joins import StreamTableJoin, TableTableJoin
from headwater.runtime.engine.operators.stateless import Fork
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import Agg, Store, Topic
from headwater.runtime.ir.windows import SessionWindow, SlidingWindow, Window
from headwater.runtime.records.types import Kind
from headwater.tests.runtime.local.local_application import WHOLE, part
from headwater.tests.sampled import chosen

LEFT, RIGHT = (Topic(name, 1, "k string", "v bigint") for name in ("left", "right"))
OUT = {
    how: Topic(f"{how}_rows", 1, "k string", "v bigint, w bigint", windowed=True, writer="test-app")
    for how in ("inner", "left", "outer")
}
CASES = {
    "tumbling": (Window(10, 10, 4), Window(10, 10, 20)),
    "hopping": (Window(10, 5, 0), Window(10, 10, 12)),
    "sessions": (SessionWindow(6, 3), SessionWindow(4, 15)),
    "sliding": (SlidingWindow(8, 2), SlidingWindow(8, 9)),
}


def store(name, window, column):
    type_ = "session" if isinstance(window, SessionWindow) else "window"
    value = f"{column} bigint"
    return Store(name, 1, "k string", value, type=type_, window=window, aggregates=(Agg(column, "count"),))


def aggregate(flow, into, at):
    kinds = {SessionWindow: AggregateSessions, SlidingWindow: AggregateSliding, Window: Aggregate}
    return kinds[type(into.window)](flow, into, at=at)


def topology(windows, kept=False):
    """All joins of the same two tables. `kept`: the left rows are looked up in a second store, as behind a filter."""
    lefts, rights = store("lefts", windows[0], "v"), store("rights", windows[1], "w")
    seen = replace(lefts, name="seen", aggregates=()) if kept else lefts
    nodes = (
        Source(LEFT, ("f",)),
        aggregate("f", lefts, "left"),
        Source(RIGHT, ("r",)),
        aggregate("r", rights, "right"),
        *([Materialize("f", seen, at="seen")] if kept else []),
        Fork("f", tuple(OUT)),
        Fork("r", tuple(f"{how}.r" for how in OUT)),
        *(TableTableJoin(how, f"{how}.r", seen, rights, how, {"w": "w"}, at=how) for how in OUT),
        *(Sink(how, topic, "each_update") for how, topic in OUT.items()),
    )
    return (part("only", 1, ((nodes, {}, {}),), (lefts, rights, *([seen] if kept else []))),)


def records(seed, most=60):
    """Records of both sides: some late, half of the right ones as left ones have been; null keys and null values."""
    rng = random.Random(seed)
    made = {LEFT: [], RIGHT: []}
    for topic in made:
        time = 0
        for number in range(most):
            time += rng.choice([0, 1, 2, 3, 9])
            back = rng.choice([0, 0, 0, 3, 9, 18, 25])
            key = None if rng.random() < 0.05 else (rng.choice("ab"),)
            made[topic].append((key, None if rng.random() < 0.1 else (1,), max(0, time - back)))
            if topic is RIGHT and rng.random() < 0.5:
                made[RIGHT][-1] = made[LEFT][max(0, number - rng.choice([0, 2, 5]))]
    return made


def taken(queues):
    """Records as a task takes them: of the heads of all topics the earliest, of equal ones the one declared first."""
    left = {topic: list(each) for topic, each in queues.items()}
    while any(left.values()):
        topic = min((t for t in left if left[t]), key=lambda t: (left[t][0][2], list(left).index(t)))
        yield topic, left[topic].pop(0)


@dataclass
class Windowed:
    """A table of counts in windows: rows by (key, start, end) as (count, time), and its clock."""

    window: Window | SessionWindow
    rows: dict = field(default_factory=dict)
    clock: int = -1

    def take(self, key, time):
        """The changes that a record makes, each as (key, start, end), row or None, time of the change."""
        before, self.clock = self.clock, max(self.clock, time)
        if isinstance(self.window, SessionWindow):
            yield from self._session(key, time, before)
            return
        size, advance = self.window.size_ms, self.window.advance_ms
        for start in range(max(0, time - size + advance) // advance * advance, time + 1, advance):
            if start + size > self.clock - self.window.grace_ms:
                at = (key, start, start + size)
                count, latest = self.rows.get(at, (0, -1))
                self.rows[at] = (count + 1, max(latest, time))
                yield at, self.rows[at], self.rows[at][1]

    def _session(self, key, time, before):
        gap, grace = self.window.gap_ms, self.window.grace_ms
        found = sorted(
            (end, start)
            for (k, start, end) in self.rows
            if k == key and end >= time - gap and start <= time + gap and end > before - gap - grace
        )
        start, end = min([time, *(s for _, s in found)]), max([time, *(e for e, _ in found)])
        if end < self.clock - gap - grace:
            return
        count = 1 + sum(self.rows[key, s, e][0] for e, s in found)
        if (start, end) != (time, time):
            for e, s in found:
                del self.rows[key, s, e]
                yield (key, s, e), None, e
        self.rows[key, start, end] = (count, end)
        yield (key, start, end), (count, end), end

    def find(self, at):
        """The row that a lookup finds."""
        bound = at[2] if isinstance(self.window, SessionWindow) else at[1]
        return self.rows.get(at) if bound > self.clock - self.window.kept_ms else None


def joined(how, windows, came):
    """(Updates as (key, start, end, row or None, time), how often a row had expired), one record after another."""
    sides = {LEFT: Windowed(windows[0]), RIGHT: Windowed(windows[1])}
    updates, unseen = [], 0
    for topic, (key, _, time) in came:
        if key is None:
            continue
        other = sides[RIGHT if topic is LEFT else LEFT]
        for at, row, at_time in sides[topic].take(key[0], time):
            met = other.find(at)
            unseen += met is None and at in other.rows
            if met is None and (how == "inner" or (how == "left" and topic is RIGHT)):
                continue
            this, that = (row, met) if topic is LEFT else (met, row)
            there = {"inner": this and that, "left": this, "outer": this or that}[how] is not None
            value = ((this or [None])[0], (that or [None])[0]) if there else None
            updates.append((*at, value, at_time if met is None else max(at_time, met[1])))
    return updates, unseen


def written(app, topic):
    return [
        (
            row["key.k"],
            *(round(row[f"key.{name}"].timestamp() * 1000) for name in ("window_start", "window_end")),
            None if row["_kind"] == Kind.TOMBSTONE else (row["value.v"], row["value.w"]),
            row["_timestamp"],
        )
        for row in app.read(topic)
    ]


def fed(application, parts, max_records, seed=1):
    app = application(*parts)
    for topic, each in records(seed).items():
        app.append(topic, each)
    app.run(max_records)
    return app


CASES_IN_CUTS = chosen(
    product((1, 7, WHOLE), ("tumbling", "hopping", "sessions")),
    [(1, "sessions"), (7, "tumbling"), (7, "hopping"), *product((WHOLE,), ("tumbling", "hopping", "sessions"))],
)


@pytest.mark.parametrize(("max_records", "case"), CASES_IN_CUTS)
def test_updates_are_those_of_one_record_after_another(application, case, max_records):
    app = fed(application, topology(CASES[case]), max_records)
    for how, topic in OUT.items():
        updates, unseen = joined(how, CASES[case], taken(records(1)))
        assert written(app, topic) == updates
        # The case is worth something only where rows are there that are not seen any more.
        assert unseen > 0


COMPARED_CUTS = chosen(
    [(case, cuts) for case in ("tumbling", "sessions", "sliding") for cuts in ((7, WHOLE), (1, WHOLE))],
    [("tumbling", (7, WHOLE)), ("sessions", (7, WHOLE)), ("sliding", (1, WHOLE))],
)


@pytest.mark.parametrize(("case", "cuts"), COMPARED_CUTS)
def test_results_do_not_depend_on_where_epochs_end(application, case, cuts):
    """Also in sliding windows, and where the rows are in a second store, with a clock of its own."""
    runs = [fed(application, topology(CASES[case], kept=True), most, 2) for most in cuts]
    for topic in OUT.values():
        first, *others = [written(app, topic) for app in runs]
        assert all(other == first for other in others)
        assert len(first) > 15


ASKED = Topic("asked", 1, "k string", "what bigint", windowed=True)
ANSWERED = Topic("answered", 1, "k string", "what bigint, found bigint", windowed=True, writer="test-app")


@pytest.mark.parametrize("max_records", [1, WHOLE])
def test_record_finds_a_row_until_the_clock_of_its_table_has_passed_it(application, max_records):
    kept = store("lefts", Window(10, 10, 4), "v")
    nodes = (
        Source(LEFT, ("f",)),
        Source(ASKED, ("asked",)),
        aggregate("f", kept, "left"),
        StreamTableJoin("asked", "f", kept, "left", {"found": "v"}, at="join"),
        Sink("asked", ANSWERED),
    )
    app = application(part("only", 1, ((nodes, {}, {}),), (kept,)))
    app.append(LEFT, [(("a",), (1,), 5), (("b",), (1,), 13), (("b",), (1,), 14)])
    app.append(ASKED, [(("a", 0, 10_000), (number,), time) for number, time in enumerate([5, 13, 14])])
    app.run(max_records)
    assert [row["value.found"] for row in app.read(ANSWERED)] == [1, 1, None]
