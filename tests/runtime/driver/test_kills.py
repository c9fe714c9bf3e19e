"""Processes end at any moment: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import spending
from spending import Run, outcome
from strikes import Strike, strikes

pytestmark = pytest.mark.spark

SEED = int(os.environ.get("HEADWATER_KILL_SEED", "20130101"))
KILLS = int(os.environ.get("HEADWATER_KILLS", "25"))

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -Xlog:all=off"
"""For a JVM that is not to live long."""


@dataclass(frozen=True)
class Whole:
    """An uninterrupted run: where the project was before it, what it made, in which files, and a quick JVM."""

    fresh: Path
    outcome: dict[str, Any]
    kinds: set[str]
    java: str

    def copy(self, root: Path) -> Path:
        """The project before the run."""
        return Path(shutil.copytree(self.fresh, root, dirs_exist_ok=True))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    base = tmp_path_factory.mktemp("kills")
    fresh, root, archive = base / "fresh", base / "whole", base / "spark.jsa"
    spending.make(fresh, payments=60 * KILLS, java=QUICK_START)
    whole = Whole(fresh, {}, set(), f"{QUICK_START} -XX:SharedArchiveFile={archive}")
    whole.copy(root)
    # The JVM leaves its loaded classes in an archive: later ones start in half the time.
    run = Run(root, "--until-caught-up", java=f"{QUICK_START} -XX:ArchiveClassesAtExit={archive}")
    assert run.end() == 0, run.output
    print(f"uninterrupted: {run.commits} commits")
    whole.kinds.update(spending.kinds(root))
    whole.outcome.update(outcome(root))
    return whole


@pytest.fixture
def start() -> Iterator[Callable[..., Run]]:
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


def test_killed_at_random_points_everything_is_as_if_uninterrupted(
    whole: Whole, tmp_path: Path, start: Callable[..., Run]
) -> None:
    root = whole.copy(tmp_path)
    print(f"HEADWATER_KILL_SEED={SEED}")
    for number, strike in enumerate(strikes(KILLS, SEED), 1):
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


def test_of_two_processes_one_works_and_a_third_elsewhere_takes_over(
    whole: Whole, tmp_path: Path, start: Callable[..., Run]
) -> None:
    root = whole.copy(tmp_path)
    first = start(root, java=whole.java, strike=Strike("a commit gets its name", 3))
    first.wait_for_strike()

    second = start(root, java=whole.java)
    assert second.end() == 1
    assert f"is in use by process {first.pid}" in second.output
    assert "Traceback" not in second.output

    before = first.commits
    first.go_on()
    first.wait_for_commits(before + 2)
    first.interrupt()
    assert first.end() == 0, first.output
    assert "shop-spending: interrupted, " in first.output
    assert spending.unlisted(root) == set()

    again = start(root, java=whole.java, strike=Strike("a commit gets its name", 4))
    again.wait_for_strike()
    elsewhere = start(root, "--until-caught-up", "--state-dir", str(root / ".headwater" / "elsewhere"), java=whole.java)
    assert elsewhere.end() == 0, elsewhere.output
    again.go_on()
    assert again.end() == 1
    assert "another run of shop-spending has started (generation 3, this one is 2)" in again.output
    assert "Traceback" not in again.output

    assert_same(outcome(root, "elsewhere"), whole.outcome)
    generations = spending.generations(root)
    assert len(generations) == 3
    assert all(generations.values())

    idle = start(root, "--until-caught-up", java=whole.java)
    assert idle.end() == 0, idle.output
    assert idle.commits == 1
    assert "shop-spending: caught up, 0 records in 0 commits" in idle.output
    assert_same(outcome(root), whole.outcome)
