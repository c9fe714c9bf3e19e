"""Runs from Python: what they give and raise, and how applications start from the beginning."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pyspark
import pytest
from click.testing import CliRunner
from jsonschema import Draft7Validator

from headwater import Project, RunFailedError
from headwater.cli.main import main
from headwater.runtime.driver.counters import EPOCH_PHASES
from headwater.runtime.driver.events import ApplicationStopped, EpochCommitted, Event, Observers, StatusTaken
from headwater.runtime.driver.results import ApplicationResult, RunResults
from headwater.runtime.log.declared_topics import WriterChangedError
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.observe.metrics import serving
from headwater.runtime.progress.resets import ReaderError, readers
from headwater.runtime.state.directory import StateDirectory
from headwater.runtime.tasks.errors import LockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
from headwater.tests.api.shop import BEST_DAYS, DAILY, last_values

ROOT = Path(__file__).parents[2]


NUMBERS = """
topology: numbers
flows:
  whole:
    from: orders
    steps:
      - filter: cast(product as int) > 0
    to: numbers
"""


def test_run_that_failed_raises_the_sentences_of_what_failed() -> None:
    good = ApplicationResult("shop-sales", "caught_up", 1, 3, 19, 0.5)
    bad = ApplicationResult("shop-fleet", "failed", 1, 0, 1, 0.25, error="a record cannot be processed")
    gone = ApplicationResult("shop-late", "fenced", 1, 0, 0, 0.25)
    results = RunResults(0, 1.0, (good, bad, gone))

    with pytest.raises(RunFailedError) as raised:
        results.check()

    assert raised.value.results is results
    assert str(raised.value) == "shop-fleet: a record cannot be processed; shop-late: fenced"
    assert repr(results) == "<RunResults: 1 caught up, 1 failed, 1 fenced, 20 records, 1.0 s>"
    assert repr(good) == "<ApplicationResult shop-sales: caught up, 19 records, 3 commits, 0.5 s>"
    RunResults(0, 1.0, (good,)).check()


def test_built_scaffold_has_the_results(built: Project) -> None:
    assert last_values(built.read("daily_sales")) == DAILY
    assert last_values(built.query("sales_by_day")) == DAILY


def test_second_build_finds_nothing_to_do(built: Project) -> None:
    results = built.build()

    assert (results.failed, results.records) == (False, 0)
    assert results.applications[0].status == "caught_up"


def test_run_results_have_the_form_of_their_schema(built: Project) -> None:
    written = json.loads((built.root / "target" / "run_results.json").read_text())
    schema = json.loads((ROOT / "schemas" / "run_results.json").read_text())

    assert [error.message for error in Draft7Validator(schema).iter_errors(written)] == []
    (application,) = written["applications"]
    assert application["records"] == 19
    metrics = application["metrics"]
    # No record goes to Spark SQL: tasks compute all expressions of this project.
    assert [phase for phase, seconds in metrics["seconds"].items() if not seconds > 0] == ["sql"]
    tasks = [task for client in metrics["clients"] for task in client["tasks"]]
    assert sum(task["counts"]["consumed_records"] for task in tasks) == 19
    assert sum(task["counts"]["seconds"]["operators"] for task in tasks) > 0


def test_records_appended_after_a_build_are_taken_up_by_the_next(built: Project) -> None:
    order = {"order_id": 11, "product": "tea", "quantity": 2, "price": 1.5, "ordered_at": "2024-05-03T12:00:00Z"}
    built.append("orders", [order])

    assert built.run(until_caught_up=True).records == 2
    assert last_values(built.query("sales_by_day")) == {**DAILY, ("tea", "2024-05-03"): (1, 3.0)}


def test_full_refresh_computes_everything_again_and_metrics_are_served_meanwhile(built: Project) -> None:
    scraped: list[str] = []

    class Scraping:
        def on(self, event: Event) -> None:
            if isinstance(event, StatusTaken):
                scraped.append(urlopen(url).read().decode())

    with serving(0) as (statuses, url):
        results = built.build(full_refresh=True, observer=Observers(statuses, Scraping()))

    assert results.records == 19
    assert 'headwater_application_consumed_records_total{application="shop-sales"} 0.0' in scraped[0]
    assert 'headwater_application_consumed_records_total{application="shop-sales"} 19.0' in scraped[-1]
    spent = re.findall(r'headwater_epoch_seconds_total{[^}]*phase="(\w+)"[^}]*} (\S+)', scraped[-1])
    assert {phase for phase, seconds in spent if float(seconds) > 0} == set(EPOCH_PHASES) - {"sql"}
    assert sum(1 for _ in built.read("daily_sales")) == len(DAILY)


def test_topology_whose_output_was_read_is_not_refreshed_alone(built: Project, local: Any) -> None:
    (built.root / "topologies" / "best_days.yml").write_text(BEST_DAYS)
    project = Project(built.root, session=local)
    project.build()
    assert sum(1 for _ in project.read("best_days")) == 3

    with pytest.raises(ReaderError) as raised:
        Project(built.root, session=local, select=["sales"]).full_refresh()
    assert raised.value.missing == ("shop-best_days",)
    assert "add best_days to --select" in str(raised.value.hint)

    Project(built.root, session=local, select=["sales+"]).full_refresh()
    assert readers(EmbeddedLog(built.root / ".headwater" / "log"), ["orders"]) == []


def test_renamed_topology_that_says_what_it_was_goes_on(built: Project, local: Any) -> None:
    renamed = built.root / "topologies" / "sales.yml"
    renamed.write_text(renamed.read_text().replace("topology: sales", "topology: revenue\nwas: sales"))
    project = Project(built.root, session=local)

    (planned,) = project.plan().applications
    assert [(change.kind, str(change.verdict)) for change in planned.changes] == [("topology.renamed", "compatible")]
    assert project.plan().orphans == ()
    assert last_values(project.query("sales_by_day")) == DAILY
    (result,) = project.run(until_caught_up=True).applications

    assert (result.application, result.generation, result.records) == ("shop-revenue", 2, 0)
    assert last_values(project.read("daily_sales")) == last_values(project.query("sales_by_day")) == DAILY
    after = project.plan()
    assert (str(after.verdict), [change.kind for change in after.changes]) == ("nothing", ["was.idle"])
    listed = CliRunner().invoke(main, ["log", "ls", "--project-dir", str(built.root)])
    assert "shop-revenue was renamed or rebuilt: its commits and files are named shop-sales" in listed.output
    assert "shop-revenue-sales_by_day-changelog" in listed.output
    verified = CliRunner().invoke(main, ["log", "verify", "--project-dir", str(built.root)])
    assert verified.exit_code == 0, verified.output
    tasks = CliRunner().invoke(main, ["tasks", "--project-dir", str(built.root)])
    assert "shop-revenue" in tasks.output


def test_renamed_topology_is_refused_until_it_is_fully_refreshed_as_the_error_says(built: Project, local: Any) -> None:
    renamed = built.root / "topologies" / "sales.yml"
    renamed.write_text(renamed.read_text().replace("topology: sales", "topology: revenue"))
    (built.root / "topologies" / "best_days.yml").write_text(BEST_DAYS)
    project = Project(built.root, session=local)

    failed = project.run(until_caught_up=True, check=False)
    for result in failed.applications:
        assert "was written by shop-sales so far, and is written by shop-revenue now" in str(result.error)
        assert "headwater run --full-refresh --select 'revenue+'" in str(result.error)
        assert "if revenue is sales under a new name, put `was: sales` into its file" in str(result.error)
    assert last_values(project.read("daily_sales")) == DAILY  # the old result is there meanwhile
    with pytest.raises(WriterChangedError):
        project.query("sales_by_day")
    Project(built.root, session=local, select=["revenue+"]).full_refresh()
    project.run(until_caught_up=True)

    log = EmbeddedLog(built.root / ".headwater" / "log")
    assert log.applications() == ["shop-best_days", "shop-revenue", "shop-seed"]
    assert last_values(project.read("daily_sales")) == last_values(project.query("sales_by_day")) == DAILY
    assert sum(1 for _ in project.read("best_days")) == 3


def test_flow_moved_to_another_topology_takes_its_topic_with_it(built: Project, local: Any) -> None:
    (built.root / "topologies" / "best_days.yml").write_text(BEST_DAYS)
    Project(built.root, session=local).run(until_caught_up=True)
    (built.root / "topologies" / "good_days.yml").write_text(BEST_DAYS.replace("topology: best", "topology: good"))
    (built.root / "topologies" / "best_days.yml").write_text(BEST_DAYS.replace("to: best_days", "to: other_days"))
    project = Project(built.root, session=local)
    assert sum(1 for _ in project.read("best_days")) == 3  # of its writer so far

    project.run(until_caught_up=True)

    assert sum(1 for _ in project.read("best_days")) == 3
    assert project.plan().changes == ()


def test_application_that_runs_elsewhere_is_not_fully_refreshed(built: Project) -> None:
    client = next((built.root / ".headwater" / "state").iterdir()).name
    with StateDirectory(built.root / ".headwater" / "state", client, "shop-sales").lock(), pytest.raises(LockError):
        built.full_refresh()

    assert last_values(built.read("daily_sales")) == DAILY


@pytest.mark.spark
def test_run_with_a_record_that_fails_raises_unless_told_not_to(shop: Path, spark_session: SparkSession) -> None:
    (shop / "topologies" / "numbers.yml").write_text(NUMBERS)
    project = Project(shop, session=spark_session, select=["numbers"])

    with pytest.raises(RunFailedError) as raised:
        project.build()

    (failed,) = raised.value.results.applications
    assert failed.status == "failed"
    assert "CAST_INVALID_INPUT" in raised.value.message
    written = json.loads((shop / "target" / "run_results.json").read_text())
    assert [each["status"] for each in written["applications"]] == ["failed"]
    assert project.run(until_caught_up=True, check=False).failed
    shown = CliRunner().invoke(main, ["run", "--project-dir", str(shop), "-s", "numbers", "--until-caught-up"])
    assert shown.exit_code == 1
    assert re.search(r"^shop-numbers +failed ", shown.stdout, re.MULTILINE)


class StopAtTheFirstCommit:
    """An observer that stops the run, as Ctrl-C would."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.events: list[Event] = []

    def on(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, EpochCommitted):
            self.stop.set()


