"""An assignment that is carried out, with its forms for the log and for a run's results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..assignment.cluster import ProcessId
from ..task_id import TaskId, TaskKey


@dataclass(frozen=True)
class PlacedClient:
    """A client as the assignor saw it: its process id, which belongs to its state; rack and tags of its host."""

    process_id: ProcessId
    rack: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"process_id": self.process_id, "rack": self.rack, "tags": dict(self.tags)}


@dataclass(frozen=True)
class Move:
    """An active task that moved to another client. `source`: None if the old client is gone or has lost its state.

    `lags`: client -> how many changelog records its copy of the state is behind, for clients with a copy. `emptied`:
    the name of the old client if it is back under that name, but without its state.
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
    """Why an assignor's answer was not carried out. `entries`: the parts of the answer concerned.

    `code`: the name of an AssignmentError, or `NO_ASSIGNMENT` for an answer that is no assignment, or `RAISED` if the
    assignor raised an error.
    """

    code: str
    message: str
    entries: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"code": self.code, "message": self.message, "entries": list(self.entries)}


@dataclass(frozen=True)
class Assigned:
    """The tasks of each client, by the clients' names.

    `kept`, `new`: how many active tasks stay with their previous owner, and how many had none. `moves`: the others.
    `unassigned`: tasks that the assignor left out; they do not run. `followup_deadline`: when the assignor wants to be
    asked again, in ms since 1970. `failure`: why the answer was not used; tasks are then where they were. `standby`:
    the tasks of which a client keeps a copy.
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

    def differs(self, other: Assigned) -> bool:
        """Whether clients or their tasks are others."""
        return (self.clients, self.active, self.standby) != (other.clients, other.active, other.standby)

    def by_client(self) -> dict[str, tuple[str, ...]]:
        """Client -> ids of the tasks that it runs."""
        return {name: tuple(map(str, tasks)) for name, tasks in self.active.items()}

    def summary(self) -> dict[str, Any]:
        """What a run's results contain besides the active tasks of each client: see `schemas/run_results.json`."""
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
        """The form for the log. Tasks have the names of their subtopologies, which last longer than numbers."""
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
        """Task -> the client that ran it, from the log's record of an assignment; empty if there is none."""
        return {
            TaskKey(application, name, partition): ProcessId(process_id)
            for process_id, client in note.get("clients", {}).items()
            for name, partitions in client["active"].items()
            for partition in partitions
        }

    @classmethod
    def names(cls, note: Mapping[str, Any]) -> dict[ProcessId, str]:
        """The names of the clients of an assignment, from the log's record of it."""
        return {ProcessId(process_id): client.get("name", "") for process_id, client in note.get("clients", {}).items()}


def _by_name(tasks: Iterable[TaskId]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for task in sorted(tasks):
        found.setdefault(task.name, []).append(task.partition)
    return found
