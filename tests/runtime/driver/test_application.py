"""Applications on real Spark, real stores and a real log: what comes out, and what happens when something is wrong."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headwater.runtime.cluster.spark.cluster import SparkCluster
from headwater.runtime.driver.events import ApplicationStarted, EpochCommitted, Event
from headwater.runtime.driver.results import ApplicationResult
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.ingest.append import append
from headwater.runtime.ir.topology import PluginRef, Settings
from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.commit.records import GenerationRecord
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.placed_log import PlacedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.state.directory import OtherLogError, StateDirectory
from headwater.runtime.task_id import TaskKey
from headwater.tests.runtime.driver import delays

pytestmark = pytest.mark.spark


class Place:
    """A log and a state directory, and runs on them."""

    def __init__(self, root: Path, session: SparkSession) -> None:
        self.root = root
        self.cluster = SparkCluster(session)
        self.log = EmbeddedLog(root / "log")

    def feed(self, count: int, seed: int = 1) -> dict[tuple[Any, ...], tuple[int, float]]:
        table, times = delays.flights(count, seed)
        append(self.log, "p-seed", delays.AIRLINES, delays.airlines(), timestamps=[0] * 4)
        append(self.log, "p-seed", delays.FLIGHTS, table, timestamps=times)
        return delays.expected(table, times)

    def run(self, **options: Any) -> ApplicationResult:
        named = {name: options.pop(name) for name in ("max_records", "clients") if name in options}
        settings = Settings(PluginRef("embedded", {"path": str(self.root / "log")}), str(self.root / "state"), **named)
        options = {"until_caught_up": True, **options}
        (result,) = run_topologies([delays.TOPOLOGY], settings, self.cluster, **options).applications
        return result

    def hourly(self) -> dict[tuple[Any, ...], tuple[int, float]]:
        """The last value of each key of the output."""
        state = LogState.load(self.log.commits(delays.APPLICATION))
        last: dict[tuple[Any, ...], tuple[int, float]] = {}
        for partition in range(delays.HOURLY.partitions):
            for within in state.ranges("hourly", partition):
                for fetched in self.log.read(within):
                    for row in fetched.records.to_pylist():
                        start = int(row["key.window_start"].timestamp() * 1000)
                        last[row["key.airline"], start] = (row["value.flights"], row["value.total"])
        return last


@pytest.fixture
def place(tmp_path: Path, spark_session: SparkSession) -> Place:
    return Place(tmp_path, spark_session)


@pytest.mark.parametrize(("max_records", "clients"), [(200_000, 1), (700, 1), (2_500, 2)])
def test_run_until_caught_up_gives_the_batch_result_for_any_cut(place: Place, max_records: int, clients: int) -> None:
    expected = place.feed(10_000)
    result = place.run(max_records=max_records, clients=clients)
    assert (result.status, result.error) == ("caught_up", None)
    assert place.hourly() == expected


def test_slow_task_upstream_changes_nothing(place: Place) -> None:
    expected = place.feed(5_000)
    commits: list[Event] = []

    class Watching:
        def on(self, event: Event) -> None:
            if isinstance(event, EpochCommitted):
                commits.append(event)

    def held(task: tuple[str, str, int]) -> bool:
        return task[1:] == ("late", 1) and len(commits) < 4

    result = place.run(max_records=300, observer=Watching(), held=held)
    assert result.status == "caught_up"
    assert result.dropped == {"Sink:null_key": delays.nameless(*delays.flights(5_000))}
    assert place.hourly() == expected


def test_second_run_without_new_input_commits_nothing(place: Place) -> None:
    place.feed(500)
    first = place.run()
    second = place.run()
    assert first.records > 500
    assert (second.records, second.commits, second.status) == (0, 0, "caught_up")


def test_new_records_are_taken_up_where_the_last_run_ended(place: Place) -> None:
    place.feed(500)
    place.run()
    append(
        place.log,
        "p-seed",
        delays.FLIGHTS,
        pa.table({"carrier": ["AA"], "delay": [100.0], "text": pa.nulls(1, pa.string())}),
        timestamps=[21 * delays.HOUR],
    )
    assert place.run().records == 2
    assert place.hourly()["American", 21 * delays.HOUR] == (1, 100.0)


def test_failing_record_is_named_and_other_tasks_commit(place: Place) -> None:
    place.feed(2_000)
    append(
        place.log,
        "p-seed",
        delays.FLIGHTS,
        pa.table({"carrier": ["AA", "AA"], "delay": [1.0, 1.0], "text": ["7", "seven"]}),
        timestamps=[20 * delays.HOUR] * 2,
    )
    result = place.run()
    assert result.status == "failed"
    assert result.error is not None
    assert "topologies/delays.yml:22" in result.error
    assert '"text": "seven"' in result.error
    assert "CAST_INVALID_INPUT" in result.error
    state = LogState.load(place.log.commits(delays.APPLICATION))
    consumed = [
        state.tasks.last_commit(TaskKey(delays.APPLICATION, "late", partition)).positions for partition in range(4)
    ]
    assert sum(not positions for positions in consumed) == 1


def test_run_that_was_taken_over_stops_and_commits_no_more(place: Place) -> None:
    place.feed(3_000)

    class TakeOver:
        done = False

        def on(self, event: Event) -> None:
            if isinstance(event, EpochCommitted) and not self.done:
                self.done = True
                other = LogState.load(place.log.commits(delays.APPLICATION))
                other.commit(GenerationRecord(other.generation + 1, 0, other.topology))

    result = place.run(max_records=200, observer=TakeOver())
    state = LogState.load(place.log.commits(delays.APPLICATION))
    assert result.status == "fenced"
    assert (result.commits, state.number) == (1, 3)


def test_run_that_has_nothing_to_do_notices_that_it_was_taken_over(place: Place) -> None:
    class TakeOver:
        def on(self, event: Event) -> None:
            if isinstance(event, ApplicationStarted):
                other = LogState.load(place.log.commits(delays.APPLICATION))
                other.commit(GenerationRecord(other.generation + 1, 0, other.topology))

    result = place.run(until_caught_up=False, observer=TakeOver())
    assert result.status == "fenced"
    assert "another run of p-delays has started (generation 2, this one is 1)" in (result.error or "")


def test_run_that_has_nothing_to_do_notices_that_its_application_was_fully_refreshed(place: Place) -> None:
    class StartAgain:
        def on(self, event: Event) -> None:
            if isinstance(event, ApplicationStarted):  # after its one commit; the successor has made as many
                place.log.drop(delays.APPLICATION)
                other = LogState.load(place.log.commits(delays.APPLICATION))
                other.commit(
                    GenerationRecord(1, 0, TopologyDescription.from_topology(delays.TOPOLOGY, incarnation="another"))
                )

    result = place.run(until_caught_up=False, observer=StartAgain())
    assert result.status == "fenced"
    assert "p-delays was fully refreshed by another run" in (result.error or "")


def test_run_that_lost_an_application_claims_no_other(place: Place) -> None:
    place.feed(100)
    other = replace(delays.TOPOLOGY, name="other")

    class TakeOver:
        def on(self, event: Event) -> None:
            if isinstance(event, ApplicationStarted) and event.application == delays.APPLICATION:
                newer = LogState.load(place.log.commits(delays.APPLICATION))
                newer.commit(GenerationRecord(newer.generation + 1, 0, newer.topology))

    settings = Settings(PluginRef("embedded", {"path": str(place.root / "log")}), str(place.root / "state"))
    results = run_topologies(
        [delays.TOPOLOGY, other], settings, place.cluster, until_caught_up=True, observer=TakeOver()
    )
    assert [each.status for each in results.applications] == ["fenced", "not_started"]
    assert results.applications[1].generation == -1
    assert LogState.load(place.log.commits("p-other")).number == 0


def test_run_claims_nothing_that_another_run_has_claimed_since_it_began(place: Place) -> None:
    other = replace(delays.TOPOLOGY, name="other")

    class ClaimTheOther:
        def on(self, event: Event) -> None:
            if isinstance(event, ApplicationStarted):
                LogState.load(place.log.commits("p-other")).commit(GenerationRecord(1, 0))

    settings = Settings(PluginRef("embedded", {"path": str(place.root / "log")}), str(place.root / "state"))
    results = run_topologies(
        [delays.TOPOLOGY, other], settings, place.cluster, until_caught_up=True, observer=ClaimTheOther()
    )
    assert [each.status for each in results.applications] == ["caught_up", "fenced"]
    assert "another run of p-other has started (generation 1)" in (results.applications[1].error or "")
    assert LogState.load(place.log.commits("p-other")).number == 1


def test_second_process_on_the_same_state_is_refused(place: Place) -> None:
    place.feed(10)
    with StateDirectory(place.root / "state", "client-1", delays.APPLICATION).lock():
        result = place.run()
    assert result.status == "failed"
    assert "is in use by process" in (result.error or "")


def test_lasting_run_stops_when_told_and_closes_clean(place: Place) -> None:
    expected = place.feed(2_000)
    stop = threading.Event()

    class StopAfterTwo:
        commits = 0

        def on(self, event: Event) -> None:
            if isinstance(event, EpochCommitted) and event.lag == 0 and event.subtopology == "hourly":
                stop.set()

    result = place.run(until_caught_up=False, stop=stop, observer=StopAfterTwo())
    assert result.status == "interrupted"
    place.run()
    assert place.hourly() == expected


def test_input_that_was_removed_after_it_was_consumed_is_refused_and_named(place: Place) -> None:
    place.feed(100)
    place.run()
    *_, last = sorted((place.root / "log" / "commits" / "p-seed").glob("*.json"))
    last.unlink()
    result = place.run()
    assert result.status == "failed"
    assert "p-delays has consumed records that the log does not hold any more" in (result.error or "")
    assert "flights[0]: " in (result.error or "")


def test_log_that_is_missing_is_refused_and_state_is_kept_for_its_return(place: Place) -> None:
    place.feed(500)
    place.run()
    log, moved = place.root / "log", place.root / "moved"
    settings = Settings(PluginRef("embedded", {"path": str(log)}), str(place.root / "state"))
    new = replace(delays.TOPOLOGY, name="new")  # without state, it would make a log
    log.rename(moved)
    for there in (lambda: None, log.mkdir):  # moved away, and then the empty folder that is left of a mount
        there()
        with pytest.raises(OtherLogError, match=f"the one at {log}: that log is missing"):
            run_topologies([new, delays.TOPOLOGY], settings, place.cluster, until_caught_up=True)
        assert not log.exists() or not list(log.iterdir())
    log.rmdir()
    moved.rename(log)
    stores = sorted((place.root / "state").glob("*/*/*/*/data.mdb"))
    assert stores
    back = place.run()
    assert (back.status, back.records) == ("caught_up", 0)


def test_changed_aggregate_is_computed_again_from_all_records(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.feed(100)
    before = place.run()
    totals = replace(delays.TOTALS, aggregates=delays.TOTALS.aggregates[:1])
    late, hourly = delays.TOPOLOGY.subtopologies
    changed = replace(delays.TOPOLOGY, subtopologies=(late, replace(hourly, stores=(totals,))))
    monkeypatch.setattr(delays, "TOPOLOGY", changed)
    result = place.run()
    assert (result.status, result.error, result.records) == ("caught_up", None, before.records)
    state = LogState.load(PlacedLog(place.log).commits(delays.APPLICATION))
    assert [each.name for each in state.topology.stores["totals"].aggregates] == [totals.aggregates[0].name]
    assert (place.run().records, place.run().error) == (0, None)


def test_failure_that_no_record_causes_blames_none(place: Place) -> None:
    place.feed(100)
    state = LogState.load(place.log.commits("p-seed"))
    path = place.root / "log" / next(path for path in state.paths() if "/flights/" in path)
    damaged = bytearray(path.read_bytes())
    damaged[-200:] = bytes(200)
    path.write_bytes(bytes(damaged))
    result = place.run()
    assert result.status == "failed"
    assert "cannot be processed" not in (result.error or "")
    assert "of segment segments/p-seed/flights/" in (result.error or "")
    assert "flights, partition " in (result.error or "")
    assert "put the file back from a copy of the log" in (result.error or "")
