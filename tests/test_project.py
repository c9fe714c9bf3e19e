"""The Python API: what commands do, returned."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from click.testing import CliRunner
from jsonschema import Draft7Validator

from headwater import HeadwaterError, InvalidProjectError, Project, RunFailedError, UnknownNameError
from headwater.cli.init import command as init
from headwater.cli.main import main
from headwater.compiler.pipeline import CACHE
from headwater.runtime.driver.events import ApplicationStopped, EpochCommitted, Event
from headwater.runtime.driver.results import ApplicationResult, RunResults
from headwater.runtime.log.declarations import WriterChangedError
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import TopicChangedError
from headwater.runtime.progress.full_refresh import ReaderError, readers
from headwater.runtime.state.directory import StateDirectory
from headwater.runtime.tasks.errors import LockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent

DAILY = {
    ("coffee", "2024-05-01"): (1, 7.0),
    ("coffee", "2024-05-02"): (1, 14.0),
    ("coffee", "2024-05-03"): (1, 32.5),
    ("mug", "2024-05-01"): (1, 39.6),
    ("mug", "2024-05-02"): (1, 9.9),
    ("tea", "2024-05-01"): (2, 13.5),
    ("tea", "2024-05-02"): (2, 17.75),
}
"""What the seed of the scaffold comes to: orders and revenue by product and day."""

BEST_DAYS = """
topology: best_days
flows:
  best:
    from: daily_sales
    steps:
      - filter: revenue > 15
    to: best_days
"""


NUMBERS = """
topology: numbers
flows:
  whole:
    from: orders
    steps:
      - filter: cast(product as int) > 0
    to: numbers
