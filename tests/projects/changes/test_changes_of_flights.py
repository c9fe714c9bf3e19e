"""Changes of the example project while it holds data, each in a file of `flights`."""

from __future__ import annotations

from pathlib import Path

import pytest
from projects.changes.deployed import Change, Deployed, changes
from projects.changes.flights_small import deployed_flights
from projects.changes.judging import judged

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    return deployed_flights(tmp_path_factory.mktemp("deployed") / "flights")


@pytest.mark.parametrize("change", changes("flights"))
def test_change_of_flights_is_planned_and_run_as_it_is_told(
    change: Change, deployed: Deployed, tmp_path: Path, update_golden: bool
) -> None:
    judged(change, deployed, tmp_path, update_golden)
