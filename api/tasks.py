"""The tasks of applications as they stand, and their pauses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..runtime.changes.planning import Recomputation, recomputations
from ..runtime.driver.status import Condition, RunStatus, client_figures
from ..runtime.log.cleaning.deletions import policy_of
from ..runtime.log.log import Log
from .files import CheckedFiles, Selection
from .target import Target

# What the tasks of the selected topologies do, as their drivers have written it last.


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


# Pauses the selected topologies, and ends pauses.


@dataclass(frozen=True)
class ApplicationPause:
    """Whether an application is paused now. `since`: ms since 1970; None if it is not. `changed`: by this call.

    `known`: whether it has ever run on this log. One that has not cannot be paused. `keeps`: topics that are cleaned,
    and that it reads: what it has not consumed of these stays in the log until it goes on.
    """

    application: str
    since: int | None
    changed: bool
    known: bool = True
    keeps: tuple[str, ...] = ()


class Pauses:
    """Tells the drivers of the selected applications by way of the log of the target."""

    def __init__(self, files: CheckedFiles, selection: Selection, target: Target) -> None:
        self._files = files
        self._selection = selection
        self._target = target

    def pause(self) -> tuple[ApplicationPause, ...]:
        """See `Project.pause`."""
        log = self._target.log_to_read()
        known = set(log.applications())
        found = (_paused(log, each, each in known) for each in self._applications())
        return tuple(replace(each, keeps=self._kept_for(each.application)) for each in found)

    def resume(self) -> tuple[ApplicationPause, ...]:
        """See `Project.resume`."""
        log = self._target.log_to_read()
        return tuple(_resumed(log, each) for each in self._applications())

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
