"""A run that is killed while it writes the many files of one epoch's answers: the next one comes to the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.tests.runtime.cuts.answering_many import NAMES, ORDERED, TOGETHER
from headwater.tests.runtime.cuts.cut_runs import PARTS, TRIES, Runs, runs_of

ANSWERS = "log/segments/test-app/app-answers"
WRITTEN, MERGED = f"{ANSWERS}/*-g*-e*-right*-a*.seg", f"{ANSWERS}/*-g*-m*.seg"

CUTS = (
    pytest.param(f"open {WRITTEN}", 2, "before", marks=pytest.mark.soak),
    (f"open {WRITTEN}", 2, "after"),
    pytest.param(f"open {WRITTEN}", 8, "after", marks=pytest.mark.soak),
    pytest.param(f"fsync {WRITTEN}", 4, "after", marks=pytest.mark.soak),
    (f"fsync {ANSWERS}", 1, "after"),
    ("link log/commits/test-app/*.json", 2, "after"),
    pytest.param(f"fsync {MERGED}", 1, "after", marks=pytest.mark.soak),
    (f"unlink {WRITTEN}", 2, "after"),
)
"""The first epoch of answers, in order: its eight files, on the disk, committed, merged, and purged. `make test` has
one of each but the merge, which all topics have alike (`test_cuts.py`).
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    with runs_of("runtime.cuts.answering_many", tmp_path_factory.mktemp("cuts")) as made:
        yield made


def test_undisturbed_run_answers_all_in_files_of_a_few_and_leaves_none_unlisted(runs: Runs) -> None:
    assert runs.calls[f"open {WRITTEN}"] == NAMES * ORDERED / TOGETHER
    for found, names in ((runs.expected, NAMES + 1), (runs.expected_restored, NAMES + 2)):
        assert (found["status"], found["error"], found["damages"], found["unlisted"]) == ("caught_up", None, [], [])
        assert [len(joined) for _, joined in found["joined"]] == [names] * ORDERED


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number", "side"), CUTS)
def test_run_that_is_killed_among_the_files_of_an_epoch_answers_each_once(
    runs: Runs, name: str, number: int, side: str
) -> None:
    path = runs.begun_and_killed(name, [number] * TRIES, side)
    runs.look(path, (name, number, side))


@pytest.mark.soak
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("side", ["before", "after"])
def test_run_that_is_killed_at_each_of_its_calls_answers_each_once(runs: Runs, side: str, part: int) -> None:
    runs.look_after_each_call(side, part)
