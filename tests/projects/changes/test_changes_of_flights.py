"""Changes of the example project while it holds data, each in a file of `flights`.

All of them are planned. `make test` runs a sixth of each kind of outcome, `make soak` all.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from projects.changes.deployed import Change, Deployed, changes
from projects.changes.flights_small import deployed_flights
from projects.changes.judging import judged, planned_change

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    return deployed_flights(tmp_path_factory.mktemp("deployed") / "flights")


def outcome(change: Any) -> tuple[str, str]:
    return change.values[0].verdict, change.values[0].result


def run_changes() -> list[Any]:
    """All changes, of which five of six of each outcome wait for `make soak`."""
    alike = (list(group) for _, group in groupby(sorted(changes("flights"), key=outcome), outcome))
    return [
        pytest.param(*each.values, id=each.id, marks=[pytest.mark.soak] if number % 6 else [])
        for group in alike
        for number, each in enumerate(group)
    ]


def planned_changes() -> list[Any]:
    """All changes. Those that `make test` also runs are planned then."""
    run = {each.id for each in run_changes() if not each.marks}
    return [
        pytest.param(*each.values, id=each.id, marks=[pytest.mark.soak] if each.id in run else [])
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
