"""The numbers of a run, as Prometheus reads them: the real loop on real logs and stores, in this process."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.counters import EPOCH_PHASES
from headwater.runtime.driver.events import Event, Observer, Observers, StatusTaken
from headwater.runtime.driver.status import run_figures
from headwater.runtime.ir.topology import Assignment, PluginRef
from headwater.runtime.log.state import LogState
from headwater.runtime.observe.metrics import FAMILIES, serving
from headwater.tests.runtime.local.local_application import FailingCluster, LocalApplication, Moving
from headwater.tests.runtime.local.summing import (
    PARTITIONS,
    RECORDS,
    SUMS,
    WHOLE_SUMS,
    fed,
    last_sums,
    passed_through,
    summed,
)
from headwater.tests.runtime.metrics.dashboard import expressions, metrics
from headwater.tests.sampled import sampled

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scraped(url: str) -> Series:
    """Name and labels -> value, without the numbers of the process."""
    text = urlopen(url).read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("headwater_")
    }


class Scraping:
    """Scrapes after each status, as Prometheus does at other times."""

    def __init__(self, url: str) -> None:
        self.seen: list[Series] = []
        self._url = url

    def on(self, event: Event) -> None:
        if isinstance(event, StatusTaken):
            self.seen.append(scraped(self._url))

    def values(self, name: str, **labels: str) -> list[float]:
        """Of the last scrape."""
        return [
            value
            for (found, of), value in self.seen[-1].items()
            if found == name and labels.items() <= dict(of).items()
        ]


def run_scraped(app: LocalApplication, *observers: Observer, **options: object) -> tuple[Scraping, object]:
    with serving(0) as (statuses, url):
        scraping = Scraping(url)
        result = app.attempt(observer=Observers(*observers, statuses, scraping), **options)
    return scraping, result


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("log", ["embedded", "sparse"])
def test_every_metric_has_its_labels_and_the_numbers_of_the_run(application, log):
    app = fed(application(passed_through(lambda batches: (batch for batch in batches)), log=log))
    app.append(app.parts[0].sources[0], [(None, (1,), 99)], 0)  # without a key, which the aggregate drops
    app.topology = replace(app.topology, assignment=Assignment(PluginRef("sticky"), standby_replicas=1))
    scraping, result = run_scraped(app, settings=app.settings(max_records=11, clients=2))

    shown = {name: {key for key, _ in labels} for series in scraping.seen for name, labels in series}
    here = {name: set(family.labels) for name, family in FAMILIES.items() if "_task_kafka_" not in name}
    assert shown == here

    for title, expression, _ in expressions():
        for name, labels in metrics(expression).items():
            assert name.startswith("process_") or labels <= shown[name], title

    total = RECORDS * PARTITIONS + 1
    assert result.records == total
    values = scraping.values
    assert values("headwater_application_running") == [0.0]
    assert values("headwater_application_consumed_records_total") == [total]
    assert values("headwater_application_dropped_records_total", reason="null_key") == [1]
    assert values("headwater_task_dropped_records_total", reason="null_key", partition="0") == [1]
    assert sum(values("headwater_task_consumed_records_total")) == total
    assert sum(values("headwater_epoch_consumed_records_total")) == total
    assert (
        sum(values("headwater_epoch_commits_total"))
        == result.commits
        == values("headwater_application_commits_total")[0]
    )
    assert sum(values("headwater_task_produced_records_total")) == len(app.read(SUMS))
    assert min(values("headwater_task_produced_bytes_total")) > 0
    assert min(values("headwater_task_changelog_bytes_total")) > 0
    ends = values("headwater_store_changelog_end", role="active")
    if log == "embedded":  # positions of the other have gaps
        assert sum(ends) == sum(values("headwater_task_changelog_records_total"))
    assert set(values("headwater_task_lag_records")) == {0.0}
    for role in ("active", "standby"):
        assert sum(values("headwater_store_rows", role=role)) == PARTITIONS
        assert min(values("headwater_store_size_bytes", role=role)) >= 4096
    seeds = LogState.load(app.log.commits("test-seed"))
    sizes = [each.size for partition in range(PARTITIONS) for each in seeds.ranges("words", partition)]
    assert sum(values("headwater_task_consumed_bytes_total")) == pytest.approx(sum(sizes), rel=0.01)
    # A key of two letters with its offset, the number, the kind and two times, of which one lane reads one: or more.
    assert total * 23 <= sum(values("headwater_epoch_consumed_bytes_total")) <= total * 60


@pytest.mark.usefixtures("at_once")
def test_phases_of_epochs_add_up_to_their_time(application):
    told: list[float] = []

    class Epochs:
        def on(self, event: Event) -> None:
            if hasattr(event, "seconds"):
                told.append(event.seconds)

    app = fed(application(passed_through(lambda batches: (batch for batch in batches))))
    result = app.attempt(app.settings(max_records=7), observer=Epochs())

    figures = run_figures(result.metrics)
    assert list(figures["seconds"]) == list(EPOCH_PHASES)
    assert sum(figures["seconds"].values()) == pytest.approx(sum(told), rel=0.05)
    assert min(figures["seconds"].values()) > 0
    (client,) = figures["clients"]
    assert figures["epochs"] == sum(each["epochs"] for each in client["epochs"])
    for task in client["tasks"]:
        assert min(task["counts"]["seconds"].values()) > 0
        assert task["counts"]["consumed_records"] == RECORDS


@pytest.mark.usefixtures("at_once", "short_slices")
@pytest.mark.parametrize("seed", sampled(range(3), 3))
def test_counters_never_fall_and_gone_clients_are_not_shown_while_clients_come_and_go(application, seed):
    app = fed(application(summed()))
    app.topology = replace(app.topology, assignment=Assignment(PluginRef("sticky"), standby_replicas=1))
    chances = random.Random(seed)
    cluster = FailingCluster(1, app.expressions)
    moving = Moving(10**9, cluster, 3, chances)
    present: list[set[str]] = []

    class Present:
        def on(self, event: Event) -> None:
            if isinstance(event, StatusTaken):
                present.append({client.name for client in event.status.clients})

    scraping, _ = run_scraped(app, moving, Present(), settings=app.settings(max_records=5, clients=3), cluster=cluster)

    highest: dict[object, float] = defaultdict(float)
    for series, clients in zip(scraping.seen, present, strict=True):
        assert {dict(labels)["client"] for _, labels in series if "client" in dict(labels)} == clients
        copies = [labels for name, labels in series if name == "headwater_task_state"]
        one = [(dict(each)["partition"], dict(each)["client"]) for each in copies]
        assert len(one) == len(set(one))
        for (name, labels), value in series.items():
            if name.endswith("_total"):
                assert value >= highest[name, labels]
                highest[name, labels] = value
    assert len({frozenset(clients) for clients in present}) > 1


@pytest.mark.usefixtures("at_once")
def test_run_that_was_taken_over_counts_as_ended(application):
    app = fed(application(summed()))

    class TakenOver:
        def __init__(self) -> None:
            self.last = None

        def on(self, event: Event) -> None:
            if isinstance(event, StatusTaken):
                if self.last is None:
                    self.last = event.status
                    assert app.attempt(app.settings(state="other"), LocalCluster()).status == "caught_up"
                self.last = event.status

    taken = TakenOver()
    result = app.attempt(app.settings(max_records=3), observer=taken)

    assert (result.status, taken.last.ended) == ("fenced", "fenced")
    assert last_sums(app) == WHOLE_SUMS
