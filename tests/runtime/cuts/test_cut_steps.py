"""Runs that are killed at any file and store of an epoch, of steps that keep rows in forms of their own or call Python.

Sessions, sliding windows, suppress, joins of streams, of tables and by a foreign key, processors that share a store and
are called as time passes, reduce, aggregates by a class, functions in expressions: topics, stores and changelogs are
then as if nothing had been killed.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from itertools import cycle

import pytest

from headwater.tests.runtime.cuts.cut_runs import PARTS, TRIES, Runs, runs_of
from headwater.tests.runtime.cuts.system_calls import AFTER, BEFORE

STORES = "apply state/*"
FILES = "open log/segments/every-every/*/[*]-g[*]-e[*]-*.seg"
COMMITS = "link log/commits/every-every/*.json"
COPIES = "open log/snapshots/*.snap"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    with runs_of("runtime.cuts.taking_every_step", tmp_path_factory.mktemp("cuts")) as made:
        yield made


def test_undisturbed_run_fills_all_stores_and_topics(runs: Runs) -> None:
    assert len(fnmatch.filter(runs.calls, STORES)) == 16
    assert len(fnmatch.filter(runs.calls, FILES)) == 16 + 8 + 2  # changelogs, topics, and what a foreign key asks
    for found in (runs.expected, runs.expected_restored):
        rows = {what: each for what, each in found.items() if what not in ("status", "error", "damages")}
        assert (found["status"], found["error"], found["damages"]) == ("caught_up", None, [])
        assert len(rows) == 8 + 2 * 16
        assert [what for what, each in rows.items() if not each] == []


@pytest.mark.slow
@pytest.mark.parametrize("calls", [STORES, FILES], ids=["stores", "files"])
def test_epoch_that_is_killed_at_a_third_of_its_files_and_stores_comes_to_the_same(runs: Runs, calls: str) -> None:
    """One kill after the other. A run that was done with a call of before comes to its end: then from the beginning."""
    path = runs.new()
    for name, side in zip(fnmatch.filter(runs.calls, calls)[::3], cycle((BEFORE, AFTER)), strict=False):
        if not runs.killed(path, (name, 1, side)):
            runs.look(path, name)
            path = runs.begun_and_killed(name, [1] * TRIES, side)
    runs.look(path, calls)


@pytest.mark.soak
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("side", [BEFORE, AFTER])
def test_run_that_is_killed_at_each_of_its_calls_comes_to_the_same_with_restored_stores_too(
    runs: Runs, side: str, part: int
) -> None:
    runs.look_after_each_call(side, part, (STORES, FILES, COMMITS, COPIES))
