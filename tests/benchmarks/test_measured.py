"""Each kind of measurement, with sides that only say how long they took: what it makes of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.benchmarks.suite.bench import Bench, Modules
from headwater.benchmarks.suite.measured.growth import grown
from headwater.benchmarks.suite.measurement import Measurement
from headwater.benchmarks.suite.names import NAMES
from headwater.benchmarks.suite.sizes import Size

STEADY = "tests.benchmarks.steady_side"


def bench(scratch: Path) -> Bench:
    return Bench(scratch, 1, 2, True, True, size=Size(records=1000, keys=50), modules=Modules(STEADY, STEADY, STEADY))


def measured(name: str, scratch: Path) -> list[Measurement]:
    return list(NAMES[name](bench(scratch)))


@pytest.mark.parametrize("name", ["keyed_count", "rekey_count", "json_count"])
def test_throughput_is_that_of_the_median_epoch_beside_the_peers(name: str, tmp_path: Path) -> None:
    (found,) = measured(name, tmp_path)

    assert (found.ours, found.peer, found.ratio) == (10_000, 2_500, 4.0)
    assert found.runs == {"ours": [10_000, 10_000], "peer": [2_500, 2_500]}
    assert found.limit is not None


@pytest.mark.parametrize(("name", "ours"), [("table_join_updates", 10_000), ("foreign_key_join", 2_000)])
def test_what_has_no_peer_is_told_beside_the_bare_loop(name: str, ours: float, tmp_path: Path) -> None:
    (found,) = measured(name, tmp_path)

    assert (found.ours, found.peer, found.ratio) == (ours, None, None)
    assert found.limit is not None


def test_small_epoch_is_told_in_seconds(tmp_path: Path) -> None:
    (found,) = measured("small_epoch", tmp_path)

    assert (found.unit, found.ours, found.peer, found.ratio) == ("s", 0.1, 0.4, 4.0)


def test_idle_epoch_is_many_tasks_beside_few(tmp_path: Path) -> None:
    (found,) = measured("idle_epoch", tmp_path)

    assert set(found.runs) == {"4 tasks", "256 tasks"}
    assert {len(runs) for runs in found.runs.values()} == {6}
    assert found.peer is None
    assert found.at_most


def test_first_epoch_is_told_from_the_start_and_beside_later_ones(tmp_path: Path) -> None:
    start, size = measured("first_epoch", tmp_path)

    assert start.limit is not None
    assert (size.ours, size.peer, size.ratio, size.met) == (1.0, 1.0, 1.0, True)


def test_memory_is_the_larger_backlog_beside_the_smaller(tmp_path: Path) -> None:
    (found,) = measured("memory", tmp_path)

    assert set(found.runs) == {"8 million records", "32 million records"}
    assert found.ratio is not None


def test_growth_has_all_sides_at_each_size(tmp_path: Path) -> None:
    found = grown("segments", bench(tmp_path))

    assert {side: list(points) for side, points in found.points.items()} == {
        side: ["1", "10", "100"] for side in ("ours", "peer", "limit")
    }
    assert (found.points["ours"]["100"], found.points["peer"]["100"], found.ratio) == (1000, 250, 4.0)
