"""`reduce` beside a computation that takes one record after another, wherever epochs end."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace

import pytest

from headwater.runtime.engine.operators.aggregations import Reduce
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.functions import PythonCode, PythonFunction
from headwater.runtime.ir.topology import Store, Topic, dead_letter_topic
from headwater.runtime.ir.windows import SessionWindow, Window
from headwater.runtime.query.stores import StoreQuery
from headwater.runtime.records.types import Kind
from headwater.runtime.state.lmdb.store import LmdbBackend
from headwater.tests.runtime.local.local_application import APPLICATION, WHOLE, LocalApplication, part
from headwater.tests.runtime.local.streams_in_cuts import kinds_in_cuts, streams_in_cuts

CODE = PythonCode(
    (
        (
            "functions/facts.py",
            """
import asyncio


def both(old, new):
    if new.v == 13:
        return None
    if new.v == 14:
        raise ValueError(f"{new.v} behind {old.v}")
    if new.v == 15:
        raise asyncio.CancelledError(f"{new.v} behind {old.v}")
    if new.v == 16:
        raise KeyboardInterrupt
    seen = old.seen or []
    seen.append(new.v)  # what it is given is its own
    return {"v": max(old.v or 0, new.v or 0), "x": old.x or new.x, "seen": seen}
""",
        ),
    )
)
BOTH = PythonFunction("functions.facts:both", CODE)
FACTS = Topic("facts", 1, "k string", "v bigint, x double, seen array<bigint>")
OUT = replace(FACTS, name="out", writer=APPLICATION)
LETTERS = dead_letter_topic("t_facts_dead_letter", FACTS, APPLICATION)
AT = "topologies/t.yml:7"
WINDOWS = {"none": None, "tumbling": Window(10, 10, 15), "hopping": Window(10, 4, 15)}


def topology(window=None, emit="each_update", on_error="fail", function=BOTH):
    facts = replace(FACTS, on_error=on_error)
    letters = {"facts": LETTERS} if on_error == "dead_letter" else {}
    kind = "session" if isinstance(window, SessionWindow) else "window" if window else "key_value"
    store = Store("kept", 1, "k string", FACTS.value, kind, window)
    out = replace(OUT, windowed=window is not None)
    nodes = (
        Source(facts, ("f",), dead_letter=letters.get("facts")),
        Reduce("f", store, function, emit, at=AT),
        Sink("f", out, emit),
    )
    made = part("only", 1, ((nodes, {}, {}),), (store,))
    return replace(made, subtopology=replace(made.subtopology, sources=(facts,), dead_letters=letters))


def facts(seed, records=250, most=14):
    """Records whose time wanders; with null keys, null values and null columns."""
    rng = random.Random(seed)
    time, made = 0, []
    for _ in range(records):
        time += rng.choice([0, 0, 1, 3, 8])
        number = rng.choice([None, *range(most)])
        value = None if rng.random() < 0.1 else (number, rng.choice([None, 0.5]), [number])
        key = None if rng.random() < 0.05 else (rng.choice("abc"),)
        made.append((key, value, max(0, time - rng.choice([0, 0, 0, 5, 12, 40]))))
    return made


def reduced(records, window):
    """(Updates as (key, start, value or None, time), dropped records), one record after the other."""
    rows, updates, clock, dropped = {}, [], -1, Counter()
    for key, value, time in records:
        if key is None:
            dropped[f"{AT}:null_key"] += 1
            continue
        if window is None and value is None:
            dropped[f"{AT}:null_value"] += 1
            continue
        clock = max(clock, time)
        starts = [None]
        if window is not None:
            first = max(0, time - window.size_ms + window.advance_ms) // window.advance_ms * window.advance_ms
            starts = list(range(first, time + 1, window.advance_ms))
        for start in starts:
            if start is not None and start + window.size_ms <= clock - window.grace_ms:
                dropped[f"{AT}:late"] += 1
                continue
            new, place = value or (None, None, None), (key[0], start)
            old, at = rows.get(place, (None, -1))
            if old is not None and new[0] == 14:
                dropped[f"{AT}:skipped"] += 1
                break
            after = new if old is None else both(old, new)
            at = time if old is None else max(at, time)
            updates.append((*place, after, at))
            rows[place] = (after, at)
    return updates, dropped


def both(old, new):
    if new[0] == 13:
        return None
    return max(old[0] or 0, new[0] or 0), old[1] or new[1], [*(old[2] or []), new[0]]


def written(app, window):
    found = []
    for row in app.read(replace(OUT, windowed=window is not None)):
        start = None if window is None else round(row["key.window_start"].timestamp() * 1000)
        value = (row["value.v"], row["value.x"], row["value.seen"])
        gone = row["_kind"] == Kind.TOMBSTONE
        found.append((row["key.k"], start, None if gone else value, row["_timestamp"]))
    return found


@pytest.mark.parametrize(("name", "seed", "max_records"), kinds_in_cuts(list(WINDOWS), 3, ("hopping",)))
def test_updates_are_those_of_one_record_after_another(tmp_path, name, seed, max_records):
    records, window = facts(seed), WINDOWS[name]
    app = LocalApplication(tmp_path, [topology(window)])
    app.append(FACTS, records)
    app.run(max_records)
    updates, dropped = reduced(records, window)
    assert written(app, window) == updates
    assert app.dropped == dropped
    assert any(each[2] is None for each in updates)
    assert sum(dropped.values()) > 10


@pytest.mark.parametrize("max_records", [1, 7, WHOLE])
def test_record_for_which_the_function_fails_is_left_out_as_a_dead_letter(tmp_path, max_records):
    records = facts(4, records=60, most=15)
    app = LocalApplication(tmp_path, [topology(on_error="dead_letter")])
    app.append(FACTS, records)
    app.run(max_records)
    updates, dropped = reduced(records, None)
    failed = dropped.pop(f"{AT}:skipped")
    assert written(app, None) == updates
    letters = app.read(LETTERS)
    assert len(letters) == failed > 1
    assert {letter["value.step"] for letter in letters} == {AT}
    assert all(json.loads(letter["value.value"])["v"] == 14 for letter in letters)
    message, line = letters[0]["value.error"].split("\n")
    assert message.startswith("functions.facts:both raised ValueError: 14 behind ")
    assert line == '  functions/facts.py:9, in both: raise ValueError(f"{new.v} behind {old.v}")'
    assert {key: count for key, count in app.dropped.items() if count} == {**dropped, f"{AT}:dead_letter": failed}


def test_record_for_which_the_function_fails_stops_its_task_and_is_named(tmp_path):
    app = LocalApplication(tmp_path, [topology()])
    app.append(FACTS, [(("a",), (14, None, []), 1), (("a",), (1, None, []), 2), (("b",), (2, None, []), 3)])
    app.append(FACTS, [(("b",), (14, None, []), 4)])
    error = app.attempt(app.settings()).error
    assert f"{AT}: record facts[0]@3 cannot be processed: functions.facts:both raised ValueError: 14 behind" in error


@pytest.mark.parametrize(
    ("returns", "said"),
    [
        ("{'v': 'x', 'x': None, 'seen': None}", "v: 'x' is no bigint (its columns are v, x, seen)"),
        ("{'v': 1, 'x': None}", "it lacks seen"),
        ("7", "returned 7: 7 has no v, x, seen; give a mapping by column, {'v': ...}, or an object"),
    ],
)
def test_result_that_does_not_fit_the_columns_names_the_record(tmp_path, returns, said):
    code = PythonCode((("functions/facts.py", f"def both(old, new):\n    return {returns}\n"),))
    made = topology(function=PythonFunction("functions.facts:both", code))
    app = LocalApplication(tmp_path, [made])
    app.append(FACTS, [(("a",), (14, None, []), 1), (("a",), (1, None, []), 2)])
    error = app.attempt(app.settings()).error
    assert "record facts[0]@1 cannot be processed" in error
    assert said in error


def test_per_epoch_writes_the_last_row_of_each_key_and_none_that_came_and_went(tmp_path):
    app = LocalApplication(tmp_path, [topology(emit="per_epoch")])
    app.append(FACTS, [(("a",), (1, None, []), 1), (("b",), (1, None, []), 2), (("b",), (13, None, []), 3)])
    app.run()
    app.append(FACTS, [(("a",), (3, None, []), 4), (("a",), (2, 0.5, []), 2)])
    app.run()
    app.append(FACTS, [(("a",), (13, None, []), 1)])
    app.run()
    assert written(app, None) == [("a", None, (1, None, []), 1), ("a", None, (3, 0.5, [3, 2]), 4), ("a", None, None, 4)]


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_store_shows_the_rows(tmp_path, window):
    app = LocalApplication(tmp_path, [made := topology(window)])
    app.append(FACTS, [(("a",), (1, None, []), 1), (("a",), (2, None, []), 2), (("b",), (5, 0.5, [5]), 3)])
    app.run()
    (store,) = made.subtopology.stores
    rows = list(StoreQuery(APPLICATION, "only", store, app.log, app.path / "state", LmdbBackend().open_to_read).rows())
    assert [(row.key["k"], row.value["v"], row.value["seen"], row.timestamp) for row in rows] == [
        ("a", 2, [2], 2),
        ("b", 5, [5], 3),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_random_cuts_clients_and_failures_change_nothing(tmp_path, window):
    app = LocalApplication(tmp_path, [topology(window)])
    app.append(FACTS, facts(5))
    app.run_randomly(5, moving=True)
    assert written(app, window) == reduced(facts(5), window)[0]


SESSIONS = SessionWindow(10, 15)


def sessions_of(records):
    """(Updates as (key, start, end, value or None), dropped records), one record after the other."""
    live, updates, clock, dropped = {}, [], -1, 0
    for key, value, time in records:
        if key is None:
            dropped += 1
            continue
        before, clock = clock, max(clock, time)
        near = sorted(
            (end, start)
            for of, start, end in live
            if of == key[0] and end >= time - 10 and start <= time + 10 and end > before - 25
        )
        start, end = min([time, *(s for _, s in near)]), max([time, *(e for e, _ in near)])
        if end < clock - 25:
            dropped += 1
            continue
        parts = [live.pop((key[0], s, e)) for e, s in near]
        if start < end:
            updates += [(key[0], s, e, None) for e, s in near]
        for part_ in (*parts[1:], value or (None, None, None)):
            parts[:1] = [both(parts[0], part_) if parts else part_]
        live[key[0], start, end] = parts[0]
        updates.append((key[0], start, end, parts[0]))
    return updates, dropped


def session_rows(app):
    found = []
    for row in app.read(replace(OUT, windowed=True)):
        bounds = [round(row[f"key.window_{side}"].timestamp() * 1000) for side in ("start", "end")]
        assert row["_timestamp"] == bounds[1]
        value = (row["value.v"], row["value.x"], row["value.seen"])
        found.append((row["key.k"], *bounds, None if row["_kind"] == Kind.TOMBSTONE else value))
    return found


@pytest.mark.parametrize(("seed", "max_records"), streams_in_cuts(3))
def test_sessions_are_joined_by_the_same_function(tmp_path, seed, max_records):
    records = facts(seed, most=12)
    app = LocalApplication(tmp_path, [topology(SESSIONS)])
    app.append(FACTS, records)
    app.run(max_records)
    updates, dropped = sessions_of(records)
    assert session_rows(app) == updates
    assert app.dropped.total() == dropped > 5


def test_per_epoch_writes_the_last_row_of_each_session(tmp_path):
    app = LocalApplication(tmp_path, [topology(SESSIONS, "per_epoch")])
    app.append(FACTS, facts(3, most=12))
    app.run()
    last = {each[:3]: each for each in sessions_of(facts(3, most=12))[0]}
    assert sorted(session_rows(app), key=str) == sorted((each for each in last.values() if each[3]), key=str)


def test_row_of_a_session_cannot_be_deleted_by_the_function(tmp_path):
    app = LocalApplication(tmp_path, [topology(SESSIONS)])
    app.append(FACTS, [(("a",), (1, None, []), 1), (("a",), (13, None, []), 2)])
    error = app.attempt(app.settings()).error
    assert "record facts[0]@1 cannot be processed: functions.facts:both returned None, which deletes a row" in error


@pytest.mark.parametrize(("value", "error"), [(15, "CancelledError: 15 behind 1"), (16, "KeyboardInterrupt")])
def test_whatever_a_reducer_raises_is_of_its_record_and_counted(application, value, error):
    records = [(("a",), (each, None, None), each) for each in (1, value, 3)]
    failing = application(topology())
    failing.append(FACTS, records)
    found = failing.attempt().error
    assert f"{AT}: record facts[0]@1 cannot be processed: functions.facts:both raised {error}" in found
    skipping = application(topology(on_error="skip"))
    skipping.append(replace(FACTS, on_error="skip"), records)
    assert skipping.run().dropped == {f"{AT}:skipped": 1}
