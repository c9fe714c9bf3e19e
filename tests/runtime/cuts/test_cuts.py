"""A run that is killed at any of its system calls, and started again, comes to what an undisturbed run comes to.

Commits, merges, foldings, copies of stores: whatever a run does with files.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from itertools import zip_longest

import pytest

from headwater.tests.runtime.cuts.cut_runs import PARTS, TRIES, Runs, runs_of

KINDS = (
    "link commits/test-app/*.json",
    "link commits/test-seed/*.json",
    "fsync segments/test-app/sums/*.seg",
    "fsync segments/test-app/test-app-totals-changelog/*.seg",
    "fsync snapshots/test-app/totals/*.snap",
    "replace commits/test-app/*.snapshot",
    "unlink commits/test-app/*.json",
    "unlink segments/test-app/by_text/*.seg",
    "fsync segments/test-app/test-app-totals-changelog/*-m*.seg",
    "unlink segments/test-app/test-app-totals-changelog/*.seg",
    "apply state/client*/test-app/totals/*",
)
"""Steps that a run must have, so that they are cut: commits, segments, copies, foldings, purges, merges, stores."""

LIKE_THE_NEXT = ("fchmod *", "fsync *", "pwrite *", "open state/*", "open log/*.tmp", "open log/[ac]*/test-app*")
"""Calls that leave the files as the call before or behind them does, for whoever reads them; `make soak` has all."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    with runs_of("runtime.cuts.summing_up", tmp_path_factory.mktemp("cuts")) as made:
        yield made


def names(calls: Mapping[str, int]) -> list[str]:
    """Of calls, without the top folder, and of files of any name."""
    return [name.replace(" log/", " ") for name in calls]


def test_undisturbed_run_has_all_steps_and_comes_to_whole_results(runs: Runs) -> None:
    assert [kind for kind in KINDS if not fnmatch.filter(names(runs.calls), kind)] == []
    assert (runs.expected["status"], runs.expected["error"], runs.expected["damages"]) == ("caught_up", None, [])
    assert {key: len(sums) for key, sums in runs.expected["sums"].items()} == {"k0": 31, "k1": 30, "k2": 30, "k3": 30}
    assert {key: len(sums) for key, sums in runs.expected_restored["sums"].items()} == {
        "k0": 32,
        **dict.fromkeys(("k1", "k2", "k3"), 31),
    }


@pytest.mark.slow
def test_run_that_is_killed_before_a_call_first_or_after_one_for_the_last_time_comes_to_the_same(runs: Runs) -> None:
    """By turns, as a run that is killed after a call leaves what it leaves before the next one."""
    names = [name for name in runs.calls if not any(fnmatch.fnmatch(name, each) for each in LIKE_THE_NEXT)]
    for name, later in zip_longest(names[::2], names[1::2]):
        path = runs.begun_and_killed(name, [1] * TRIES, "before")
        count = runs.calls[later]
        # The run that goes on makes the call about as often. It may be some less: then it has come to its end.
        reached = later is not None and runs.killed(path, (later, count, "after"))
        runs.look(path, (name, 1, "before", reached and (later, count, "after")))
        if later is not None and not reached:
            last = runs.begun_and_killed(later, [*range(count, 0, -1), *[1] * TRIES], "after")
            runs.look(last, (later, count, "after"))


@pytest.mark.soak
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("side", ["before", "after"])
def test_run_that_is_killed_at_each_of_its_calls_comes_to_the_same_with_restored_stores_too(
    runs: Runs, side: str, part: int
) -> None:
    runs.look_after_each_call(side, part)
