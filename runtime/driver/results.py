"""The results of a run, as data: the contents of `target/run_results.json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...errors import HeadwaterError
from .event_texts import counted
from .status import RunStatus, run_figures

Status = Literal["caught_up", "interrupted", "failed", "fenced", "not_started"]
"""`not_started`: the run was stopped, or lost another application, before it came to this one."""

Recomputation = Literal["switched", "unfinished"]
"""What became of a result that was computed again: it has taken the place of the old one, or the old one stays so far.
"""

FAILED: tuple[Status, ...] = ("failed", "fenced")
"""The statuses of an application that ended with an error or was taken over."""


@dataclass(frozen=True, repr=False)
class ApplicationResult:
    """One application's run.

    `records`: consumed. `dropped`: `<step>:<reason>` -> records. `dead_letters`: the topics that keep those which are
    dropped as dead letters, where there are any. `waiting`: records that may not be taken before the
    applications in `waits_for` have caught up; of the own one, tasks that have stopped. `empty`: topics fed from
    outside that have never had a record. `error`: the sentence that ended it; `raised`: the error that says it.
    `assignment`: client -> task ids. `placement`: how the last assignment was made (see `Assigned`). `lost`: a sentence
    for each store that has lost its rows. `recomputation`: where the result was computed again. `metrics`: the run's
    last numbers; None where it did not come to claim the application.
    """

    application: str
    status: Status
    generation: int
    commits: int
    records: int
    seconds: float
    dropped: Mapping[str, int] = field(default_factory=dict)
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
    dead_letters: tuple[str, ...] = ()

    def __repr__(self) -> str:
        done = f"{counted(self.records, 'record')}, {counted(self.commits, 'commit')}, {self.seconds:.1f} s"
        return f"<ApplicationResult {self.application}: {_words(self.status)}, {done}>"


@dataclass(frozen=True, repr=False)
class RunResults:
    """All applications of one run, in the order in which they were started. `started_at`: ms."""

    started_at: int
    seconds: float
    applications: tuple[ApplicationResult, ...]

    def __repr__(self) -> str:
        ended = Counter(_words(result.status) for result in self.applications)
        how = ", ".join(f"{number} {status}" for status, number in ended.items()) or "no application"
        return f"<RunResults: {how}, {counted(self.records, 'record')}, {self.seconds:.1f} s>"

    @property
    def failed(self) -> bool:
        """Whether any application ended with an error or was taken over."""
        return any(result.status in FAILED for result in self.applications)

    def check(self) -> None:
        """Raise RunFailedError if any application failed or was taken over."""
        if self.failed:
            raise RunFailedError(self)

    @property
    def records(self) -> int:
        """Records consumed by all applications."""
        return sum(result.records for result in self.applications)

    def to_json(self) -> dict[str, Any]:
        """The form published as `schemas/run_results.json`."""
        return {
            "started_at": self.started_at,
            "seconds": round(self.seconds, 3),
            "applications": [
                {
                    "application": result.application,
                    "status": result.status,
                    "generation": result.generation,
                    "commits": result.commits,
                    "records": result.records,
                    "seconds": round(result.seconds, 3),
                    "dropped": dict(sorted(result.dropped.items())),
                    "dead_letters": list(result.dead_letters),
                    "restored": result.restored,
                    "waiting": result.waiting,
                    "waits_for": list(result.waits_for),
                    "empty": list(result.empty),
                    "error": result.error,
                    "assignment": {client: list(tasks) for client, tasks in sorted(result.assignment.items())},
                    "placement": None if result.placement is None else dict(result.placement),
                    "lost": list(result.lost),
                    "recomputation": result.recomputation,
                    "metrics": None if result.metrics is None else run_figures(result.metrics),
                }
                for result in self.applications
            ],
        }


class RunFailedError(HeadwaterError):
    """Applications of a run failed or were taken over.

    `results` has all applications, including those that ended well.
    """

    def __init__(self, results: RunResults) -> None:
        failed = [result for result in results.applications if result.status in FAILED]
        sentences = [f"{result.application}: {result.error or _words(result.status)}" for result in failed]
        super().__init__("; ".join(sentences))
        self.results = results


def _words(status: Status) -> str:
    return status.replace("_", " ")
