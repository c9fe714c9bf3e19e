"""The present tasks of applications, and pauses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..runtime.changes.planning import Recomputation, recomputations
from ..runtime.driver.status import Condition, RunStatus, client_figures
from ..runtime.log.cleaning.deletions import policy_of
from ..runtime.log.log import Log
from .target import Part

# What the tasks of the selected topologies do, as their drivers have last reported.


@dataclass(frozen=True)
class ApplicationTasks:
    """An application with the last status of its driver. `at`: when the status was read, ms since 1970.

    `condition`: of the run; `never_run` without a `status`: it has never run on this log, or the status is damaged.
    `recomputation`: the new result that is being rebuilt, if any. `paused_since`: when it was paused; its driver may
    still have an open epoch, see `RunStatus.paused`.
    """

    application: str
    at: int
    condition: Condition | Literal["never_run"]
    status: RunStatus | None = None
    paused_since: int | None = None
    recomputation: Recomputation | None = None

    @property
    def recomputing(self) -> bool:
        """Whether a run works on the rebuild, as far as is known."""
        rebuild = self.recomputation
        if rebuild is None or rebuild.status is None:
            return False
        status = RunStatus.from_text(self.application, rebuild.status)
        return status is not None and status.condition(self.at) == "running"

    @property
    def stale(self) -> bool:
        """Whether the run has ended without a final status, or has stopped reporting."""
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


class Tasks(Part):
    """Reads the statuses of the selected applications from the log of the target."""

    def now(self) -> tuple[ApplicationTasks, ...]:
        """See `Project.tasks`."""
        return tuple(self._applications())

    def recomputation(self, application: str) -> Recomputation | None:
        """The new result of an application, while it is being rebuilt."""
        return recomputations(self._target.log_to_read(), self._files.name).get(application)

    def _applications(self) -> Iterator[ApplicationTasks]:
        topologies = self._selection.topologies_to_read()
        log = self._target.log_to_read()
        rebuilds = recomputations(log, self._files.name)
        for topology in topologies:
            application, now = f"{self._files.name}-{topology}", time.time_ns() // 1_000_000
            text = log.read_status(application)
            status = None if text is None else RunStatus.from_text(application, text)
            condition = "never_run" if status is None else status.condition(now)
            paused, rebuild = log.paused_since(application), rebuilds.get(application)
            yield ApplicationTasks(application, now, condition, status, paused, rebuild)


# Pauses, and the end of pauses.


@dataclass(frozen=True)
class ApplicationPause:
    """Whether an application is paused now. `since`: ms since 1970, None if it is not. `changed`: by this call.

    `known`: whether it has ever run on this log; if not, it cannot be paused. `keeps`: cleaned topics that it reads;
    their unread records stay in the log until it resumes.
    """

    application: str
    since: int | None
    changed: bool
    known: bool = True
    keeps: tuple[str, ...] = ()


class Pauses(Part):
    """Pauses and resumes the selected applications. Drivers are notified through the log of the target."""

    def pause(self) -> tuple[ApplicationPause, ...]:
        """See `Project.pause`."""
        log = self._target.log_to_read()
        committed = set(log.applications())
        pauses = (_paused(log, application, application in committed) for application in self._applications())
        return tuple(replace(pause, keeps=self._kept_for(pause.application)) for pause in pauses)

    def resume(self) -> tuple[ApplicationPause, ...]:
        """See `Project.resume`."""
        log = self._target.log_to_read()
        return tuple(_resumed(log, application) for application in self._applications())

    def _kept_for(self, application: str) -> tuple[str, ...]:
        """Topics whose records wait for an application before they expire or are compacted."""
        if self._files.checked.diagnostics.has_errors:
            return ()
        read = (topic for topic in self._files.checked.topics.values() if application in topic.readers)
        return tuple(sorted(topic.name for topic in read if policy_of(topic).drops))

    def _applications(self) -> Iterator[str]:
        for topology in self._selection.topologies_to_read():
            yield f"{self._files.name}-{topology}"


def _paused(log: Log, application: str, known: bool) -> ApplicationPause:
    since = log.paused_since(application)
    if since is not None or not known:
        return ApplicationPause(application, since, changed=False, known=known)
    log.pause(application)
    return ApplicationPause(application, log.paused_since(application), changed=True)


def _resumed(log: Log, application: str) -> ApplicationPause:
    paused = log.paused_since(application) is not None
    log.resume(application)
    return ApplicationPause(application, None, changed=paused)
