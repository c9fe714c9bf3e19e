"""The two projects with sessions, joins of all kinds and processors, killed again and again, against pandas."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater import Project
from headwater.tests.projects import test_clickstream, test_orders
from headwater.tests.projects.clickstream_expected import Clickstream
from headwater.tests.projects.in_process import copied, seed_rows
from headwater.tests.projects.orders_expected import Shop
from headwater.tests.runtime.cuts.cut_runs import program_of
from headwater.tests.runtime.cuts.system_calls import AFTER, ANY, BEFORE

SEED = int(os.environ.get("HEADWATER_KILL_SEED", "20260302"))
CALLS = (80, 450)
"""Calls of the system, on files of the project, from a start to the kill."""


@pytest.mark.parametrize(("kills", "part"), [(3, 6), pytest.param(50, 1, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    ("name", "size", "data", "check"),
    [
        ("clickstream", ("CLICKSTREAM_EVENTS", 6000), Clickstream, test_clickstream.check),
        ("orders", ("ORDERS", 500), Shop, test_orders.check),
    ],
)
def test_project_that_is_killed_again_and_again_comes_to_what_pandas_says(
    name: str,
    size: tuple[str, int],
    data: Callable[..., Any],
    check: Callable[[Project, Any], None],
    kills: int,
    part: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    print(f"HEADWATER_KILL_SEED={SEED}")
    variable, records = size
    monkeypatch.setenv(variable, str(records // part))
    draw, root = random.Random(SEED), copied(name, tmp_path)
    seeds = test_clickstream.SEEDS if data is Clickstream else test_orders.SEEDS
    with program_of("projects.killed_example") as program:
        outcomes = [
            program.ask("run", root, (ANY, draw.randint(*CALLS), draw.choice((BEFORE, AFTER)))) for _ in range(kills)
        ]
        program.ask("run", root)

    assert outcomes == [{"killed": True}] * kills
    check(Project(root), data(*(seed_rows(root, each) for each in seeds)))
