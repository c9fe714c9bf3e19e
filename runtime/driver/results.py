"""Results of a run, as data: the contents of `target/run_results.json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...errors import HeadwaterError
from ...readable_text import counted
from .status import RunStatus, run_figures

Status = Literal["caught_up", "interrupted", "failed", "fenced", "not_started"]
"""`not_started`: the run was stopped, or another application was taken over, before this one started."""

Recomputation = Literal["switched", "unfinished"]
"""The outcome of a rebuild: it has replaced the old result, or the old result stays so far."""

FAILED: tuple[Status, ...] = ("failed", "fenced")
"""The statuses of an application that ended with an error or was taken over."""


@dataclass(frozen=True, repr=False)
class ApplicationResult:
    """The result of one application.

    `records`: consumed. `dropped`: `<step>:<reason>` -> records. `dead_letters`: topics that received dead letters.
    `restored`: tasks that started with state. `waiting`: records that may not be consumed before the applications in
    `waits_for` have caught up; the application itself is among them if its own tasks have stopped. `empty`: external
    topics that have never had a record. `error`: the message of the error that ended it; `raised`: the error itself.
    `assignment`: client -> task ids. `placement`: how the last assignment was made (see `Assigned`). `lost`: a sentence
    per store that has lost its rows. `recomputation`: the outcome of a rebuild; None without one. `metrics`: the last
    status; None if the application was not claimed.
    """

    application: str
    status: Status
    generation: int
    commits: int
    records: int
    seconds: float
    dropped: Mapping[str, int] = field(default_factory=dict)
    dead_letters: tuple[str, ...] = ()
    restored: int = 0
    waiting: int = 0
    waits_for: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    error: str | None = None
    raised: HeadwaterError | None = None
    assignment: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    placement: Mapping[str, Any] | None = None
    lost: tuple[str, ...] = ()
    recomputation: Recomputation | None = None
    metrics: RunStatus | None = None

    def to_json(self) -> dict[str, Any]:
        """As in `RunResults.to_json`."""
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}
        del plain["raised"]
        return {
            **plain,
            "seconds": round(self.seconds, 3),
            "dropped": dict(sorted(self.dropped.items())),
            "assignment": {client: list(tasks) for client, tasks in sorted(self.assignment.items())},
            "placement": None if self.placement is None else dict(self.placement),
            "metrics": None if self.metrics is None else run_figures(self.metrics),
        }

    def __repr__(self) -> str:
        done = f"{counted(self.records, 'record')}, {counted(self.commits, 'commit')}, {self.seconds:.1f} s"
        return f"<ApplicationResult {self.application}: {_words(self.status)}, {done}>"


@dataclass(frozen=True, repr=False)
class RunResults:
    """The results of all applications of a run, in their order. `started_at`: ms since 1970."""

    started_at: int
    seconds: float
    applications: tuple[ApplicationResult, ...]

    def __repr__(self) -> str:
        ended = Counter(_words(result.status) for result in self.applications)
        how = ", ".join(f"{number} {status}" for status, number in ended.items()) or "no application"
        return f"<RunResults: {how}, {counted(self.records, 'record')}, {self.seconds:.1f} s>"

    @property
    def failed(self) -> bool:
        """Whether an application ended with an error or was taken over."""
        return any(result.status in FAILED for result in self.applications)

    def check(self) -> None:
        """Raise RunFailedError if an application failed or was taken over."""
        if self.failed:
            raise RunFailedError(self)

    @property
    def records(self) -> int:
        """Records consumed by all applications."""
        return sum(result.records for result in self.applications)

    def to_json(self) -> dict[str, Any]:
        """The results in the form of `schemas/run_results.json`."""
        return {
            "started_at": self.started_at,
            "seconds": round(self.seconds, 3),
            "applications": [result.to_json() for result in self.applications],
        }


class RunFailedError(HeadwaterError):
    """Applications of a run failed or were taken over.

    `results`: of all applications, including those without an error.
    """

    def __init__(self, results: RunResults) -> None:
        failed = [result for result in results.applications if result.status in FAILED]
        sentences = [f"{result.application}: {result.error or _words(result.status)}" for result in failed]
        super().__init__("; ".join(sentences))
        self.results = results


def _words(status: Status) -> str:
    return status.replace("_", " ")