"""
VERDICTS = Path(__file__).parent / "golden" / "scaffold" / "verdicts.json"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    project = tmp_path / "shop"
    init.main(["shop", "--project-dir", str(project)], standalone_mode=False)
    return project


def day(milliseconds: int) -> str:
    return f"2024-05-{(milliseconds - 1714521600000) // 86_400_000 + 1:02d}"


def last_values(records: Iterable[Any]) -> dict[tuple[str, str], tuple[int, float]]:
    return {
        (record.key["product"], day(record.key["window_start"])): (record.value["orders"], record.value["revenue"])
        for record in records
    }


def test_parse_of_a_project_with_errors_gives_them(shop: Path) -> None:
    (shop / "topics" / "orders.yml").write_text("topics: [")

    parsed = Project.load(shop).parse()

    assert not parsed.ok
    assert parsed.diagnostics[0].position.file == "topics/orders.yml"


def test_what_needs_a_valid_project_raises_the_first_error(shop: Path) -> None:
    (shop / "topologies" / "sales.yml").write_text("topology: sales\nflows:\n  a: {from: oders}\n")

    with pytest.raises(InvalidProjectError) as raised:
        Project(shop).seed()

    assert raised.value.message.startswith("topologies/sales.yml:3:13: There is no topic")
    assert "HW302" in {each.code for each in raised.value.found.diagnostics}


def test_folder_without_a_project_names_init(tmp_path: Path) -> None:
    with pytest.raises(InvalidProjectError) as raised:
        Project(tmp_path).settings()

    assert "headwater init" in str(raised.value.hint)


def test_settings_have_absolute_paths(shop: Path) -> None:
    settings = Project(shop).settings()

    assert settings.log.options["path"] == str(shop / ".headwater" / "log")
    assert settings.state_dir == str(shop / ".headwater" / "state")
    assert (settings.clients, settings.epoch_interval_ms, settings.max_records) == (1, 500, 200_000)


def test_appended_rows_are_read_back(shop: Path) -> None:
    project = Project(shop)
    order = {"order_id": 1, "product": "tea", "quantity": 1, "price": 2.5, "ordered_at": "2024-05-09T10:00:00Z"}

    assert project.append("orders", [order]).records == 1

    (record,) = project.read("orders")
    assert (record.key, record.value["price"], record.timestamp) == ({"order_id": 1}, 2.5, 1715248800000)


def test_append_of_rows_that_do_not_fit_changes_nothing(shop: Path) -> None:
    project = Project(shop)

    with pytest.raises(HeadwaterError):
        project.append("orders", [{"order_id": "one"}])

    assert list(project.read("orders")) == []


def test_read_that_follows_gets_what_is_appended_meanwhile(shop: Path) -> None:
    project = Project(shop)
    project.seed()
    records = iter(project.read("orders", follow=True, limit=11))

    seen = [next(records) for _ in range(10)]
    project.append("orders", [{**seen[0].value, "order_id": 99}])

    assert next(records).key == {"order_id": 99}
    assert next(records, None) is None


def test_records_can_be_read_again_and_as_a_table(shop: Path) -> None:
    project = Project(shop)
    project.seed()
    records = project.read("orders")

    assert list(records) == list(records)
    orders = records.to_pandas().sort_values("order_id")
    assert orders["product"].tolist()[:3] == ["tea", "coffee", "tea"]
    assert orders["timestamp"].equals(orders["ordered_at"])
    assert records.to_arrow()["offset"].to_pylist() == [record.offset for record in records]
    assert project.read("orders", limit=4, follow=True).to_arrow().num_rows == 4
    assert project.read("daily_sales").to_arrow().num_rows == 0


def test_table_of_a_read_without_an_end_is_refused(shop: Path) -> None:
    with pytest.raises(HeadwaterError, match="has no end"):
        Project(shop).read("orders", follow=True).to_arrow()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda project: project.read("orders", limit=-1), "limit must be a whole number from 0, not -1 (int)"),
        (lambda project: project.read("orders", limit=True), "limit must be a whole number from 0, not True (bool)"),
        (lambda project: project.read("orders", start="x"), "start must be a whole number from 0, not 'x' (str)"),
        (lambda project: project.read(5), "topic must be a text, not 5 (int)"),
        (lambda project: project.append(5, []), "topic must be a text, not 5 (int)"),
        (lambda project: project.query("sales_by_day", start="x"), "start must be a whole number, not 'x' (str)"),
        (lambda project: project.query("sales_by_day", key="x"), "key must be a mapping of key columns to values, "
         "not 'x' (str)"),
        (lambda project: project.query(None), "store must be a text, not None (NoneType)"),
        (lambda project: project.run(observer=print), "observer must be an object with the method on, "
         "not <built-in function print> (builtin_function_or_method)"),
        (lambda project: project.build(observer=print), "observer must be an object with the method on, "
         "not <built-in function print> (builtin_function_or_method)"),
        (lambda project: project.run(stop=1), "stop must be an object with the method is_set and wait, not 1 (int)"),
        (lambda project: project.seed("orders"), "topics must be a list of texts, not 'orders' (str)"),
        (lambda project: Project(project.root, select="sales"), "select must be a list of texts, not 'sales' (str)"),
    ],
)  # fmt: skip
def test_argument_of_another_kind_is_told_at_once(shop: Path, call: Callable[[Any], object], said: str) -> None:
    with pytest.raises(HeadwaterError) as caught:
        call(Project(shop))
    assert caught.value.message == said
    assert not (shop / ".headwater").exists()


def test_selection_of_a_topology_seeds_what_it_reads(shop: Path) -> None:
    assert [seeded.topic for seeded in Project(shop, select=["sales"]).seed()] == ["orders"]
    assert Project(shop, select=["daily_sales"]).seed() == ()


def test_unknown_topic_raises(shop: Path) -> None:
    with pytest.raises(UnknownNameError):
        Project(shop).read("nothing")


def test_every_public_name_can_be_imported_and_no_other() -> None:
    import headwater

    for name in headwater.__all__:
        assert getattr(headwater, name) is not None
    with pytest.raises(AttributeError):
        _ = headwater.Projekt


def test_load_refuses_an_option_that_there_is_not(shop: Path) -> None:
    with pytest.raises(TypeError, match="taget"):
        Project.load(shop, taget="local")  # type: ignore[call-arg]
    with Project.load(shop, target="local", vars={"smallest_order": 2}) as project:
        assert project.parse().target_name == "local"


def test_what_methods_give_is_shown_in_one_short_line(shop: Path) -> None:
    (shop / CACHE).parent.mkdir(parents=True)
    shutil.copy(VERDICTS, shop / CACHE)
    project = Project(shop)
    parsed, compiled, (simulation,) = project.parse(), project.compile(), project.simulate()

    assert repr(project) == f"Project({str(shop)!r})"
    assert repr(parsed) == "<Parsed shop: 2 topics, 1 topology, 0 errors, 0 warnings>"
    assert repr(compiled).startswith("<Compiled shop: 2 topics")
    assert repr(simulation) == "<Simulation of sales: tasks 4, rounds 1, moved 0>"
    shown = [*compiled.graphs, *compiled.emitted, *simulation.rounds, *project.seed(), *project.read("orders", limit=1)]
    assert max(len(repr(each)) for each in shown) < 320
    assert not any("\n" in repr(each) for each in shown)


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


# From here on with Spark.


@pytest.fixture
def built(shop: Path, spark_session: SparkSession) -> Project:
    project = Project(shop, session=spark_session)
    project.build()
    return project


@pytest.mark.spark
def test_built_scaffold_has_the_results(built: Project) -> None:
    assert last_values(built.read("daily_sales")) == DAILY
    assert last_values(built.query("sales_by_day")) == DAILY


@pytest.mark.spark
def test_results_are_spark_frames_of_the_declared_types(built: Project, spark_session: SparkSession) -> None:
    stored = built.query("sales_by_day").to_spark()
    read = built.read("daily_sales").to_spark(spark_session)

    assert stored.schema.simpleString() == (
        "struct<product:string,window_start:timestamp,window_end:timestamp,orders:bigint,revenue:double,"
        "timestamp:timestamp>"
    )
    assert read.schema["headers"].dataType.simpleString() == "map<string,string>"
    for frame in (stored, read.where("not tombstone")):
        found = {(row.product, row.window_start): (row.orders, row.revenue) for row in frame.collect()}
        assert len(found) == len(DAILY)
        assert sorted(found.values()) == sorted(DAILY.values())
    assert built.query("sales_by_day").to_pandas()["revenue"].sum() == sum(revenue for _, revenue in DAILY.values())
    assert built.read("orders", limit=0).to_spark().schema["price"].dataType.simpleString() == "double"


@pytest.mark.spark
def test_query_of_a_built_store_selects_by_key_and_time(built: Project) -> None:
    second_of_may = 1714608000000

    found = last_values(built.query("sales.sales_by_day", key={"product": "coffee"}, start=second_of_may))

    assert found == {
        key: value for key, value in DAILY.items() if key > ("coffee", "2024-05-01") and key[0] == "coffee"
    }


@pytest.mark.spark
def test_second_build_finds_nothing_to_do(built: Project) -> None:
    results = built.build()

    assert (results.failed, results.records) == (False, 0)
    assert results.applications[0].status == "caught_up"


@pytest.mark.spark
def test_run_results_have_the_form_of_their_schema(built: Project) -> None:
    written = json.loads((built.root / "target" / "run_results.json").read_text())
    schema = json.loads((ROOT / "schemas" / "run_results.json").read_text())

    assert [error.message for error in Draft7Validator(schema).iter_errors(written)] == []
    assert written["applications"][0]["records"] == 19


@pytest.mark.spark
def test_records_appended_after_a_build_are_taken_up_by_the_next(built: Project) -> None:
    order = {"order_id": 11, "product": "tea", "quantity": 2, "price": 1.5, "ordered_at": "2024-05-03T12:00:00Z"}
    built.append("orders", [order])

    assert built.run(until_caught_up=True).records == 2
    assert last_values(built.query("sales_by_day")) == {**DAILY, ("tea", "2024-05-03"): (1, 3.0)}


@pytest.mark.spark
def test_state_that_was_removed_is_restored(built: Project) -> None:
    built.clean(state=True)
    assert last_values(built.query("sales_by_day")) == DAILY

    built.run(until_caught_up=True)

    assert last_values(built.query("sales_by_day")) == DAILY


@pytest.mark.spark
def test_start_anew_computes_everything_again(built: Project) -> None:
    results = built.build(full_refresh=True)

    assert results.records == 19
    assert sum(1 for _ in built.read("daily_sales")) == len(DAILY)


@pytest.mark.spark
def test_changed_seed_with_full_refresh_restarts_what_has_read_it(built: Project, spark_session: SparkSession) -> None:
    with (built.root / "seeds" / "orders.csv").open("a") as file:
        file.write("11,tea,2,1.5,2024-05-03T12:00:00Z\n")
    project = Project(built.root, session=spark_session)

    (seeded,) = project.seed(full_refresh=True)

    assert (seeded.outcome, seeded.records) == ("replaced", 11)
    assert list(project.read("daily_sales")) == []
    project.run(until_caught_up=True)
    assert last_values(project.read("daily_sales")) == {**DAILY, ("tea", "2024-05-03"): (1, 3.0)}


@pytest.mark.spark
def test_topology_whose_output_was_read_is_not_started_anew_alone(built: Project, spark_session: SparkSession) -> None:
    (built.root / "topologies" / "best_days.yml").write_text(BEST_DAYS)
    project = Project(built.root, session=spark_session)
    project.build()
    assert sum(1 for _ in project.read("best_days")) == 3

    with pytest.raises(ReaderError) as raised:
        Project(built.root, session=spark_session, select=["sales"]).start_anew()
    assert raised.value.missing == ("shop-best_days",)
    assert "add best_days to --select" in str(raised.value.hint)

    Project(built.root, session=spark_session, select=["sales+"]).start_anew()
    assert readers(EmbeddedLog(built.root / ".headwater" / "log"), ["orders"]) == []


def selected_by(hint: str | None) -> list[str]:
    """What the commands that a hint names select, the last of them."""
    return re.findall(r"'([a-z_+ ]+)'", str(hint))[-1:]


@pytest.mark.spark
def test_renamed_topology_is_refused_until_it_is_started_again_as_the_error_says(
    built: Project, spark_session: SparkSession
) -> None:
    renamed = built.root / "topologies" / "sales.yml"
    renamed.write_text(renamed.read_text().replace("topology: sales", "topology: revenue"))
    (built.root / "topologies" / "best_days.yml").write_text(BEST_DAYS)
    project = Project(built.root, session=spark_session)

    failed = project.run(until_caught_up=True, check=False)
    for result in failed.applications:
        assert "was written by shop-sales so far, and is written by shop-revenue now" in str(result.error)
        assert "headwater run --full-refresh --select 'revenue+'" in str(result.error)
    with pytest.raises(WriterChangedError):
        project.read("daily_sales")
    with pytest.raises(WriterChangedError):
        project.query("sales_by_day")
    Project(built.root, session=spark_session, select=["revenue+"]).start_anew()
    project.run(until_caught_up=True)

    log = EmbeddedLog(built.root / ".headwater" / "log")
    assert log.applications() == ["shop-best_days", "shop-revenue", "shop-seed"]
    assert last_values(project.read("daily_sales")) == last_values(project.query("sales_by_day")) == DAILY
    assert sum(1 for _ in project.read("best_days")) == 3


@pytest.mark.spark
def test_flow_moved_to_another_topology_is_refused_until_both_are_started_again(
    built: Project, spark_session: SparkSession
) -> None:
    (built.root / "topologies" / "best_days.yml").write_text(BEST_DAYS)
    Project(built.root, session=spark_session).run(until_caught_up=True)
    (built.root / "topologies" / "good_days.yml").write_text(BEST_DAYS.replace("topology: best", "topology: good"))
    (built.root / "topologies" / "best_days.yml").write_text(BEST_DAYS.replace("to: best_days", "to: other_days"))
    project = Project(built.root, session=spark_session)

    project.run(until_caught_up=True, check=False)
    with pytest.raises(WriterChangedError) as raised:
        project.read("best_days")
    select = selected_by(raised.value.hint)
    assert select == ["best_days+ good_days+"]
    Project(built.root, session=spark_session, select=select).start_anew()
    project.run(until_caught_up=True)

    assert sum(1 for _ in project.read("best_days")) == sum(1 for _ in project.read("other_days")) == 3


@pytest.mark.spark
def test_topic_seeded_with_other_partitions_is_refused_until_it_is_seeded_again_as_the_error_says(
    built: Project, spark_session: SparkSession
) -> None:
    topics = built.root / "topics" / "orders.yml"
    topics.write_text(topics.read_text().replace("partitions: 2", "partitions: 7", 1))
    project = Project(built.root, session=spark_session)

    for refresh in (False, True):
        if refresh:
            project.start_anew()
        (failed,) = project.run(until_caught_up=True, check=False).applications
        assert "orders is declared otherwise than when its records were written: partitions was" in str(failed.error)
        assert "headwater seed orders --full-refresh" in str(failed.error)
    with pytest.raises(TopicChangedError):
        project.seed(["orders"])
    assert sum(1 for _ in project.read("orders")) == 10
    project.seed(["orders"], full_refresh=True)
    project.run(until_caught_up=True)

    assert max(record.partition for record in project.read("orders")) > 1
    assert last_values(project.read("daily_sales")) == DAILY


@pytest.mark.spark
def test_application_that_runs_elsewhere_is_not_started_anew(built: Project) -> None:
    client = next((built.root / ".headwater" / "state").iterdir()).name
    with StateDirectory(built.root / ".headwater" / "state", client, "shop-sales").locked(), pytest.raises(LockError):
        built.start_anew()

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


@pytest.mark.spark
def test_stopped_run_has_committed_what_it_did_and_the_next_goes_on(shop: Path, spark_session: SparkSession) -> None:
    project = Project(shop, session=spark_session)
    project.seed()
    observer = StopAtTheFirstCommit()

    results = project.run(observer=observer, stop=observer.stop)

    assert results.applications[0].status == "interrupted"
    assert isinstance(observer.events[-1], ApplicationStopped)
    project.run(until_caught_up=True)
    assert last_values(project.read("daily_sales")) == DAILY


SUBMIT = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")


@pytest.mark.spark
@pytest.mark.parametrize("program", [[sys.executable], [SUBMIT]], ids=["python", "spark-submit"])
def test_runner_is_a_program_of_its_own(
    program: Sequence[str], shop: Path, spark_session: SparkSession, tmp_path: Path
) -> None:
    project = Project(shop, session=spark_session)
    project.compile()
    project.seed()

    runner = str(shop / "target" / "sales" / "runner.py")
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [*program, runner, "--until-caught-up"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment,
    )

    assert done.returncode == 0, done.stderr
    assert last_values(project.read("daily_sales")) == DAILY