def test_stopped_run_has_committed_what_it_did_and_the_next_goes_on(shop: Path, local: Any) -> None:
    project = Project(shop, session=local)
    project.seed()
    observer = StopAtTheFirstCommit()

    results = project.run(observer=observer, stop=observer.stop)

    assert results.applications[0].status == "interrupted"
    assert isinstance(observer.events[-1], ApplicationStopped)
    project.run(until_caught_up=True)
    assert last_values(project.read("daily_sales")) == DAILY


SUBMIT = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("program", "engine"),
    [pytest.param([sys.executable], "task", marks=pytest.mark.soak), ([SUBMIT], "spark")],
    ids=["python", "spark-submit"],
)
def test_runner_is_a_program_of_its_own(
    program: Sequence[str], engine: str, shop: Path, spark_session: SparkSession, tmp_path: Path
) -> None:
    project = Project(shop, session=spark_session)
    project.compile()
    project.seed()

    runner = str(shop / "target" / "sales" / "runner.py")
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [
            *[*program, runner, "--until-caught-up", "--engine", engine],
            *["--log-format", "json", "--metrics-port", "0", "--trace", "t"],
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment,
    )

    assert done.returncode == 0, done.stderr
    assert last_values(project.read("daily_sales")) == DAILY
    said = [json.loads(line) for line in done.stdout.splitlines()]
    told = [each["event"] for each in said]
    assert told[:1] + told[-2:] == ["metrics_served", "application_ended", "run_ended"]
    assert sum(each["fields"]["records"] for each in said if each["event"] == "epoch_committed") == 19
    traced = {each["name"] for each in json.loads((tmp_path / "t").read_text())["traceEvents"]}
    assert "epoch 1" in traced
    assert ("sql" in traced) == (engine == "spark")
