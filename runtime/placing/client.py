"""Clients, the members of an application's group, on which the assignor places the tasks."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import HeadwaterError


@dataclass(frozen=True)
class Executor:
    """A live executor: its id in Spark, its host, and how many tasks it runs at once."""

    id: str
    host: str
    cores: int


@dataclass(frozen=True)
class Client:
    """An executor, or in local mode a virtual client inside of the driver (`executor` is None).

    `name` is for people. `threads`: how many tasks run at once. `folder`: where it keeps state, below the state
    directory of its machine. `process_id`: its name in the group, which belongs to that folder. Those of an executor
    are empty until it has claimed a folder (see `Group.place`).
    """

    name: str
    threads: int
    executor: Executor | None = None
    folder: str = ""
    process_id: str = ""


class ClientLostError(HeadwaterError):
    """An executor is gone, and with it the client whose tasks it ran. What it had not committed does not exist."""

    def __init__(self, application: str, client: str) -> None:
        super().__init__(
            f"{client} of {application} is gone: its executor has ended",
            "run again: tasks are placed on the executors that are there, and go on from the last commit",
        )
        self.application = application
        self.client = client
