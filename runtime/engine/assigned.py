"""An assignment as it is carried out, and as it is told: in the log and in the results of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..assignment.cluster import ProcessId
from ..tasks.task_id import TaskId


@dataclass(frozen=True)
class AssignorFailure:
    """Why an assignor's answer was not carried out. `code`: an AssignmentError's name, or `RAISED`.

    `entries`: what of the answer it is about.
    """

    code: str
    message: str
    entries: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"code": self.code, "message": self.message, "entries": list(self.entries)}


@dataclass(frozen=True)
class Assigned:
    """Who has which tasks, by the clients' names.

    `moved`, `kept`, `new`: numbers of active tasks that have left their previous owner, stayed, had none.
    `followup_deadline`: when the assignor wants to be asked again, ms since 1970; nothing acts on it while it runs, the
    next start asks anyway. `failure`: the assignor's answer was of no use, and tasks are where they were. Standbys are
    what the assignor asked for; no client keeps them yet.
    """

    assignor: str
    options: Mapping[str, Any] = field(default_factory=dict)
    process_ids: Mapping[str, ProcessId] = field(default_factory=dict)
    active: Mapping[str, tuple[TaskId, ...]] = field(default_factory=dict)
    standby: Mapping[str, tuple[TaskId, ...]] = field(default_factory=dict)
    followup_deadline: int | None = None
    moved: int = 0
    kept: int = 0
    new: int = 0
    failure: AssignorFailure | None = None

    def by_client(self) -> dict[str, tuple[str, ...]]:
        """Client -> ids of the tasks it runs."""
        return {name: tuple(map(str, tasks)) for name, tasks in self.active.items()}

    def told(self) -> dict[str, Any]:
        """What a run's results say of it, beside who has which tasks: see `schemas/run_results.json`."""
        standbys = {name: [str(task) for task in tasks] for name, tasks in sorted(self.standby.items())}
        return {**self._why(), "standbys": standbys}

    def _why(self) -> dict[str, Any]:
        return {
            "assignor": self.assignor,
            "options": dict(self.options),
            "moved": self.moved,
            "kept": self.kept,
            "new": self.new,
            "followup_deadline": self.followup_deadline,
            "error": None if self.failure is None else self.failure.to_json(),
        }

    def to_json(self) -> dict[str, Any]:
        """What the log keeps: tasks by the names of their subtopologies, which last where numbers may not."""
        return {
            **self._why(),
            "clients": {
                process_id: {
                    "name": name,
                    "active": _by_name(self.active.get(name, ())),
                    "standby": _by_name(self.standby.get(name, ())),
                }
                for name, process_id in sorted(self.process_ids.items())
            },
        }

    @classmethod
    def recorded(cls, note: Mapping[str, Any]) -> dict[tuple[str, int], ProcessId]:
        """Subtopology and partition -> who ran it, by what the log has of an assignment; nothing where it has none."""
        return {
            (name, partition): ProcessId(process_id)
            for process_id, client in note.get("clients", {}).items()
            for name, partitions in client["active"].items()
            for partition in partitions
        }


def _by_name(tasks: Iterable[TaskId]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for task in sorted(tasks):
        found.setdefault(task.name, []).append(task.partition)
    return found
