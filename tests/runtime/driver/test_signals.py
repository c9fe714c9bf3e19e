"""Signals that end a run, as a terminal, a container and a service manager send them, while an epoch is open.

Each run is stopped at a point of its first epoch, so that the epoch is open when the signal comes.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from headwater.tests.processes import has_ended
from headwater.tests.runtime.driver import spending
from headwater.tests.runtime.driver.spending import Run, outcome
from headwater.tests.runtime.driver.strikes import ALIVE, Strike
from headwater.tests.runtime.driver.test_kills import QUICK_START, assert_same
from headwater.tests.waiting import wait_until

pytestmark = pytest.mark.spark

IN_AN_EPOCH = Strike("a segment is written")
CLAIM = 1
"""The commit that each run makes before its first epoch."""


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project before any run."""
    root = tmp_path_factory.mktemp("signals") / "fresh"
    spending.make(root, payments=200, java=QUICK_START)
    return root


@pytest.fixture
def root(fresh: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(fresh, tmp_path / "project"))


@contextmanager
def struck(root: Path, strike: Strike) -> Iterator[Run]:
    """A run on Spark that has reached its point. It is killed if the test ends before it."""
    run = Run(root, java=QUICK_START, strike=strike)
    try:
        run.wait_for_strike()
        yield run
    finally:
        if run.runs():
            run.kill()


def assert_next_run_completes(root: Path, fresh: Path, whole: Path) -> None:
    """All is as if one run had done it, which needs no Spark to be seen."""
    shutil.copytree(fresh, whole)
    for each in (root, whole):
        run = Run(each, "--until-caught-up")
        assert run.end() == 0, run.output
    assert_same(outcome(root), outcome(whole))


def test_signal_to_the_process_group_ends_the_run_with_its_open_epoch_committed(root: Path) -> None:
    with struck(root, IN_AN_EPOCH) as run:
        for _ in range(2):  # `timeout` sends it to its child, and then to the child's group
            os.killpg(run.pid, signal.SIGTERM)
        run.go_on()

        assert run.end() == 0, run.output

    assert "shop-spending: interrupted, " in run.output
    assert run.commits > CLAIM
    assert "Spark's JVM" not in run.output


def test_signal_to_every_process_ends_the_run_without_its_open_epoch_and_is_no_failure(
    root: Path, fresh: Path, tmp_path: Path
) -> None:
    with struck(root, IN_AN_EPOCH) as run:
        for process in run.family():  # as systemd does with a whole control group
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGTERM)
        run.go_on()

        assert run.end() == 0, run.output

    assert "ends without a commit of its open epochs, as Spark's JVM was ended by SIGTERM" in run.output
    assert "no record is lost: the next run processes them again" in run.output
    assert "shop-spending: interrupted, 0 records in 0 commits" in run.output
    assert "memory" not in run.output
    assert "Traceback" not in run.output
    assert run.commits == CLAIM

    assert_next_run_completes(root, fresh, tmp_path / "whole")


def test_driver_that_is_killed_leaves_no_jvm_and_no_worker(root: Path) -> None:
    with struck(root, Strike(ALIVE, CLAIM + 1)) as run:
        others = run.family()[1:]
        assert {"java"} < {process.name() for process in others}

        run.kill_driver()

    wait_until(lambda: all(map(has_ended, others)))
