"""Rows of windows beside pandas, which sees all records at once: in any epochs, and one topic much later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from headwater.tests.conformance.driving import WHOLE, Compiled, Driven

SIZE, ADVANCE, GAP, DIFFERENCE = 50, 20, 15, 30
"""In ms, as in `WINDOWS`."""

WINDOWS: Mapping[str, Mapping[str, str]] = {
    "tumbling": {"tumbling": "50ms"},
    "hopping": {"hopping": "50ms", "advance": "20ms"},
    "session": {"session": "15ms"},
    "sliding": {"sliding": "30ms"},
}
VALUES = {"n": "count(*)", "total": "sum(v)", "mean": "avg(v)", "least": "min(v)", "most": "max(v)"}
LAST = 100_000_000
"""A time that closes all windows: their grace is a day."""

ENDINGS: Mapping[str, Sequence[Any]] = {
    "updates": ({"emit": "each_update"},),
    "epochs": ({"emit": "per_epoch"},),
    "closed": ({"emit": "on_close"},),
    "suppressed": ({"emit": "each_update"}, {"suppress": {"until": "window_closes"}}),
}


def compiled(root: Path, kind: str) -> Compiled:
    columns = {"partitions": 2, "key": {"id": "bigint"}, "value": {"g": "string", "v": "bigint"}}
    files = {
        "headwater.yml": {"name": "batch", "version": "1", "profile": "batch"},
        "profiles.yml": {"batch": {"target": "t", "targets": {"t": {"log": {"type": "embedded", "path": "log"}}}}},
        "topics/inputs.yml": {"topics": {"A": columns, "B": columns}},
        "topologies/windows.yml": topology(kind, WINDOWS[kind]),
    }
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(content, sort_keys=False))
    return Compiled(root, kind)


def topology(kind: str, window: Mapping[str, str]) -> Mapping[str, Any]:
    """Both topics in windows by `g`, in each form in which they are written."""
    flows: dict[str, Any] = {"by_g": {"from": ["A", "B"], "steps": [{"key_by": {"g": "g"}}]}}
    for ending, (emit, *steps) in ENDINGS.items():
        windowed = [{"window": {**window, "grace": "1d"}}, {"aggregate": {**emit, "values": VALUES}}]
        flows[ending] = {"from": "by_g", "steps": [*windowed, *steps], "to": f"{kind}_{ending}"}
    return {"topology": kind, "flows": flows}


def records(seed: int, topic: str) -> pd.DataFrame:
    """`at`, `g`, `v` and the partition: busy times and silent ones, out of order."""
    rng = np.random.default_rng([seed, ord(topic)])
    count = 80
    busy = rng.integers(0, 40, count) * 60
    return pd.DataFrame(
        {
            "at": busy + rng.integers(0, 25, count),
            "g": rng.choice(list("abc"), count),
            "v": pd.array(np.where(rng.random(count) < 0.1, None, rng.integers(-50, 50, count)), "Int64"),
            "partition": rng.integers(0, 2, count),
        }
    )


def windows_of(kind: str, of_key: pd.DataFrame) -> Iterator[tuple[int, int]]:
    """(start, end) of the windows of one key that have a record."""
    times = of_key["at"].sort_values()
    if kind == "session":
        number = (times.diff() > GAP).cumsum()
        yield from times.groupby(number).agg(["min", "max"]).itertuples(index=False)
    elif kind == "sliding":
        starts = {max(0, each - DIFFERENCE) for each in times} | {each + 1 for each in times}
        yield from ((start, start + DIFFERENCE) for start in starts)
    else:
        advance = ADVANCE if kind == "hopping" else SIZE
        yield from ((start, start + SIZE) for start in range(0, int(times.max()) + 1, advance))


def batch(kind: str, given: pd.DataFrame) -> Mapping[Any, Any]:
    """(g, start, end) -> the row."""
    found = {}
    for key, of_key in given.groupby("g"):
        for start, end in windows_of(kind, of_key):
            inside = of_key[of_key["at"].between(start, end, "left" if kind in ("tumbling", "hopping") else "both")]
            if len(inside):
                found[key, int(start), int(end)] = row(inside)
    return found


def row(inside: pd.DataFrame) -> Mapping[str, Any]:
    v = inside["v"].dropna()
    if v.empty:
        return {"n": len(inside), "total": None, "mean": None, "least": None, "most": None}
    return {"n": len(inside), "total": v.sum(), "mean": v.mean(), "least": v.min(), "most": v.max()}


def fed(run: Driven, *batches: Mapping[str, pd.DataFrame]) -> None:
    for topics in batches:
        run.together({name: in_record_form(frame) for name, frame in topics.items()})


def in_record_form(frame: pd.DataFrame) -> list[Mapping[str, Any]]:
    return [
        {
            "partition": int(each.partition),
            "timestamp": int(each.at),
            "key": {"id": number},
            "value": {"g": each.g, "v": None if pd.isna(each.v) else int(each.v)},
        }
        for number, each in enumerate(frame.itertuples())
    ]


def last_rows(run: Driven, topic: str) -> Mapping[Any, Any]:
    """The last row of each key, without those that are deleted."""
    rows = {tuple(record.key.values()): record.value for record in run.written(topic) if record.key}
    return {key: value for key, value in rows.items() if value is not None}


ARRIVALS: Mapping[str, Any] = {
    "both at once": lambda a, b: [{"A": a, "B": b}],
    "one held back": lambda a, b: [{"A": a}, {"B": b}],
    "the other one held back, and in halves": lambda a, b: [{"B": b}, {"A": a[:40]}, {"A": a[40:]}],
}


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Compiled]:
    """The topology of a kind."""
    return cache(lambda kind: compiled(tmp_path_factory.mktemp("windows"), kind))


@pytest.mark.parametrize(("arrival", "max_records"), [*zip(ARRIVALS, [20, WHOLE, 31], strict=True)])
@pytest.mark.parametrize("kind", WINDOWS)
def test_rows_are_those_of_a_batch(
    compiled_once: Callable[[str], Compiled], kind: str, arrival: str, max_records: int
) -> None:
    a, b = (records(len(arrival), topic) for topic in "AB")
    # Records that close all windows, in both partitions.
    closing = pd.DataFrame({"at": LAST, "g": [f"end {each}" for each in range(12)], "v": 0, "partition": 0})
    expected = batch(kind, pd.concat([a, b]))
    with compiled_once(kind).driven(max_records) as run:
        fed(run, *ARRIVALS[arrival](a, b))
        assert last_rows(run, f"{kind}_updates") == expected
        assert last_rows(run, f"{kind}_epochs") == expected
        assert run.written(f"{kind}_closed") == run.written(f"{kind}_suppressed") == []
        fed(run, {"A": closing})
        for ending in ("closed", "suppressed"):
            written = run.written(f"{kind}_{ending}")
            assert {tuple(each.key.values()): each.value for each in written if each.key} == expected
            assert len(written) == len(expected)
    assert len(expected) > 40
