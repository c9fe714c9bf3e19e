"""A result that is computed again on Spark, as a user sees it: planned, killed on its way, and gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from click.testing import CliRunner

from headwater import Project
from headwater.cli.main import main
from headwater.tests.api.shop import BEST_DAYS, DAILY, day, last_values
from headwater.tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STRIKING = Path(__file__).parents[1] / "runtime" / "driver" / "striking"
COMPUTING = r"link .*/log/commits/shop-sales~2/\d+\.json$"
SWITCHING = r"link .*/log/commits/~places/\d+\.json$"
MOST = {
    ("coffee", "2024-05-01"): 1,
    ("coffee", "2024-05-02"): 2,
    ("coffee", "2024-05-03"): 5,
    ("mug", "2024-05-01"): 4,
    ("mug", "2024-05-02"): 1,
    ("tea", "2024-05-01"): 2,
    ("tea", "2024-05-02"): 3,
}
"""What the new column comes to: the largest order of each product and day."""


def killed(root: Path, place: str, number: int) -> None:
    """Run it as a user does, and kill all of it right before it does this for the so-many-th time."""
    marker = root / f"struck-{number}"
    strike = {"role": "driver", "place": place, "number": number, "marker": str(marker)}
    paths = os.pathsep.join([str(STRIKING), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "headwater.cli.main", "run", "--until-caught-up", "--project-dir", str(root)]
    with (root / f"output-{number}.txt").open("w") as output:
        run = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": paths, "HEADWATER_STRIKE": json.dumps(strike)},
        )
    told = lambda: Path(output.name).read_text()  # noqa: E731
    wait_until(marker.exists, possible=lambda: run.poll() is None, why=told)
    family = [run.pid, *(each.pid for each in psutil.Process(run.pid).children(recursive=True))]
    for pid in family:
        with suppress(ProcessLookupError):  # it has just ended, or the group of another one was its own
            os.killpg(os.getpgid(pid), signal.SIGKILL)
    run.wait()


@pytest.mark.spark
@pytest.mark.parametrize(
    "kills",
    [[(COMPUTING, 2)], pytest.param([(COMPUTING, 2), (SWITCHING, 1)], marks=pytest.mark.soak)],
    ids=["once", "twice"],
)
def test_result_that_is_computed_again_survives_kills_and_is_that_of_a_fresh_project(
    shop: Path, spark_session: SparkSession, kills: list[tuple[str, int]]
) -> None:
    def project() -> Project:
        return Project(shop, session=spark_session)

    def told(*arguments: str) -> str:
        done = CliRunner().invoke(main, [*arguments, "--project-dir", str(shop)])
        return f"{done.exit_code} {done.output}"

    project().build()
    (shop / "topologies" / "best_days.yml").write_text(BEST_DAYS)
    project().build()
    sales, topics = shop / "topologies" / "sales.yml", shop / "topics" / "orders.yml"
    sales.write_text(sales.read_text().replace("orders: count(*)", "orders: count(*)\n            most: max(quantity)"))
    topics.write_text(topics.read_text().replace("orders: bigint", "orders: bigint\n      most: int"))
    project().compile()
    planned = told("plan")
    assert planned.startswith("2 "), planned
    assert "its result is rebuilt; the present one stays" in planned

    for place, number in kills:  # the note of what is computed again is there already when it switches
        killed(shop, place, number)
        assert last_values(project().query("sales_by_day")) == DAILY
        assert last_values(project().read("daily_sales")) == DAILY

    results = project().run(until_caught_up=True)
    assert [each.status for each in results.applications] == ["caught_up"] * 2
    found = list(project().query("sales_by_day"))
    assert last_values(found) == last_values(project().read("daily_sales")) == DAILY
    assert {(each.key["product"], day(each.key["window_start"])): each.value["most"] for each in found} == MOST
    assert last_values(project().read("best_days")) == {key: row for key, row in DAILY.items() if row[1] > 15}
    assert told("plan").startswith("0 ")
    assert told("log", "verify").startswith("0 ")
    assert not list((shop / ".headwater" / "state" / "~beside").glob("*/*"))
