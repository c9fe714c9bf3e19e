"""Processes end at any moment: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headwater.tests.quick_jvm import quick_jvm
from headwater.tests.runtime.driver import spending
from headwater.tests.runtime.driver.spending import Run, outcome
from headwater.tests.runtime.driver.strikes import ALIVE, IN_ROUNDS, ON_SPARK, POINTS, Strike, strikes

SEED = int(os.environ.get("HEADWATER_KILL_SEED", "20130101"))
KILLS = int(os.environ.get("HEADWATER_KILLS", "25"))
SOME = 1 + len(POINTS) // 3
"""Kills of `make test`: every third kind of point. `make soak` has all of them, twice."""

QUICK_START = f"{quick_jvm()} -Xlog:disable -Xlog:all=off"
"""For a JVM that is not to live long."""

Start = Callable[..., Run]


@dataclass(frozen=True)
class Whole:
    """An uninterrupted run, without Spark: where the project was before it, what it made, and in which files.

    `java`: options of the JVM for the other runs, on Spark; None for runs without Spark.
    """

    fresh: Path
    outcome: dict[str, Any]
    kinds: set[str]
    java: str | None

    def copy(self, root: Path) -> Path:
        """The project before the run."""
        return Path(shutil.copytree(self.fresh, root, dirs_exist_ok=True))


def whole(base: Path, kills: int, java: str | None) -> Whole:
    """Of a project with records enough for so many kills."""
    fresh, root = base / "fresh", base / "whole"
    spending.make(fresh, payments=60 * kills, java=QUICK_START)
    shutil.copytree(fresh, root)
    run = Run(root, "--until-caught-up")
    assert run.end() == 0, run.output
    print(f"uninterrupted: {run.commits} commits")
    return Whole(fresh, outcome(root), spending.kinds(root), java)


@pytest.fixture(scope="module")
def whole_on_spark(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return whole(tmp_path_factory.mktemp("kills-on-spark"), len(ON_SPARK), QUICK_START)


@pytest.fixture(scope="module")
def whole_in_one_process(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return whole(tmp_path_factory.mktemp("kills"), SOME, None)


@pytest.fixture(scope="module")
def whole_for_all_kills(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return whole(tmp_path_factory.mktemp("all-kills"), KILLS, None)


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts runs, and ends what is left of them when the test ends before them."""
    started: list[Run] = []

    def started_run(*arguments: Any, **options: Any) -> Run:
        started.append(Run(*arguments, **options))
        return started[-1]

    yield started_run
    for run in started:
        if run.runs():
            run.kill()


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for what, content in expected.items():
        assert found[what] == content, what


def assert_kills_change_nothing(whole: Whole, points: Sequence[Strike], root: Path, start: Start) -> None:
    """Kill run after run, each at its point; the last one finishes, as if it had been the only one."""
    for number, strike in enumerate(points, 1):
        run = start(root, "--until-caught-up", java=whole.java, strike=strike)
        run.wait_for_strike()
        run.kill_driver() if strike.driver else run.kill()
        print(f"kill {number} after {run.commits} commits, {len(spending.unlisted(root))} files left over: {strike}")

    last = start(root, "--until-caught-up", java=whole.java)
    assert last.end() == 0, last.output
    print(f"the last run: {last.commits} commits")
    assert spending.kinds(root) - whole.kinds == set()  # nothing is left over, of temporary files neither

    assert_same(outcome(root), whole.outcome)
    assert spending.generations(root)
    assert spending.unlisted(root) == set()


def interrupt_after_commits(run: Run) -> None:
    """Let a lasting run, stopped by a strike at a commit, go on for two commits; then Ctrl-C.

    It is stopped again for that: it would go on for as long as this process is kept waiting, and leave nothing to do.
    """
    run.go_on()
    run.wait_for_strike(again=True)
    run.interrupt()
    run.go_on()
    assert run.end() == 0, run.output
    assert "shop-spending: interrupted, " in run.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("undisturbed", "kills", "step"),
    [("whole_in_one_process", SOME, 3), pytest.param("whole_for_all_kills", KILLS, 1, marks=pytest.mark.soak)],
    ids=["some", "all"],
)
def test_killed_at_points_of_every_part_everything_is_as_if_uninterrupted(
    undisturbed: str, kills: int, step: int, tmp_path: Path, start: Start, request: pytest.FixtureRequest
) -> None:
    print(f"HEADWATER_KILL_SEED={SEED}")
    whole: Whole = request.getfixturevalue(undisturbed)
    points = strikes(kills, SEED, step)
    assert_kills_change_nothing(whole, points, whole.copy(tmp_path), start)


