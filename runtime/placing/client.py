"""Clients: the members of an application's group, among which the assignor places its tasks."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import HeadwaterError


@dataclass(frozen=True)
class Executor:
    """A live executor: Spark's id for it, its host, and how many tasks it runs at once."""

    id: str
    host: str
    cores: int


@dataclass(frozen=True)
class Client:
    """An executor, or in local mode a virtual client of the driver (`executor` is None).

    `name` is for people; `threads` run at once. `folder`: where it keeps state, below the state directory of its own
    machine; `process_id`: its name in the group, which stays with that folder. An executor's are known once it has
    taken one (see `Group.place`), and are empty before.
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
            "run again: tasks are placed anew on the executors there are, and go on from the last commit",
        )
        self.application = application
        self.client = client
