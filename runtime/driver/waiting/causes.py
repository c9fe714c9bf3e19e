"""What a task waits for that has records to take and takes none, and why a task has stopped: as data.

Both are in the status of a run (`driver/reports/status.py`), so a later version must be able to read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ....errors import HeadwaterError, shortened
from ..errors import LEAVING_OUT, NO_STEP, RecordError

Reason = Literal[
    "stopped", "not_running", "silent", "starting", "unwritten", "paused", "restoring", "no_client", "behind"
]
"""Why somebody who has records to take is not done with them.

`stopped`: a task has stopped by an error of its own. `not_running`: the application has no run. `silent`: its run
writes no status any more. `starting`: the newest run of it has told nothing yet. `unwritten`: it has never run with
what writes the topic. `paused`: somebody has paused it. `restoring`: its tasks do not have their stores yet.
`no_client`: no client has its tasks. `behind`: none of this, so its tasks are at work, and not done yet.
"""

LASTING: tuple[Reason, ...] = ("stopped", "not_running", "unwritten", "paused")
"""The reasons that somebody has to do something about."""


@dataclass(frozen=True)
class Stop:
    """Why a task has stopped: `cause`. If a record is the reason, its place, and the step that cannot process it, as
    `file:line`; empty where that is not known. `held_at`, `waited_at`: see `FailedRecord`.
    `never_left_out`: whether no `on_error` would leave the record out.
    """

    cause: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    step: str = ""
    held_at: str = ""
    waited_at: str = ""
    never_left_out: bool = False

    @classmethod
    def of(cls, error: HeadwaterError) -> Stop:
        """The facts of an error that has stopped a task."""
        if not isinstance(error, RecordError):
            return cls(error.message.partition("\n")[0])
        first = error.first
        cause = shortened(first.cause).partition("\n")[0]
        return cls(
            cause,
            first.topic,
            first.partition,
            first.offset,
            first.step,
            first.held_at,
            first.waited_at,
            error.way_on not in (LEAVING_OUT, NO_STEP),
        )

    @property
    def place(self) -> str:
        """`record words[0]@1 (topologies/t.yml:7)`; empty if no record is the reason."""
        if self.topic is None:
            return ""
        step = f" ({self.step})" if self.step else ""
        place = f"record {self.topic}[{self.partition}]@{self.offset}{step}"
        if self.held_at:
            return f"{place}, with which a row came out that was held back at {self.held_at}"
        if self.waited_at:
            return f"{place}, or at a row that had waited in the join at {self.waited_at} and came out with it"
        return place


@dataclass(frozen=True)
class WaitsFor:
    """Whom a task waits for. `subtopology`: None where the reason is one of the whole application. `partition`, `stop`:
    of a task that has stopped. `topic`: that is unwritten.
    """

    application: str
    reason: Reason
    subtopology: str | None = None
    partition: int | None = None
    stop: Stop | None = None
    topic: str | None = None

    @property
    def order(self) -> tuple[bool, str, str, int]:
        """Those first that do not end by themselves."""
        return self.reason not in LASTING, self.application, self.subtopology or "", self.partition or 0


@dataclass(frozen=True)
class TasksOfCause:
    """The ids of the tasks of an application that wait for the same."""

    cause: WaitsFor
    tasks: tuple[str, ...]

    as_list: ClassVar[bool] = True
