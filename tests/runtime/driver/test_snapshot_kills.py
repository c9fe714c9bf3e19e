"""Processes end while stores are saved and loaded: everything is as if nothing had happened."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.tests.runtime.driver import spending
from headwater.tests.runtime.driver.spending import APPLICATION, Run, outcome
from headwater.tests.runtime.driver.strikes import WITH_SNAPSHOTS, Strike

SNAPSHOTS = """
restore:
  strategy:
    name: snapshot
    options:
      every_epochs: 2
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "points", [(1, 2, 4), pytest.param(range(len(WITH_SNAPSHOTS)), marks=pytest.mark.soak)], ids=["some", "all"]
)
def test_killed_while_stores_are_saved_and_loaded_everything_is_as_if_uninterrupted(
    tmp_path: Path, points: Sequence[int]
) -> None:
    """`points`: which ones of WITH_SNAPSHOTS."""
    whole, root = tmp_path / "whole", tmp_path / "killed"
    spending.make(whole, payments=800, more=SNAPSHOTS)  # each run removes many snapshots, however epochs fall
    shutil.copytree(whole, root)
    run = Run(whole, "--until-caught-up")
    assert run.end() == 0, run.output
    assert len(snapshots(whole)) >= 6

    for number in points:
        point = list(WITH_SNAPSHOTS)[number]
        if number >= 2:  # these need stores that are lost
            shutil.rmtree(root / ".headwater" / "state")
        run = Run(root, "--until-caught-up", strike=Strike(point, 2 if number == 1 else 1))
        run.wait_for_strike()
        run.kill()
        print(f"killed before {point}, after {run.commits} commits; {len(spending.unlisted(root))} files left over")

    last = Run(root, "--until-caught-up")
    assert last.end() == 0, last.output
    assert spending.kinds(root) - spending.kinds(whole) == set()
    found, expected = outcome(root), outcome(whole)
    for what, content in expected.items():
        assert found[what] == content, what
    assert spending.unlisted(root) == set()
    assert snapshots(root)


def snapshots(root: Path) -> set[str]:
    return LogState.load(EmbeddedLog(root / ".headwater" / "log").commits(APPLICATION)).store_snapshots.paths()
