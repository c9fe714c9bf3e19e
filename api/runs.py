"""Runs of the applications of selected topologies."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from ..compiler.target_settings import with_pems
from ..errors import HeadwaterError
from ..private_files import write_text
from ..runtime.cluster.spark.cluster import SparkCluster
from ..runtime.driver.events import Observer, Observers
from ..runtime.driver.results import RunResults
from ..runtime.driver.runs import failed_start, run_topologies
from ..runtime.driver.status import RunStatus
from ..runtime.driver.stopping import stopping
from ..runtime.ir.topology import ExpressionEngine, Settings
from ..runtime.log.declared_topics import applications_of, gone_with
from ..runtime.log.placed_log import PlacedLog
from ..runtime.observe.lineage import reporting_lineage
from ..runtime.observe.tracing import Trace, recording_trace
from ..runtime.progress.resets import Removal, plan_application_removal, refresh_fully
from .arguments import check_engine, check_methods
from .target import TARGET, Part

if TYPE_CHECKING:
    pass


# Runs of the selected topologies, and full refreshes.

RUN_RESULTS = "run_results.json"


class Runs(Part):
    """Runs the selected topologies on the project's target."""

    def run(
        self,
        *,
        until_caught_up: bool,
        observer: Observer | None,
        stop: threading.Event | None,
        check: bool,
        go_on: bool,
        trace: Trace | str | os.PathLike[str] | None,
        engine: ExpressionEngine | None,
    ) -> RunResults:
        """See `Project.run`."""
        check_methods("observer", observer, "on")
        check_methods("stop", stop, "is_set", "wait")
        check_engine(engine)
        self._target.log_to_read()  # before `topologies`, which may start Spark
        with self._spark.beginning():
            settings = with_pems(self._target.settings(), self._files.root)
            chosen = replace(settings, go_on=go_on, engine=engine or settings.engine)
            with recording_trace(trace, chosen, observer or Observers()) as (settings, traced_observer):
                results = self._run(settings, traced_observer, until_caught_up, stop)
        write_text(self._files.root / TARGET / RUN_RESULTS, json.dumps(results.to_json(), indent=2) + "\n")
        if check:
            results.check()
        return results

    def _run(
        self, settings: Settings, observer: Observer, until_caught_up: bool, stop: threading.Event | None
    ) -> RunResults:
        topologies = self._code.topologies()
        with reporting_lineage(settings.lineage, topologies, observer, until_caught_up=until_caught_up) as reporting:
            owned = self._files.applications()
            results = failed_start(
                topologies, settings, self._target.state_dir(), reporting, until_caught_up=until_caught_up, owned=owned
            )
            if results is not None:
                return results
            session = self._spark.session()
            with _stopping(stop) as event:
                return run_topologies(
                    topologies,
                    settings,
                    SparkCluster(session, settings.deadline_ms, in_tasks=settings.engine == "task"),
                    until_caught_up=until_caught_up,
                    observer=reporting,
                    stop=event,
                    owned=owned,
                )

    def full_refresh(self, applications: Collection[str]) -> None:
        """See `Project.full_refresh`."""
        with self._target.forgetting(applications):
            refresh_fully(self._target.log(), self._target.state_dir(), applications)

    def plan_full_refresh(self, applications: Collection[str]) -> tuple[Removal, ...]:
        """See `Project.plan_full_refresh`."""
        log = self._target.log_to_read()
        begun = set(log.applications())
        return tuple(plan_application_removal(log, name) for name in applications if name in begun)

    def refreshed(self) -> list[str]:
        """The applications of the selected topologies, and those of removed topologies that go with them."""
        log = self._target.log_to_read()
        applications = {graph.application for graph in self._selection.graphs()}
        gone = set(applications_of(log, self._files.name)) - set(self._files.applications())
        if self._selection.narrows:
            gone = gone_with(log, gone, applications, self._selection.topics_around(applications))
        return sorted(applications | gone)


@contextmanager
def _stopping(stop: threading.Event | None) -> Iterator[threading.Event]:
    """The given event, or one that Ctrl-C and SIGTERM set if this thread can handle signals."""
    if stop is not None:
        yield stop
    elif threading.current_thread() is threading.main_thread():
        with stopping() as event:
            yield event
    else:
        yield threading.Event()


# Whether an application runs, according to its driver's status in the log.


class StillRunningError(HeadwaterError):
    """This cannot be done while the application runs. `host`: where it runs."""

    def __init__(self, application: str, host: str) -> None:
        super().__init__(f"{application} is running on {host}", "stop it first; `headwater tasks` shows it")


def check_not_running(log: PlacedLog, application: str) -> None:
    """Raise StillRunningError if an application runs, or if a rebuild runs that would replace its result.

    Drivers on other machines are known by their status only.
    """
    _check_status(log.read_status(application), application)
    check_not_rebuilding(log, application)


def check_not_rebuilding(log: PlacedLog, application: str) -> None:
    """Raise StillRunningError while a result of an application is being rebuilt. Its present result may run."""
    places = log.places()
    if application in places.recomputed:
        # Results are rebuilt in turns, and switch together.
        for name, rebuild in places.recomputed.items():
            if name.partition("-")[0] == application.partition("-")[0]:
                _check_status(log.kept.read_status(rebuild.place), name)


def _check_status(text: str | None, application: str) -> None:
    status = None if text is None else RunStatus.from_text(application, text)
    if status is not None and status.condition(time.time_ns() // 1_000_000) == "running":
        raise StillRunningError(application, status.host)