@pytest.mark.spark
@pytest.mark.parametrize("points", [ON_SPARK[3:4], pytest.param(ON_SPARK, marks=pytest.mark.soak)], ids=["some", "all"])
def test_killed_and_interrupted_on_spark_everything_is_as_if_uninterrupted(
    whole_on_spark: Whole, tmp_path: Path, start: Start, points: Sequence[Strike]
) -> None:
    root = whole_on_spark.copy(tmp_path)
    first = start(root, java=whole_on_spark.java, strike=Strike(ALIVE, 3, more=2))
    first.wait_for_strike()
    interrupt_after_commits(first)
    assert_kills_change_nothing(whole_on_spark, points, root, start)


@pytest.mark.slow
def test_killed_in_rounds_of_the_cleaner_everything_is_as_if_uninterrupted(
    whole_for_all_kills: Whole, tmp_path: Path, start: Start
) -> None:
    assert_kills_change_nothing(whole_for_all_kills, IN_ROUNDS, whole_for_all_kills.copy(tmp_path), start)


@pytest.mark.soak
@pytest.mark.parametrize(
    "undisturbed", ["whole_in_one_process", pytest.param("whole_on_spark", marks=pytest.mark.spark)]
)
def test_killed_in_rounds_of_the_cleaner_and_then_taken_over_everything_is_as_if_uninterrupted(
    undisturbed: str, tmp_path: Path, start: Start, request: pytest.FixtureRequest
) -> None:
    whole: Whole = request.getfixturevalue(undisturbed)
    root = whole.copy(tmp_path)
    for strike in IN_ROUNDS:
        run = start(root, "--until-caught-up", java=whole.java, strike=strike)
        run.wait_for_strike()
        run.kill_driver() if strike.driver else run.kill()
        print(f"killed after {run.commits} commits: {strike}")

    suspended = start(root, java=whole.java, strike=IN_ROUNDS[0])
    suspended.wait_for_strike()
    state_dir = str(root / ".headwater" / "elsewhere")
    second = start(root, "--until-caught-up", "--state-dir", state_dir, java=whole.java)
    assert second.end() == 0, second.output
    suspended.go_on()
    assert suspended.end() == 1
    assert "another run of shop-spending has started" in suspended.output
    assert "Traceback" not in suspended.output

    assert_same(outcome(root, "elsewhere"), whole.outcome)
    assert len(spending.generations(root)) == len(IN_ROUNDS) + 2
    last = start(root, "--until-caught-up", java=whole.java)
    assert last.end() == 0, last.output
    assert_same(outcome(root), whole.outcome)
    assert spending.unlisted(root) == set()


@pytest.mark.slow
def test_of_two_processes_one_works_and_a_third_elsewhere_takes_over(
    whole_in_one_process: Whole, tmp_path: Path, start: Start
) -> None:
    whole, root = whole_in_one_process, whole_in_one_process.copy(tmp_path)
    first = start(root, strike=Strike(ALIVE, 3, more=2))
    first.wait_for_strike()

    second = start(root)
    assert second.end() == 1
    assert f"is in use by process {first.pid}" in second.output
    assert "Traceback" not in second.output

    interrupt_after_commits(first)
    assert spending.unlisted(root) == set()

    again = start(root, strike=Strike(ALIVE, 4))
    again.wait_for_strike()
    elsewhere = start(root, "--until-caught-up", "--state-dir", str(root / ".headwater" / "elsewhere"))
    assert elsewhere.end() == 0, elsewhere.output
    again.go_on()
    assert again.end() == 1
    assert "another run of shop-spending has started (generation 3, this one is 2)" in again.output
    assert "Traceback" not in again.output

    assert_same(outcome(root, "elsewhere"), whole.outcome)
    generations = spending.generations(root)
    assert len(generations) == 3
    assert all(generations.values())

    idle = start(root, "--until-caught-up")
    assert idle.end() == 0, idle.output
    assert spending.generations(root)[4] == 0, "nothing was left to do"
    assert "shop-spending: caught up, 0 records in 0 commits" in idle.output
    assert_same(outcome(root), whole.outcome)
