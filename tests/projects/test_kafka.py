"""The project with topics in Kafka: without a broker against pandas, and its demo with one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from headwater import Project
from headwater.compiler.target_settings import with_pems
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.progress.rewinding import Whence
from headwater.tests.kafka.broker import USERS, KafkaBroker
from headwater.tests.kafka.copying import produced
from headwater.tests.projects.expected import HOUR, Table
from headwater.tests.projects.flights_run import table
from headwater.tests.projects.in_process import PROJECTS, built, copied, seed_rows
from headwater.tests.runtime.local.arrow_sql import ArrowCluster

FLIGHTS, DEPARTED = 27_004, 26_483


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return copied("kafka", tmp_path)


def hourly_delays(root: Path) -> Table:
    """What pandas makes of the seed."""
    rows = seed_rows(root, "flights")
    assert len(rows) == FLIGHTS
    departed = rows.dropna(subset=["dep_delay"])
    assert len(departed) == DEPARTED
    hour = departed["scheduled"].dt.floor("h").astype("datetime64[ms, UTC]").astype("int64")
    return {
        (carrier, (start, start + HOUR)): {
            "flights": len(delays),
            "mean_delay": pytest.approx(delays.mean()),
            "worst_delay": delays.max(),
        }
        for (carrier, start), delays in departed.groupby(["carrier", hour])["dep_delay"]
    }


def test_month_without_a_broker_equals_pandas(root: Path) -> None:
    project = built(root, max_records=1000)

    assert table(project, "hourly_delays") == hourly_delays(root)


@pytest.mark.parametrize("target", ["local", "kafka"])
def test_cases_of_the_project_need_no_broker(root: Path, target: str) -> None:
    Project(root, target=target).test().check()


@pytest.mark.kafka
def test_rewind_connects_as_a_run_does(root: Path, kafka: KafkaBroker) -> None:
    (root / "ca.pem").write_text(kafka.certificate)
    profiles = yaml.safe_load((root / "profiles.yml").read_text())
    login = {"mechanism": "PLAIN", "username": "shop", "password": USERS["shop"]}
    profiles["departures"]["targets"]["kafka"]["kafka"]["main"] = {
        "bootstrap_servers": kafka.secured,
        "security": {"protocol": "sasl_ssl", "ca": "ca.pem", **login},
    }
    (root / "profiles.yml").write_text(yaml.safe_dump(profiles))
    topic = root / "topics" / "flights.yml"
    name = kafka.topic(partitions=2)
    topic.write_text(topic.read_text().replace("      key: string", f"      topic: {name}\n      key: string"))
    produced(kafka, name, [("UA", {"scheduled": "2013-01-01T10:00:00Z"})], partition=1)
    project = Project(root, target="kafka", select=["kafka"])
    settings = with_pems(project.settings(), root)
    result = run_topologies(project._code.topologies(), settings, ArrowCluster(), until_caught_up=True)
    assert [(each.error, each.records) for each in result.applications] == [(None, 1)]

    planned = project.plan_rewind("kafka", "flights", Whence("latest"))

    assert (planned.skipped, planned.again) == (0, 0)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.usefixtures("kafka")
def test_demo_shows_what_comes_out_of_kafka() -> None:
    done = subprocess.run([sys.executable, PROJECTS / "kafka" / "demo.py"], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"has counted {DEPARTED:,} of {DEPARTED:,} flights" in done.stdout
    lags = re.findall(r"^departures-kafka +flights +(\d) +(\d+) +\2 +0 ", done.stdout, re.MULTILINE)
    assert sum(int(end) for _, end in lags) == FLIGHTS
