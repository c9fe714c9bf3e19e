"""Changes of the example project while it holds data, each in a file of `flights`.

`make test` runs a twelfth of each kind of outcome, and plans a third of the others; `make soak` plans and runs all.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from headwater.tests.projects.changes.deployed import Change, Deployed, changes
from headwater.tests.projects.changes.flights_small import deployed_flights
from headwater.tests.projects.changes.judging import judged, planned_change

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    return deployed_flights(tmp_path_factory.mktemp("deployed") / "flights")


def outcome(change: Any) -> tuple[str, str]:
    return change.values[0].verdict, change.values[0].result


def run_changes() -> list[Any]:
    """All changes, of which eleven of twelve of each outcome wait for `make soak`."""
    alike = (list(group) for _, group in groupby(sorted(changes("flights"), key=outcome), outcome))
    return [
        pytest.param(*each.values, id=each.id, marks=[pytest.mark.soak] if number % 12 else [])
        for group in alike
        for number, each in enumerate(group)
    ]


def planned_changes() -> list[Any]:
    """All changes. Those that `make test` runs are planned then; of the others, two of three wait for `make soak`."""
    run = {each.id for each in run_changes() if not each.marks}
    others = [each.id for each in changes("flights") if each.id not in run][::3]
    return [
        pytest.param(*each.values, id=each.id, marks=[] if each.id in others else [pytest.mark.soak])
        for each in changes("flights")
    ]


@pytest.mark.parametrize("change", planned_changes())
def test_change_of_flights_is_planned_as_it_is_told(
    change: Change, deployed: Deployed, tmp_path: Path, update_golden: bool
) -> None:
    planned_change(change, deployed, tmp_path, update_golden)


@pytest.mark.parametrize("change", run_changes())
def test_change_of_flights_is_run_as_it_is_told(change: Change, deployed: Deployed, tmp_path: Path) -> None:
    judged(change, deployed, tmp_path)
