"""Runs of the selected topologies, and their start from the beginning."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..private_files import write_text
from ..runtime.driver.application import run_topologies
from ..runtime.driver.refused import refused
from ..runtime.driver.reports.events import Observer
from ..runtime.driver.reports.results import RunResults
from ..runtime.driver.stopping import stopping
from ..runtime.log.declared_topics import applications_of, gone_with
from ..runtime.progress.full_refresh import refresh_fully
from ..runtime.spark.cluster import SparkCluster
from .arguments import check_methods
from .code import TARGET, GeneratedCode
from .files import CheckedFiles
from .selection import Selection
from .target import Target

if TYPE_CHECKING:
    from ..runtime.spark.session.on_demand import SparkOnDemand

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
        self, *, until_caught_up: bool, observer: Observer | None, stop: threading.Event | None, check: bool
    ) -> RunResults:
        """See `Project.run`."""
        check_methods("observer", observer, "on")
        check_methods("stop", stop, "is_set", "wait")
        self._target.log_to_read()  # before `topologies`, which may have to start Spark
        topologies = self._code.topologies()
        settings = self._target.settings()
        results = refused(topologies, settings, self._target.state_dir(), observer, until_caught_up=until_caught_up)
        if results is None:
            session = self._spark.session()
            with _stopping(stop) as event:
                results = run_topologies(
                    topologies,
                    settings,
                    SparkCluster(session, settings.deadline_ms),
                    until_caught_up=until_caught_up,
                    observer=observer,
                    stop=event,
                )
        write_text(self._files.root / TARGET / RUN_RESULTS, json.dumps(results.to_json(), indent=2) + "\n")
        if check:
            results.check()
        return results

    def full_refresh(self) -> None:
        """See `Project.full_refresh`."""
        log = self._target.log()
        applications = {graph.application for graph in self._selection.graphs()}
        gone = set(applications_of(log, self._files.name)) - set(self._files.applications())
        if self._selection.narrows:
            gone = gone_with(log, gone, applications, self._selection.topics_around(applications))
        refresh_fully(log, self._target.state_dir(), sorted(applications | gone))


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
