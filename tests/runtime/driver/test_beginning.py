"""What a run is refused for, before a cluster is started."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.runtime.driver.events import ApplicationStopped, Event
from headwater.runtime.driver.runs import failed_start
from headwater.runtime.ir.topology import PluginRef, Settings
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.state.directory import OtherLogError
from headwater.runtime.state.process_file import Owner, ProcessFile
from headwater.tests.runtime.driver.commits import Applications, part, topic, topology

ORDERS, NAMES = topic("orders"), topic("names")
SALES = topology("sales", part("sold", (ORDERS,), (topic("sold", writer="p-sales"),)))
MOVED = topology("sales", part("bought", (ORDERS,), (topic("sold", writer="p-sales"),)))
LATER = topology("later", part("late", (topic("sold", writer="p-sales"),)))
OTHER = topology("other", part("named", (NAMES,)))


class Seen:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def on(self, event: Event) -> None:
        self.events.append(event)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    log = PluginRef("embedded", {"path": str(tmp_path / "log")})
    return Settings(log, str(tmp_path / "state"))


@pytest.fixture
def applications(tmp_path: Path, settings: Settings) -> Applications:
    """Of which `sales` has taken two records and written two."""
    log = EmbeddedLog(tmp_path / "log")
    log.check()
    applications = Applications(log)
    applications.feed("orders", 2)
    applications.start(SALES)
    applications.commit("sales", "sold", 0, {"orders": {0: 2}})
    return applications


def test_run_that_the_log_refuses_ends_before_a_cluster_is_started(
    applications: Applications, settings: Settings
) -> None:
    seen = Seen()
    applications.start(LATER)  # it is not among those that would be computed again
    results = failed_start([MOVED], settings, Path(settings.state_dir), observer=seen)
    assert results is not None
    (result,) = results.applications
    assert (result.status, results.failed) == ("failed", True)
    assert "topic orders: it was read by sold, and bought would read it again" in str(result.error)
    assert "topology later has read sold, and would have to be rebuilt with it" in str(result.error)
    assert "headwater run --select 'sales+'" in str(result.error)
    assert seen.events == [ApplicationStopped("p-sales", "failed", 0, 0, str(result.error))]


def test_run_of_which_one_application_may_start_is_begun(applications: Applications, settings: Settings) -> None:
    for topologies in [OTHER, MOVED], [SALES]:
        assert failed_start(topologies, settings, Path(settings.state_dir)) is None


def test_log_that_is_missing_is_refused_before_a_topology_without_state_makes_one(
    applications: Applications, settings: Settings, tmp_path: Path
) -> None:
    owner = Owner.from_pid(os.getpid())
    assert owner is not None
    directory = tmp_path / "state" / "client-1" / "p-sales"
    replace(ProcessFile.take(directory, owner), log=applications.log.identity()).write(directory)
    (tmp_path / "log").rename(tmp_path / "moved")
    with pytest.raises(OtherLogError):
        failed_start([OTHER, SALES], settings, Path(settings.state_dir))
    assert not (tmp_path / "log").exists()
