"""Final results of windows beside a computation that takes one record after another, wherever epochs end."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from operator import itemgetter

import pytest

from headwater.runtime import Materialize, subtopology
from headwater.runtime.engine.operators.aggregations import Aggregate, AggregateSessions
from headwater.runtime.engine.operators.tables import FinalResults
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import Agg, Store, Topic
from headwater.runtime.ir.windows import SessionWindow, Window
from headwater.tests.runtime.local.local_application import WHOLE, LocalApplication, Part, part
from headwater.tests.runtime.local.streams_in_cuts import kinds_in_cuts

FACTS = Topic("facts", 1, "k string", "v bigint")
OUT = Topic("out", 1, "k string", "n bigint, every array<bigint>", windowed=True, writer="test-app")
AGGREGATES = (Agg("n", "count"), Agg("every", "collect_list", "v", "bigint", "array<bigint>"))
TUMBLING, HOPPING, SESSIONS = Window(10, 10, 5), Window(10, 4, 7), SessionWindow(6, 5)
WINDOWS = {"tumbling": TUMBLING, "hopping": HOPPING, "session": SESSIONS, "no grace": Window(10, 10, 0)}


def store_of(window, retention=None):
    kind = "session" if isinstance(window, SessionWindow) else "window"
    return Store("rows", 1, "k string", OUT.value, kind, window, retention, AGGREGATES)


def aggregate(store):
    if isinstance(store.window, SessionWindow):
        return AggregateSessions("f", store, headers=True, at="aggregate")
    return Aggregate("f", store, at="aggregate")


def topology(store):
    nodes = (Source(FACTS, ("f",)), aggregate(store), FinalResults("f", store, at="final"), Sink("f", OUT))
    return (part("only", 1, ((nodes, {}, {}),), (store,)),)


def facts(seed, records=300):
    """Records whose time wanders, with jumps that close much at once; with null keys and null values."""
    rng = random.Random(seed)
    time, made = 0, []
    for number in range(records):
        time += rng.choice([0, 0, 0, 1, 2, 5, 12, 60 if rng.random() < 0.2 else 0])
        back = rng.choice([0, 0, 0, 3, 5, 9, 20, 40])
        key = None if rng.random() < 0.05 else (rng.choice(["a", "b", "bb", ""]),)
        made.append((key, None if rng.random() < 0.1 else (number,), max(0, time - back)))
    return made


def headers_of(records):
    return [json.dumps([{"key": "number", "value": str(number)}]) for number in range(len(records))]


class Rows:
    """The rows of an aggregate, and those that are final, one record after another."""

    def __init__(self, window, retention=None):
        self.window, self.clock, self.dropped = window, -1, 0
        self.retention = retention or window.kept_ms
        self.rows, self.final = {}, []

    def take(self, number, key, value, time):
        if key is None:
            self.dropped += 1
            return
        before, self.clock = self.clock, max(self.clock, time)
        if isinstance(self.window, SessionWindow):
            self._session(number, key[0], value, time, before)
        else:
            self._windows(key[0], value, time)
        self._close(number, before)

    def _windows(self, key, value, time):
        size, advance = self.window.size_ms, self.window.advance_ms
        for start in range(0, time + 1, advance):
            if start + size <= time:
                continue
            if start + size <= self.clock - self.window.grace_ms:
                self.dropped += 1
                continue
            values, latest = self.rows.get((key, start, start + size), ((), -1))
            self.rows[key, start, start + size] = (*values, value), max(latest, time)

    def _session(self, number, key, value, time, before):
        gap = self.window.gap_ms
        near = [
            each
            for each in self.rows
            if each[0] == key and each[1] - gap <= time <= each[2] + gap and each[2] > before - self.retention
        ]
        start, end = min([time, *(each[1] for each in near)]), max([time, *(each[2] for each in near)])
        if end < self.clock - gap - self.window.grace_ms:
            self.dropped += 1
            return
        taken = sorted([*(each for of in near for each in self.rows.pop(of)[0]), (number, value)], key=itemgetter(0))
        self.rows[key, start, end] = tuple(taken), end

    def _close(self, number, before):
        if isinstance(self.window, SessionWindow):
            behind = self.window.gap_ms + self.window.grace_ms

            def closed(end, clock):
                return end < clock - behind
        else:

            def closed(end, clock):
                return end <= clock - self.window.grace_ms

        now = [each for each in self.rows if closed(each[2], self.clock) and not closed(each[2], before)]
        session = isinstance(self.window, SessionWindow)
        for key, start, end in sorted(now, key=lambda at: (at[2], at[1], at[0]) if session else (at[1], at[0])):
            values, latest = self.rows[key, start, end]
            values = [each[1] if session else each for each in values]
            known = [each[0] for each in values if each is not None]
            self.final.append(((key, start, end), (len(values), known), latest, number))


def final_of(records, window, retention=None):
    rows = Rows(window, retention)
    for number, record in enumerate(records):
        rows.take(number, *record)
    return rows


def written(app, topic=OUT):
    found = []
    for row in app.read(topic):
        start, end = (round(row[f"key.window_{side}"].timestamp() * 1000) for side in ("start", "end"))
        number = int(json.loads(row["_headers"])[0]["value"])
        values = (row["value.n"], row["value.every"])
        found.append(((row["key.k"], start, end), values, row["_timestamp"], number))
    return found


@pytest.mark.parametrize(("name", "seed", "max_records"), kinds_in_cuts(list(WINDOWS), 3, ("hopping", "session")))
def test_each_row_comes_out_once_when_its_window_closes(application, name, seed, max_records):
    records, window = facts(seed), WINDOWS[name]
    app = application(*topology(store_of(window)))
    app.append(FACTS, records, headers=headers_of(records))
    app.run(max_records)
    expected = final_of(records, window)
    assert written(app) == expected.final
    assert app.dropped.total() == expected.dropped
    assert len(expected.final) > 30


@pytest.mark.parametrize("max_records", [1, 7, WHOLE])
def test_session_that_is_kept_longer_may_come_out_again_with_what_it_is_joined_with(application, max_records):
    records = facts(4, 120)
    app = application(*topology(store_of(SESSIONS, 200)))
    app.append(FACTS, records, headers=headers_of(records))
    app.run(max_records)
    assert written(app) == final_of(records, SESSIONS, 200).final != final_of(records, SESSIONS).final


@pytest.mark.parametrize("max_records", [1, WHOLE])
def test_rows_that_a_jump_of_time_has_expire_come_out_first(application, max_records):
    """A window, a session, and a session that no record can join any more but which is not closed yet."""
    for window, times, expected in (
        (TUMBLING, [14, 30], [(("a", 10, 20), 14, 1)]),
        (SESSIONS, [14, 99], [(("a", 14, 14), 14, 1)]),
        (SESSIONS, [14, 25, 26], [(("a", 14, 14), 14, 2)]),
        # The record at 20 does not join it, and would have by its time.
        (SESSIONS, [14, 25, 20, 26], [(("a", 14, 14), 14, 3)]),
    ):
        records = [(("a",), (1,), time) for time in times]
        app = application(*topology(store_of(window)))
        app.append(FACTS, records, headers=headers_of(records))
        app.run(max_records)
        assert [(at, time, number) for at, _, time, number in written(app)] == expected
        assert final_of(records, window).final == written(app)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_cuts_clients_and_failures_lose_and_repeat_nothing(application, seed):
    records, window = facts(seed), list(WINDOWS.values())[seed]
    app = application(*topology(store_of(window)), log=("embedded", "sparse")[seed % 2])
    app.append(FACTS, records, headers=headers_of(records))
    app.run_randomly(seed, moving=True)
    assert written(app) == final_of(records, window).final


@pytest.mark.parametrize("name", ["tumbling", "session"])
@pytest.mark.parametrize("max_records", [1, 7, WHOLE])
def test_columns_over_aggregates_are_those_of_the_closed_row(tmp_path, name, max_records):
    out = Topic("out", 1, "k string", "n bigint, twice bigint", windowed=True, writer="test-app")
    store = store_of(WINDOWS[name])
    store = replace(store, value="n bigint, every array<bigint>, twice bigint")

    def steps(rows):
        rows = rows.process(Source(FACTS, "f"), aggregate(store))
        rows = rows.with_columns("f", {"twice bigint": "n * 2"})
        return rows.process(Materialize("f", store), FinalResults("f", store), Sink("f", out))

    app = LocalApplication(tmp_path, [Part(subtopology(0, "f", file="t.yml")(steps))])
    app.append(FACTS, facts(8, 120))
    app.run(max_records)
    found = [(row["value.n"], row["value.twice"], row["_timestamp"]) for row in app.read(out)]
    expected = final_of(facts(8, 120), WINDOWS[name]).final
    assert found == [(values[0], 2 * values[0], time) for _, values, time, _ in expected]
