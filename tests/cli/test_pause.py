"""`headwater pause` and `resume`: what they print, and what `tasks` and `build` say meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from click.testing import Result

from headwater import Project
from headwater.runtime.log.log import Log
from headwater.tests.cli.test_tasks import SCHEMA, status

Headwater = Callable[..., Result]


@pytest.fixture
def log(shop: Path) -> Log:
    """That of a shop which has run before."""
    log = Project(shop).log()
    log.commits("shop-sales").create(1, b"a commit")
    return log


def test_pause_and_resume_say_what_they_have_changed(headwater: Headwater, log: Log) -> None:
    assert headwater("pause").stdout == "shop-sales is paused: `headwater resume` ends the pause\n"
    assert log.paused_since("shop-sales") is not None
    assert headwater("pause", "--select", "sales").stdout.startswith("shop-sales is paused already, since 2")
    assert headwater("resume").stdout == "shop-sales is resumed\n"
    assert log.paused_since("shop-sales") is None
    assert headwater("resume").stdout == "shop-sales is not paused\n"


def test_pause_says_once_which_records_stay_in_the_log_until_it_ends(
    headwater: Headwater, shop: Path, log: Log
) -> None:
    topic = shop / "topics" / "orders.yml"
    topic.write_text(topic.read_text().replace("partitions: 2", "partitions: 2\n    retention: 1h"))
    assert headwater("pause").stdout.splitlines() == [
        "shop-sales is paused: `headwater resume` ends the pause",
        "  until then the log keeps unread records of orders",
    ]
    assert "until then" not in headwater("pause").stdout


def test_application_that_never_ran_cannot_be_paused(headwater: Headwater, shop: Path) -> None:
    result = headwater("pause")
    assert (result.exit_code, result.stderr) == (
        1,
        "warning: shop-sales has never run on this log: nothing to pause\n",
    )
    assert not (shop / "data").exists()


def test_pause_works_while_a_topology_of_the_project_is_broken(headwater: Headwater, shop: Path, log: Log) -> None:
    (shop / "topologies" / "sales.yml").write_text("topology: sales\nflows: 7\n")
    assert headwater("pause").exit_code == 0
    assert log.paused_since("shop-sales") is not None


def test_tasks_tells_a_pause_and_whether_the_run_stands_still(headwater: Headwater, log: Log) -> None:
    headwater("pause")
    log.write_status("shop-sales", status().to_text())
    third = headwater("tasks").stdout.splitlines()[2]
    assert third.startswith("paused since 2")
    assert third.endswith("; `headwater resume` ends the pause; records in progress are not finished yet")
    log.write_status("shop-sales", status(paused=True).to_text())
    assert headwater("tasks").stdout.splitlines()[2].endswith("; `headwater resume` ends the pause")
    found = json.loads(headwater("tasks", "--format", "json").stdout)
    jsonschema.validate(found, SCHEMA)
    (application,) = found["applications"]
    assert (application["paused_since"], application["run"]["paused"]) == (log.paused_since("shop-sales"), True)
    headwater("resume")
    assert "pause" not in headwater("tasks").stdout
