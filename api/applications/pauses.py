"""Pauses the selected topologies, and ends pauses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...runtime.log.cleaning.policies import policy_of
from ...runtime.log.log import Log
from ..files import CheckedFiles
from ..selection import Selection
from ..target import Target


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
