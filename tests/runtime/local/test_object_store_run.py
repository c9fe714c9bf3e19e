"""Real runs on a log in an object store: on a real server, behind a proxy that has it go wrong."""

from __future__ import annotations

import random
import re
import threading
import uuid
from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest

from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.ir.topology import PluginRef
from headwater.runtime.log.object_store import objects
from headwater.tests.runtime.local.local_application import LocalApplication
from headwater.tests.runtime.local.summing import PARTITIONS, RECORDS, SUMS, fed, summed, summed_by_text
from headwater.tests.runtime.local.test_random_runs import IN_ORDER, sums_in_order
from headwater.tests.s3_proxy import CUT, LOSE, Proxy, Refusal, proxy
from headwater.tests.s3_server import S3Server
from headwater.tests.waiting import wait_until


@pytest.fixture
def between(s3: S3Server) -> Iterator[Proxy]:
    with proxy(s3) as found:
        yield found


@pytest.fixture
def on_s3(s3: S3Server, between: Proxy) -> PluginRef:
    """A log behind the proxy."""
    options = {"uri": s3.uri(uuid.uuid4().hex), "look_every": "0ms"} | s3.options | {"endpoint": between.endpoint}
    return PluginRef("object_store", options)


@pytest.mark.usefixtures("short_slices")
def test_clients_that_come_and_go_while_epochs_fail_cost_no_record(application, tmp_path: Path) -> None:
    for seed in range(2):
        log = PluginRef("object_store", {"uri": (tmp_path / f"log-{seed}").as_uri(), "look_every": "0ms"})
        app = fed(application(*summed_by_text(), log=log))
        app.run_randomly(seed, moving=True)
        assert {row["key.k"]: row["value.n"] for row in app.read(SUMS)} == dict.fromkeys(IN_ORDER, RECORDS)
        assert len(app.read(SUMS)) == RECORDS * PARTITIONS


@pytest.mark.usefixtures("short_slices")
def test_lost_answers_and_errors_of_the_store_cost_no_record_and_double_none(
    application, on_s3: PluginRef, between: Proxy
) -> None:
    app = fed(application(summed(), log=on_s3))
    chances = random.Random(7)
    faults = [LOSE, CUT, Refusal(500, "InternalError"), Refusal(503, "SlowDown"), Refusal(429, "TooManyRequests")]
    faults.append(Refusal(500, "InternalError", done=True))
    between.fault = lambda _: chances.choice(faults) if chances.random() < 0.03 else None
    app.run_randomly(1, moving=True)
    between.fault = lambda _: None
    assert sums_in_order(app) == IN_ORDER


def test_outage_of_some_seconds_ends_no_run(application, on_s3: PluginRef, between: Proxy) -> None:
    app = fed(application(summed(), log=on_s3))
    cuts = iter([CUT] * 5)  # a request is tried again after 50 ms, 100 ms, and so on

    def fault(_: object) -> str | None:
        """From the moment on at which the first epoch is written."""
        return next(cuts, None) if any("/segments/test-app/" in each.path for each in between.seen) else None

    between.fault = fault
    assert app.run(max_records=3).error is None
    between.fault = lambda _: None
    assert next(cuts, None) is None
    assert sums_in_order(app) == IN_ORDER


def test_longer_outage_ends_a_run_with_a_sentence_and_loses_nothing(
    application, on_s3: PluginRef, between: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    app: LocalApplication = fed(application(summed(), log=on_s3))
    for patience in ("PATIENCE", "FIRST_PATIENCE"):
        monkeypatch.setattr(objects, patience, timedelta(milliseconds=300))
    outages = [(CUT, "does not answer"), (Refusal(500, "InternalError"), "answers with errors only")]
    for kind, (fault, words) in product(("segments/test-app/", "commits/test-app/"), outages):
        begun = len(between.seen)
        between.fault = (
            lambda _, kind=kind, begun=begun, fault=fault: (  # type: ignore[misc]
                fault if sum(kind in each.path and each.method == "PUT" for each in between.seen[begun:]) > 1 else None
            )
        )
        result = app.attempt(app.settings(max_records=5))
        said = rf"{between.endpoint} {words} \((PUT|GET|HEAD|LIST) \S+ was tried for "
        assert (result.status, bool(re.search(said, result.error or ""))) == ("failed", True), result.error
    between.fault = lambda _: None
    app.run()
    assert sums_in_order(app) == IN_ORDER


def test_idle_driver_asks_five_times_a_look_and_writes_a_status_every_fifth(
    application, on_s3: PluginRef, between: Proxy
) -> None:
    log = PluginRef(on_s3.name, {**on_s3.options, "look_every": "500ms"})
    app = fed(application(summed(), log=log))
    app.run()
    stop = threading.Event()
    begun = len(between.seen)

    def looks() -> list[int]:
        return [at for at, each in enumerate(between.seen) if at >= begun and each.path.endswith("/paused/test-app")]

    def run() -> None:
        cluster = LocalCluster(expressions=app.expressions)
        run_topologies([app.topology], app.settings(), cluster, until_caught_up=False, stop=stop)

    running = threading.Thread(target=run)
    running.start()
    wait_until(lambda: len(looks()) > 7, running.is_alive)
    first, last = looks()[2], looks()[7]
    stop.set()
    running.join()
    idle = between.seen[first:last]
    assert [each.method for each in idle].count("HEAD") == 5 * 5
    assert [each.path.rsplit("/", 2)[-2] for each in idle if each.method != "HEAD"] == ["status"]
