"""The assignment that a run uses, and its JSON forms for the log and for run results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..assignment.cluster import ProcessId
from ..task_id import TaskId, TaskKey


@dataclass(frozen=True)
class PlacedClient:
    """A client as the assignor saw it.

    `process_id`: identifies the state of the client, as in Kafka Streams. `rack`, `tags`: of its host.
    """

    process_id: ProcessId
    rack: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"process_id": self.process_id, "rack": self.rack, "tags": dict(self.tags)}


@dataclass(frozen=True)
class Move:
    """An active task that moved to another client.

    `source`: the old client; None if it is gone or has lost its state. `lags`: client -> lag of its copy of the state
    in changelog records, for clients with a copy. `emptied`: the name of the old client, if it is back without its
    state.
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
    """The reason why the assignment of an assignor was rejected. `entries`: the invalid parts of it.

    `code`: the name of an AssignmentError; `NO_ASSIGNMENT` if the assignor returned something else; `RAISED` if it
    raised an error.
    """

    code: str
    message: str
    entries: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"code": self.code, "message": self.message, "entries": list(self.entries)}


@dataclass(frozen=True)
class Assigned:
    """The tasks of each client, by name of the client.

    `active`: the tasks that a client runs. `standby`: the tasks of which a client keeps a copy of the state. `kept`,
    `new`: the numbers of active tasks with their previous owner, and without a previous owner. `moves`: the other
    active tasks. `unassigned`: tasks that the assignor did not assign; they do not run. `followup_deadline`: the time
    of the next assignment that the assignor requests, in ms since 1970. `failure`: the reason why the assignment was
    rejected; tasks then stay where they were.
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
        """Whether the clients or their tasks differ."""
        return (self.clients, self.active, self.standby) != (other.clients, other.active, other.standby)

    def by_client(self) -> dict[str, tuple[str, ...]]:
        """Client -> ids of the tasks that it runs."""
        return {name: tuple(map(str, tasks)) for name, tasks in self.active.items()}

    def summary(self) -> dict[str, Any]:
        """The assignment in run results, without the active tasks: see `schemas/run_results.json`."""
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
        """The form in the log. Tasks are listed by the names of subtopologies, which outlast their numbers."""
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
        """Task -> the client that ran it, from the form in the log. Empty for an empty `note`."""
        return {
            TaskKey(application, name, partition): ProcessId(process_id)
            for process_id, client in note.get("clients", {}).items()
            for name, partitions in client["active"].items()
            for partition in partitions
        }

    @classmethod
    def names(cls, note: Mapping[str, Any]) -> dict[ProcessId, str]:
        """Process id -> name of the client, from the form in the log."""
        return {ProcessId(process_id): client.get("name", "") for process_id, client in note.get("clients", {}).items()}


def _by_name(tasks: Iterable[TaskId]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for task in sorted(tasks):
        found.setdefault(task.name, []).append(task.partition)
    return found
