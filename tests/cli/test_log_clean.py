"""`headwater log clean`: what it says, and what becomes of the log."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from click.testing import Result

from headwater import Project
from headwater.runtime.log.cleaning.cleaner import clean_completely
from headwater.tests.cli.test_tasks import status

Headwater = Callable[..., Result]
SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "log_cleaning.json").read_text())
APPENDS = 8


@pytest.fixture
def many(headwater: Headwater, shop: Path) -> Path:
    """The files of a topic with many small segments."""
    headwater("seed")
    record = headwater("read", "orders", "--format", "json", "--limit", "1").stdout
    for _ in range(APPENDS):
        assert headwater("seed", "orders", "--append", stdin=record).exit_code == 0
    return shop / ".headwater" / "log" / "segments" / "shop-seed" / "orders"


def test_log_without_commits_has_nothing_to_clean(headwater: Headwater) -> None:
    result = headwater("log", "clean")
    assert (result.exit_code, result.stdout) == (0, "the project has committed nothing to the log yet\n")
    named = headwater("log", "clean", "shop-seed")
    assert (named.exit_code, "the log has no application 'shop-seed' of this project" in named.stderr) == (2, True)


def test_small_segments_become_one_and_their_files_go_after_the_delay(
    headwater: Headwater, shop: Path, many: Path
) -> None:
    before = headwater("read", "orders").stdout
    files = set(many.iterdir())
    assert len(files) == 1 + APPENDS

    result = headwater("log", "clean")

    assert result.exit_code == 0, result.output
    head, row = (line.split() for line in result.stdout.splitlines())
    assert head[0] == "application"
    assert row[:3] == ["shop-seed", f"{2 + APPENDS}", "2"]
    assert row[-2:] == ["0", f"{APPENDS}"]
    assert files < set(many.iterdir())  # somebody may just be reading them
    assert headwater("read", "orders").stdout == before
    assert headwater("log", "verify").exit_code == 0

    again = json.loads(headwater("log", "clean", "shop-seed", "--format", "json").stdout)
    jsonschema.validate(again, SCHEMA)
    (seeds,) = again["applications"]
    assert seeds["before"] == seeds["after"]
    assert (seeds["before"]["segments"], seeds["files_removed"], seeds["files_waiting"]) == (2, 0, APPENDS)


def test_files_that_were_replaced_go_at_once_without_a_delay(headwater: Headwater, shop: Path, many: Path) -> None:
    before = headwater("read", "orders").stdout
    found = clean_completely(Project(shop).log(), "shop-seed", {}, delay_ms=0)
    assert (found.removed, found.waiting) == (APPENDS, 0)
    assert len(list(many.iterdir())) == 2
    assert headwater("read", "orders").stdout == before


def test_application_that_runs_is_refused(headwater: Headwater, shop: Path, many: Path) -> None:
    Project(shop).log().write_status("shop-seed", status(application="shop-seed").to_text())
    files = set(many.iterdir())

    result = headwater("log", "clean")

    assert result.exit_code == 1
    assert f"error: shop-seed is running on {os.uname().nodename}" in result.stderr
    assert set(many.iterdir()) == files


def test_damaged_segment_is_told_and_left_as_it_is(headwater: Headwater, many: Path) -> None:
    path = max(many.iterdir(), key=lambda each: each.stat().st_mtime_ns)
    path.write_bytes(path.read_bytes()[:-200] + b"x" * 200)

    result = headwater("log", "clean")

    assert result.exit_code == 1
    assert "error: shop-seed: not cleaned: " in result.stderr
    assert path.name in result.stderr
    assert result.stdout.splitlines()[1].split()[:3] == ["shop-seed", f"{2 + APPENDS}", f"{2 + APPENDS}"]
