"""A reset that is killed at any of its system calls: done again it comes to the same, and so does a run instead."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import cycle

import pytest

from headwater.tests.runtime.cuts.cut_runs import Runs, runs_of
from headwater.tests.runtime.cuts.system_calls import AFTER, BEFORE


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    with runs_of("runtime.cuts.starting_again", tmp_path_factory.mktemp("cuts")) as made:
        yield made


def test_undisturbed_reset_leaves_the_rest_and_a_run_has_all_results(runs: Runs) -> None:
    assert runs.expected["left"] == ["test-first", "test-seed"]
    assert [each[1:3] for each in runs.expected["ended"]] == [["caught_up", None]] * 3
    assert runs.expected["damages"] == []


def assert_done_again(runs: Runs, cut: tuple[str, int, str]) -> None:
    """After a call that fails, as of a file that is not there, nothing is killed: then the reset was done once."""
    path = runs.new()
    runs.killed(path, cut)
    instead = shutil.copytree(path, path.with_name(f"{path.name}-instead"), symlinks=True)
    runs.look(path, cut)
    assert runs.ask("restored", instead) == runs.expected_restored, cut
    shutil.rmtree(instead)


@pytest.mark.slow
def test_reset_that_is_killed_between_its_steps_can_be_done_again(runs: Runs) -> None:
    steps = [name for name in runs.calls if name.startswith(("rename ", "unlink log/applications/"))]
    assert len(steps) == 6  # of each of the two: its name, its commits, its segments
    for name, side in zip(steps, cycle((BEFORE, AFTER)), strict=False):
        assert_done_again(runs, (name, 1, side))


@pytest.mark.soak
@pytest.mark.parametrize("side", ["before", "after"])
def test_reset_that_is_killed_at_each_of_its_calls_can_be_done_again(runs: Runs, side: str) -> None:
    for name, count in runs.calls.items():
        for number in range(1, count + 1):
            assert_done_again(runs, (name, number, side))
