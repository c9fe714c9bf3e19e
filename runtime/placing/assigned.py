"""An assignment as it is carried out, and as it is told: in the log and in the results of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..assignment.api.cluster import ProcessId
from ..tasks.task_id import TaskId, TaskKey


@dataclass(frozen=True)
class PlacedClient:
    """A client as the assignor saw it: its process id, which stays with its state, and where its host stands."""

    process_id: ProcessId
    rack: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"process_id": self.process_id, "rack": self.rack, "tags": dict(self.tags)}


@dataclass(frozen=True)
class Move:
    """An active task on another client than before. `source`: None where that one is gone, or came back without state.

    `lags`: how many changelog records the copies of its state are behind, of the clients that have one. `emptied`: the
    client that has come back under its old name, but without what it had.
    """

    task: TaskId
    source: str | None
    target: str
    lags: Mapping[str, int] = field(default_factory=dict)
    emptied: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"task": str(self.task), "from": self.source, "to": self.target, "lags": dict(self.lags)}


@dataclass(frozen=True)
class AssignorFailure:
    """Why an assignor's answer was not carried out. `entries`: what of the answer it is about.

    `code`: an AssignmentError's name; `NO_ASSIGNMENT`: it was none at all; `RAISED`: there was none.
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

    `kept`, `new`: numbers of active tasks that stay with their previous owner, and that had none; `moves`: all others.
    `unassigned`: tasks that the assignor left out, which do not run. `followup_deadline`: when it wants to be asked
    again, ms since 1970; nothing acts on it while it runs, the next start asks anyway. `failure`: the assignor's answer
    was of no use, and tasks are where they were. Standbys are what the assignor asked for; no client keeps them yet.
    """

    assignor: str
    options: Mapping[str, Any] = field(default_factory=dict)
    clients: Mapping[str, PlacedClient] = field(default_factory=dict)
    active: Mapping[str, tuple[TaskId, ...]] = field(default_factory=dict)
    standby: Mapping[str, tuple[TaskId, ...]] = field(default_factory=dict)
    followup_deadline: int | None = None
    kept: int = 0
    new: int = 0
    moves: tuple[Move, ...] = ()
    unassigned: tuple[TaskId, ...] = ()
    failure: AssignorFailure | None = None

    def by_client(self) -> dict[str, tuple[str, ...]]:
        """Client -> ids of the tasks it runs."""
        return {name: tuple(map(str, tasks)) for name, tasks in self.active.items()}

    def summary(self) -> dict[str, Any]:
        """What a run's results say of it, beside who has which tasks: see `schemas/run_results.json`."""
        return {
            **self._why(),
            "clients": {name: client.to_json() for name, client in sorted(self.clients.items())},
            "moves": [move.to_json() for move in self.moves],
            "unassigned": [str(task) for task in self.unassigned],
            "standbys": {name: [str(task) for task in tasks] for name, tasks in sorted(self.standby.items())},
        }

    def _why(self) -> dict[str, Any]:
        return {
            "assignor": self.assignor,
            "options": dict(self.options),
            "kept": self.kept,
            "moved": len(self.moves),
            "new": self.new,
            "followup_deadline": self.followup_deadline,
            "error": None if self.failure is None else self.failure.to_json(),
        }

    def to_json(self) -> dict[str, Any]:
        """What the log keeps: tasks by the names of their subtopologies, which last where numbers may not."""
        return {
            **self._why(),
            "clients": {
                client.process_id: {
                    "name": name,
                    "active": _by_name(self.active.get(name, ())),
                    "standby": _by_name(self.standby.get(name, ())),
                }
                for name, client in sorted(self.clients.items())
            },
        }

    @classmethod
    def recorded(cls, application: str, note: Mapping[str, Any]) -> dict[TaskKey, ProcessId]:
        """Task -> who ran it, by what the log has of an assignment; nothing where it has none."""
        return {
            TaskKey(application, name, partition): ProcessId(process_id)
            for process_id, client in note.get("clients", {}).items()
            for name, partitions in client["active"].items()
            for partition in partitions
        }

    @classmethod
    def names(cls, note: Mapping[str, Any]) -> dict[ProcessId, str]:
        """What the clients of an assignment were called, by what the log has of it."""
        return {ProcessId(process_id): client.get("name", "") for process_id, client in note.get("clients", {}).items()}


def _by_name(tasks: Iterable[TaskId]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for task in sorted(tasks):
        found.setdefault(task.name, []).append(task.partition)
    return found
