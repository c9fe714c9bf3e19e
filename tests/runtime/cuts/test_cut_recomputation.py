"""A run that computes results again, killed at any of its system calls: the next one comes to the same.

So it is with what it commits beside the old result, with the switch, and with the directories of stores that are taken
over after it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.tests.runtime.cuts.cut_runs import PARTS, TRIES, Runs, runs_of

CUTS = (
    ("link log/commits/~places/*.json", 1, "after"),
    ("apply state/~beside/client*/test-sums/totals/*", 5, "before"),
    ("link log/commits/test-sums/*.json", 1, "after"),
    ("link log/commits/~places/*.json", 2, "after"),
    ("rename state/client*/test-sums", 2, "after"),
)
"""The steps of a recomputation, in order: its note, its own stores, the claim of the old result, the switch, the
directories.
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    with runs_of("runtime.cuts.computing_again", tmp_path_factory.mktemp("cuts")) as made:
        yield made


def test_undisturbed_run_switches_and_leaves_nothing_beside(runs: Runs) -> None:
    for found in (runs.expected, runs.expected_restored):
        assert found["ended"] == [["caught_up", None]] * 3
        assert (found["damages"], found["computed"], found["beside"]) == ([], [], [])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number", "side"), CUTS)
def test_run_that_is_killed_at_a_step_of_the_recomputation_is_gone_on_with(
    runs: Runs, name: str, number: int, side: str
) -> None:
    path = runs.begun_and_killed(name, [number] * TRIES, side)
    runs.look(path, (name, number, side))


@pytest.mark.soak
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("side", ["before", "after"])
def test_run_that_is_killed_at_each_of_its_calls_is_gone_on_with(runs: Runs, side: str, part: int) -> None:
    runs.look_after_each_call(side, part)
