from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from headwater.benchmarks.bare_loop import WORK, Loop
from headwater.benchmarks.suite import inputs
from headwater.benchmarks.suite.sizes import Size

TINY = Size(records=200, keys=20)
EPOCHS = 2


def results(name: str, folder: Path, epoch: int) -> pa.Table:
    parts = [folder / f"out-{epoch}-{partition}" for partition in range(TINY.partitions)]
    return pa.concat_tables([pa.ipc.open_stream(path.read_bytes()).read_all() for path in parts])


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        (name, 4 if name == "hopping_count" else 1)
        for name, work in WORK.items()
        if work.groups is not None and name not in ("filtered_count", "sliding_count")
    ],
)
def test_loop_counts_all_records(name: str, counted: int, tmp_path: Path) -> None:
    loop = Loop(tmp_path, name, TINY)
    for number in range(EPOCHS):
        loop.prepare(number)
        loop.take(number)

    stored = sum(loop.counts())
    loop.close()
    assert stored == EPOCHS * TINY.records * counted


def test_loop_joins_each_record_with_the_row_of_its_key(tmp_path: Path) -> None:
    loop = Loop(tmp_path, "table_join", TINY)
    loop.prepare(0)
    loop.take(0)
    loop.close()

    found = results("table_join", tmp_path, 0)
    assert found["name"].to_pylist() == [f"name of {key}" for key in found["k"].to_pylist()]
    assert sorted(found["k"].to_pylist()) == sorted(inputs.epoch("typed", 0, TINY)["k"].to_pylist())


def test_loop_pairs_the_records_of_a_key_that_are_near_each_other(tmp_path: Path) -> None:
    loop = Loop(tmp_path, "stream_join", TINY)
    for number in range(3):
        loop.prepare(number)
        loop.take(number)
    loop.close()

    found = pa.concat_tables([results("stream_join", tmp_path, number) for number in range(3)]).to_pylist()
    records = pa.concat_tables([inputs.epoch("typed", number, TINY) for number in range(3)]).to_pandas()
    pairs = records[records.v % 2 == 0].merge(records[records.v % 2 == 1], on="k")
    pairs = pairs[(pairs.ts_x - pairs.ts_y).abs() <= pd.Timedelta(minutes=10)]
    expected = pairs[["k", "v_x", "v_y"]].itertuples(index=False, name=None)
    assert sorted((row["k"], row["v"], row["w"]) for row in found) == sorted(expected) != []


def test_loop_joins_each_record_with_the_row_of_its_foreign_key(tmp_path: Path) -> None:
    loop = Loop(tmp_path, "foreign_key_join", TINY)
    loop.prepare(0)
    loop.take(0)
    loop.close()

    found = results("foreign_key_join", tmp_path, 0)
    assert found["name"].to_pylist() == [f"name of {key}" for key in found["other"].to_pylist()]
    assert sorted(found["k"].to_pylist()) == sorted(inputs.epoch("foreign", 0, TINY)["k"].to_pylist())


def test_loop_writes_the_sum_up_to_each_record(tmp_path: Path) -> None:
    loop = Loop(tmp_path, "each_update", TINY)
    for number in range(EPOCHS):
        loop.prepare(number)
        loop.take(number)
    loop.close()

    last = {row["k"]: (row["n"], row["total"]) for row in results("each_update", tmp_path, 1).to_pylist()}
    records = pa.concat_tables([inputs.epoch("typed", number, TINY) for number in range(EPOCHS)])
    sums = records.group_by("k").aggregate([([], "count_all"), ("v", "sum")])
    assert last == {row["k"]: (row["count_all"], row["v_sum"]) for row in sums.to_pylist()}


def test_loop_counts_the_records_of_each_sliding_window(tmp_path: Path) -> None:
    loop = Loop(tmp_path, "sliding_count", TINY)
    loop.prepare(0)
    loop.take(0)
    loop.close()

    records = inputs.epoch("typed", 0, TINY).to_pylist()
    times = {key: [int(row["ts"].timestamp() * 1000) for row in records if row["k"] == key] for key in key_names()}
    expected = {
        (start, key): inside
        for key, own in times.items()
        for start in {bound for time in own for bound in (max(time - 60_000, 0), time + 1)}
        if (inside := sum(start <= time <= start + 60_000 for time in own))
    }
    found = results("sliding_count", tmp_path, 0).to_pylist()
    assert {(int.from_bytes(row["k"][:8], "big"), row["k"][8:].decode()): row["c0"] for row in found} == expected


def key_names() -> list[str]:
    return list(inputs.key_names(TINY.keys).to_pylist())
