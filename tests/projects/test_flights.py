"""The example project, seed to result, against the same questions answered by pandas.

The results must not depend on how the input is cut into epochs, nor on which task was slow.
"""

from collections import Counter
from datetime import datetime

import pytest

from headwater import Project
from headwater.tests.projects.expected import STREAMS, TABLES, Flights, too_late
from headwater.tests.projects.flights_run import EVERYTHING, build_with_one_task_held, copy_of_flights, stream, table

pytestmark = pytest.mark.spark

WEEK = 7
CALLS_HELD = 100


def check(project, data):
    """Every output topic of the project equals what pandas says."""
    for topic, expect in TABLES.items():
        expected, found = expect(data), table(project, topic)
        if topic == "weather_impact":
            settle_estimates(expected, found)
        assert found == expected, topic
    for topic, expect in STREAMS.items():
        found = stream(project, topic)
        if topic == "plane_moves":
            found = {key: [(ts, with_millis(row)) for ts, row in records] for key, records in found.items()}
        assert found == expect(data), topic


def settle_estimates(expected, found):
    """approx_count_distinct has a standard error of 5%: three of them are allowed, then it counts as right."""
    for key, row in expected.items():
        assert found[key]["planes"] == pytest.approx(row["planes"], rel=0.15)
        row["planes"] = found[key]["planes"]


def with_millis(row):
    return {**row, "since": round(datetime.fromisoformat(row["since"]).timestamp() * 1000)}


def late(results):
    """Dropped late records of topology punctuality: its two windows count apart."""
    (punctuality,) = [each for each in results.applications if each.application == "flights-punctuality"]
    return sorted(count for reason, count in punctuality.dropped.items() if reason.endswith(":late"))


@pytest.fixture(scope="module")
def week():
    return Flights(days=WEEK)


@pytest.mark.parametrize(
    ("max_records", "clients"),
    [pytest.param(1_000, 1, marks=pytest.mark.soak), (EVERYTHING, 2)],
    ids=["thousand_an_epoch", "everything_at_once_on_two_clients"],
)
def test_week_of_flights_in_any_epochs_equals_pandas_and_a_second_build_has_nothing_to_do(
    max_records, clients, week, tmp_path, spark_session, monkeypatch
):
    monkeypatch.setenv("FLIGHTS_DAYS", str(WEEK))
    with Project.load(copy_of_flights(tmp_path, max_records, clients), session=spark_session) as project:
        results = project.build()
        assert not results.failed, results
        assert late(results) == sorted(too_late(week).values())
        second = project.build()
        assert results.records > 0
        assert second.records == 0
        check(project, week)


def test_task_that_starts_late_changes_no_result(week, tmp_path, spark_session, monkeypatch):
    """One of the four tasks that feed each repartition topic stands still while the others go as far as they may."""
    monkeypatch.setenv("FLIGHTS_DAYS", str(WEEK))
    asked = Counter()

    def held(task):
        _, subtopology, partition = task
        asked[task] += 1
        return partition == 1 and subtopology in {"late", "flown", "observed", "movements"} and asked[task] < CALLS_HELD

    with Project.load(copy_of_flights(tmp_path, 1_000), session=spark_session) as project:
        results = build_with_one_task_held(project, spark_session, held)
        assert not results.failed, results
        assert max(asked.values()) >= CALLS_HELD
        check(project, week)


@pytest.mark.soak
def test_whole_year_equals_pandas(tmp_path, spark_session, monkeypatch):
    monkeypatch.delenv("FLIGHTS_DAYS", raising=False)
    with Project.load(copy_of_flights(tmp_path, 50_000), session=spark_session) as project:
        results = project.build()
        assert not results.failed, results
        check(project, Flights())
