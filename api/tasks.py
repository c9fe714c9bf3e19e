"""What the tasks of the selected topologies do, as their drivers have written it last."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ..runtime.driver.reports.status import Condition, RunStatus, TaskStatus
from .files import CheckedFiles
from .selection import Selection
from .target import Target


@dataclass(frozen=True)
class ApplicationTasks:
    """An application with what its driver has written last. `at`: when this was looked up, ms since 1970.

    `condition`: of the run; `never_run` without a `status`: nobody has run it on this log, or the text is damaged.
    `paused_since`: when somebody paused it; its driver may have an epoch open yet, see `RunStatus.paused`.
    """

    application: str
    at: int
    condition: Condition | Literal["never_run"]
    status: RunStatus | None = None
    paused_since: int | None = None

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
            "run": None
            if status is None
            else {
                "generation": status.generation,
                "host": status.host,
                "pid": None if status.owner is None else status.owner.pid,
                "started_at": status.started_at,
                "written_at": status.written_at,
                "ended": status.ended,
                "rebalancing": status.rebalancing,
                "paused": status.paused,
                "records": status.records,
                "commits": status.commits,
                "clients": [
                    {
                        "client": client.name,
                        "host": client.host or status.host,
                        "threads": client.threads,
                        "tasks": [_task(task) for task in client.tasks],
                    }
                    for client in status.clients
                ],
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

    def _each(self) -> Iterator[ApplicationTasks]:
        topologies = self._selection.topologies_to_read()
        log = self._target.log_to_read()
        for topology in topologies:
            application, now = f"{self._files.name}-{topology}", time.time_ns() // 1_000_000
            text = log.read_status(application)
            status = None if text is None else RunStatus.of_text(application, text)
            condition = "never_run" if status is None else status.condition(now)
            yield ApplicationTasks(application, now, condition, status, log.paused_since(application))


def _task(task: TaskStatus) -> dict[str, Any]:
    return {
        "task": task.id,
        "subtopology": task.subtopology,
        "partition": task.partition,
        "role": task.role,
        "state": task.state,
        "since": task.since,
        "lag": task.lag,
        "rate": task.rate,
        "restored": round(task.restored, 4),
        "seconds_left": None if task.seconds_left is None else round(task.seconds_left, 1),
        "stores": [{"store": each.name, "position": each.position, "end": each.end} for each in task.stores],
    }
