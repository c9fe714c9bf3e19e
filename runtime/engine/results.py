"""What a run has done, as data: the content of `target/run_results.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["caught_up", "interrupted", "failed", "fenced"]


@dataclass(frozen=True)
class ApplicationResult:
    """One application's run.

    `records`: consumed; `dropped`: `<step>:<reason>` -> records; `waiting`: records that may not be taken before the
    applications in `waits_for` have caught up; `error`: the sentence that ended it. `assignment`: client -> task ids;
    `placement`: how it came about, and what was asked for that no client does yet (see `Assigned`).
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
    error: str | None = None
    assignment: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    placement: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class RunResults:
    """All applications of one run, in the order in which they were started. `started_at`: ms."""

    started_at: int
    seconds: float
    applications: tuple[ApplicationResult, ...]

    @property
    def failed(self) -> bool:
        """Whether any application ended by an error or was taken over."""
        return any(result.status in ("failed", "fenced") for result in self.applications)

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
                    "restored": result.restored,
                    "waiting": result.waiting,
                    "waits_for": list(result.waits_for),
                    "error": result.error,
                    "assignment": {client: list(tasks) for client, tasks in sorted(result.assignment.items())},
                    "placement": None if result.placement is None else dict(result.placement),
                }
                for result in self.applications
            ],
        }
