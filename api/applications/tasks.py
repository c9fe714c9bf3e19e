"""What the tasks of the selected topologies do, as their drivers have written it last."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ...runtime.changes.plans.recomputation import Recomputation, recomputations
from ...runtime.driver.reports.figures import client_figures
from ...runtime.driver.reports.status import Condition, RunStatus
from ..files import CheckedFiles
from ..selection import Selection
from ..target import Target


@dataclass(frozen=True)
class ApplicationTasks:
    """An application with what its driver has written last. `at`: when this was looked up, ms since 1970.

    `condition`: of the run; `never_run` without a `status`: nobody has run it on this log, or the text is damaged.
    `recomputation`: of the new result that is computed beside the one that the run works on, if there is one.
    `paused_since`: when somebody paused it; its driver may have an epoch open yet, see `RunStatus.paused`.
    """

    application: str
    at: int
    condition: Condition | Literal["never_run"]
    status: RunStatus | None = None
    paused_since: int | None = None
    recomputation: Recomputation | None = None

    @property
    def recomputing(self) -> bool:
        """Whether a run works on the result that is computed again, as far as is known."""
        found = self.recomputation
        if found is None or found.status is None:
            return False
        status = RunStatus.of_text(self.application, found.status)
        return status is not None and status.condition(self.at) == "running"

    @property
    def stale(self) -> bool:
        """Whether the run has ended without a word, or says nothing any more."""
        return self.condition in ("gone", "silent")

    def to_json(self) -> dict[str, Any]:
        """The form published as `schemas/tasks.json`."""
        status = self.status
        return {
            "application": self.application,
            "condition": self.condition,
            "paused_since": self.paused_since,
            "recomputation": None
            if self.recomputation is None
            else {
                "running": self.recomputing,
                "records": self.recomputation.records,
                "of": self.recomputation.of,
            },
            "run": None
            if status is None
            else {
                "generation": status.generation,
                "host": status.host,
                "pid": None if status.owner is None else status.owner.pid,
                "started_at": status.started_at,
                "written_at": status.written_at,
                "ended": status.ended,
                "error": status.error,
                "hint": status.hint,
                "failed_tasks": list(status.failed_tasks),
                "rebalancing": status.rebalancing,
                "paused": status.paused,
                "records": status.records,
                "commits": status.commits,
                "clients": [client_figures(client, status) for client in status.clients],
            },
        }


class Tasks:
    """Reads the statuses of the selected applications from the log of the target."""

    def __init__(self, files: CheckedFiles, selection: Selection, target: Target) -> None:
        self._files = files
        self._selection = selection
        self._target = target

    def now(self) -> tuple[ApplicationTasks, ...]:
        """See `Project.tasks`."""
        return tuple(self._each())

    def recomputation(self, application: str) -> Recomputation | None:
        """The new result of an application that is computed beside the one that it has."""
        return recomputations(self._target.log_to_read(), self._files.name).get(application)

    def _each(self) -> Iterator[ApplicationTasks]:
        topologies = self._selection.topologies_to_read()
        log = self._target.log_to_read()
        recomputed = recomputations(log, self._files.name)
        for topology in topologies:
            application, now = f"{self._files.name}-{topology}", time.time_ns() // 1_000_000
            text = log.read_status(application)
            status = None if text is None else RunStatus.of_text(application, text)
            condition = "never_run" if status is None else status.condition(now)
            paused, found = log.paused_since(application), recomputed.get(application)
            yield ApplicationTasks(application, now, condition, status, paused, found)
