from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from headwater.benchmarks.__main__ import main
from headwater.benchmarks.suite.bench import Bench
from headwater.benchmarks.suite.measured.driver import Driver
from headwater.benchmarks.suite.measurement import Measurement
from headwater.benchmarks.suite.names import NAMES
from headwater.benchmarks.suite.other_work import OtherWork, times_of_others
from headwater.benchmarks.suite.results import keep, kept

FIGURE = Measurement("count", "records/s", 4.0, 2.0, 2.0, 1.5, {"ours": [4.0], "peer": [2.0]})
NAMES_OF_ALL = (
    "keyed_count filtered_count sum_double each_update window_count hopping_count table_join rekey_count json_count "
    "process_rows process_batch session_count sliding_count "
    "suppress_count stream_join table_join_updates foreign_key_join "
    "small_epoch idle_epoch first_epoch memory epoch_bytes growth assignors "
    "kafka_count kafka_copy kafka_out kafka_latency kafka_memory"
)


@dataclass
class Others(OtherWork):
    """Other processes that have used so many cores."""

    cores: float = 0.0


def idle(bench: Bench) -> Iterator[Measurement]:
    yield bench.judged(FIGURE, Others(0.3))


def busy(bench: Bench) -> Iterator[Measurement]:
    yield bench.judged(replace(FIGURE, name="disturbed"), Others(0.31))


def failing(_: Bench) -> Iterator[Measurement]:
    raise RuntimeError("out of luck")


def run(tmp_path: Path, *arguments: str) -> int:
    measurements = {"failing": failing, "disturbed": busy, "count": idle}
    return main([*arguments, "--results", str(tmp_path / "results.jsonl")], measurements)


def test_every_measurement_has_its_name() -> None:
    assert set(NAMES) == set(NAMES_OF_ALL.split())


def test_line_has_the_facts_that_each_figure_has() -> None:
    line = json.loads(FIGURE.to_json())

    assert list(line) == ["name", "unit", "ours", "peer", "ratio", "target", "runs"]
    assert Measurement.from_json(FIGURE.to_json()) == FIGURE


def test_figures_are_the_last_lines_and_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--only", "count") == 0

    (found,) = kept(tmp_path / "results.jsonl")
    (line,) = capsys.readouterr().out.splitlines()
    assert Measurement.from_json(line) == found
    assert (found.ratio, found.command) == (2.0, "make bench ONLY=count")


def test_figure_of_a_busy_machine_has_no_ratio_and_is_not_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--only", "disturbed,count") == 3

    said = capsys.readouterr()
    disturbed = json.loads(said.out.splitlines()[0])
    assert disturbed["busy"] == 0.31
    assert "ratio" not in disturbed
    assert "the machine was busy: other processes used 0.31 cores" in said.err
    assert [each.name for each in kept(tmp_path / "results.jsonl")] == ["count"]


def test_figure_of_a_busy_machine_is_marked_where_it_is_wanted_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--only", "disturbed", "--even-if-busy") == 3

    line = json.loads(capsys.readouterr().out)
    assert (line["ratio"], line["busy"]) == (2.0, 0.31)
    assert list(kept(tmp_path / "results.jsonl")) == []


def test_measurement_that_fails_does_not_end_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path) == 1

    said = capsys.readouterr()
    assert [json.loads(line)["name"] for line in said.out.splitlines()] == ["disturbed", "count"]
    assert "out of luck" in said.err
    assert "failed: failing" in said.err


def test_unknown_name_is_refused_with_those_that_there_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(tmp_path, "--only", "count,cuont")

    parts = "growth_partitions, growth_keys, growth_segments, growth_driver"
    assert f"there is no cuont; there are failing, disturbed, count, {parts}, others" in capsys.readouterr().err


def test_figure_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    keep(FIGURE, path)
    keep(replace(FIGURE, name="another"), path)
    keep(replace(FIGURE, ours=5.0), path)

    assert {each.name: each.ours for each in kept(path)} == {"another": 4.0, "count": 5.0}


@pytest.mark.parametrize(
    ("ratio", "target", "at_most", "met"),
    [
        (2.0, 1.5, False, True),
        (1.4, 1.5, False, False),
        (2.0, 2.0, True, True),
        (2.1, 2.0, True, False),
        (None, 2.0, False, None),
        (2.0, None, False, None),
    ],
)
def test_target_is_met_by_a_ratio_on_its_right_side(
    ratio: float | None, target: float | None, at_most: bool, met: bool | None
) -> None:
    assert replace(FIGURE, ratio=ratio, target=target, at_most=at_most).met is met


def test_others_are_all_processes_but_this_one_and_those_below_it() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        ours: set[tuple[int, float]] = set()
        found = {pid for pid, _ in times_of_others(ours)}
        child.communicate(b"\n")

    assert os.getppid() in found
    assert not {os.getpid(), child.pid} & found
    assert {os.getpid(), child.pid} <= {pid for pid, _ in ours}


def test_process_that_was_ours_stays_so_without_its_parent() -> None:
    parent = psutil.Process(os.getppid())
    known = (parent.pid, parent.create_time())

    assert known in times_of_others(set())
    assert known not in times_of_others({known})


def test_driver_plans_and_commits_epochs_of_all_its_tasks(tmp_path: Path) -> None:
    driver = Driver(tmp_path, 3)

    costs = [driver.epoch(number) for number in range(2)]

    assert all(each.planning > 0 and each.commit > 0 for each in costs)
    assert driver.unread == 0
