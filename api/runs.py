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

from ..errors import HeadwaterError
from ..private_files import write_text
from ..runtime.cluster.spark.cluster import SparkCluster
from ..runtime.driver.events import Observer, Silent
from ..runtime.driver.results import RunResults
from ..runtime.driver.runs import refused, run_topologies
from ..runtime.driver.status import RunStatus
from ..runtime.driver.stopping import stopping
from ..runtime.ir.topology import ExpressionEngine, Settings
from ..runtime.log.declared_topics import applications_of, gone_with
from ..runtime.log.placed_log import PlacedLog
from ..runtime.observe.lineage import lineage_told
from ..runtime.observe.tracing import Trace, traced
from ..runtime.progress.resets import Removal, plan_application_removal, refresh_fully
from .arguments import check_engine, check_methods
from .files import CheckedFiles, Selection
from .target import TARGET, GeneratedCode, Target

if TYPE_CHECKING:
    from ..runtime.cluster.spark.on_demand import SparkOnDemand


# Runs of the selected topologies, and their start from the beginning.

RUN_RESULTS = "run_results.json"


class Runs:
    """Runs the selected topologies on the project's target."""

    def __init__(
        self, files: CheckedFiles, selection: Selection, code: GeneratedCode, target: Target, spark: SparkOnDemand
    ) -> None:
        self._files = files
        self._selection = selection
        self._code = code
        self._target = target
        self._spark = spark

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
        self._target.log_to_read()  # before `topologies`, which may have to start Spark
        with self._spark.beginning():
            settings = self._target.settings()
            chosen = replace(settings, go_on=go_on, engine=engine or settings.engine)
            with traced(trace, chosen, observer or Silent()) as (settings, watched):
                results = self._run(settings, watched, until_caught_up, stop)
        write_text(self._files.root / TARGET / RUN_RESULTS, json.dumps(results.to_json(), indent=2) + "\n")
        if check:
            results.check()
        return results

    def _run(
        self, settings: Settings, observer: Observer, until_caught_up: bool, stop: threading.Event | None
    ) -> RunResults:
        topologies = self._code.topologies()
        with lineage_told(settings.lineage, topologies, observer, until_caught_up=until_caught_up) as told:
            owned = self._files.applications()
            results = refused(
                topologies, settings, self._target.state_dir(), told, until_caught_up=until_caught_up, owned=owned
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
                    observer=told,
                    stop=event,
                    owned=owned,
                )

    def full_refresh(self, applications: Collection[str]) -> None:
        """See `Project.full_refresh`."""
        refresh_fully(self._target.log(), self._target.state_dir(), applications)

    def plan_full_refresh(self, applications: Collection[str]) -> tuple[Removal, ...]:
        """See `Project.plan_full_refresh`."""
        log = self._target.log_to_read()
        begun = set(log.applications())
        return tuple(plan_application_removal(log, name) for name in applications if name in begun)

    def refreshed(self) -> list[str]:
        """The applications of the selected topologies, and those of removed ones that go with them."""
        log = self._target.log_to_read()
        applications = {graph.application for graph in self._selection.graphs()}
        gone = set(applications_of(log, self._files.name)) - set(self._files.applications())
        if self._selection.narrows:
            gone = gone_with(log, gone, applications, self._selection.topics_around(applications))
        return sorted(applications | gone)


@contextmanager
def _stopping(stop: threading.Event | None) -> Iterator[threading.Event]:
    """The given event; else one that Ctrl-C and SIGTERM set, if this thread can handle signals."""
    if stop is not None:
        yield stop
    elif threading.current_thread() is threading.main_thread():
        with stopping() as event:
            yield event
    else:
        yield threading.Event()


# Whether an application runs, as far as its driver has told the log.


class StillRunningError(HeadwaterError):
    """This cannot be done to an application while it runs: `application`. `host`: where it runs."""

    def __init__(self, application: str, host: str) -> None:
        super().__init__(f"{application} is running on {host}", "stop it first; `headwater tasks` shows it")
        self.application = application
        self.host = host


def refuse_running(log: PlacedLog, application: str) -> None:
    """Raises StillRunningError, also while a result is computed again that would take its place.

    Drivers on other machines are known by their status only.
    """
    _refuse(log.read_status(application), application)
    refuse_recomputing(log, application)


def refuse_recomputing(log: PlacedLog, application: str) -> None:
    """Raises StillRunningError while a result of an application is computed again. The result that it has may run."""
    places = log.places()
    if application in places.recomputed:
        # Results are computed again in turns, and take over together.
        for name, each in places.recomputed.items():
            if name.partition("-")[0] == application.partition("-")[0]:
                _refuse(log.kept.read_status(each.place), name)


def _refuse(text: str | None, application: str) -> None:
    status = None if text is None else RunStatus.of_text(application, text)
    if status is not None and status.condition(time.time_ns() // 1_000_000) == "running":
        raise StillRunningError(application, status.host)
