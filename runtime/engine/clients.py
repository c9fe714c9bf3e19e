"""Clients: the members of an application's group, among which the assignor places its tasks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import HeadwaterError
from ..state.process_file import Owner
from .placement import Executor, executors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SETTLING_SECONDS = 1.5
REGISTERING_SECONDS = 60.0
WATCH_SECONDS = 0.1


class NoExecutorsError(HeadwaterError):
    """A cluster gave no executor within a minute. `master`: the cluster."""

    def __init__(self, master: str) -> None:
        super().__init__(f"{master} has started no executor within a minute", "look at the cluster's free resources")
        self.master = master


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


def clients_of(session: SparkSession, count: int) -> tuple[Client, ...]:
    """The clients of a session: its executors, or in local mode `count` virtual ones that share the cores, by name.

    Waits for the executors of a cluster, which register one by one. Raises NoExecutorsError when none comes.
    """
    if not has_executors(session.sparkContext.master):
        cores = session.sparkContext.defaultParallelism
        names = [f"client-{number}" for number in range(1, count + 1)]
        return tuple(Client(name, max(1, cores // count), folder=name) for name in names)
    found = _registered(session)
    return tuple(Client(f"executor-{each.id}", each.cores, each) for _, each in sorted(found.items()))


def has_executors(master: str) -> bool:
    """Whether the work of a master is done by executors, which have state on their own machines' disks."""
    return not master.startswith("local") or master.startswith("local-cluster")


def _registered(session: SparkSession) -> dict[str, Executor]:
    """The executors, once no other has come for a while."""
    begun = settled = time.monotonic()
    found = executors(session)
    while not found or time.monotonic() - settled < SETTLING_SECONDS:
        if time.monotonic() - begun > REGISTERING_SECONDS:
            if not found:
                raise NoExecutorsError(session.sparkContext.master)
            break
        time.sleep(0.05)
        now = executors(session)
        if now.keys() != found.keys():
            found, settled = now, time.monotonic()
    return found


class ExecutorWatch:
    """Knows which clients' executors are gone; asks Spark ten times a second at most."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._asked = float("-inf")
        self._alive: frozenset[str] = frozenset()

    def lost(self, client: Client) -> bool:
        """Whether the client's executor has ended. Virtual clients never have."""
        if client.executor is None:
            return False
        if time.monotonic() - self._asked > WATCH_SECONDS:
            self._alive = frozenset(executors(self._session))
            self._asked = time.monotonic()
        return client.executor.id not in self._alive


def driver_jvm(session: SparkSession) -> Owner | None:
    """The process that has the workers of virtual clients; None where this machine cannot see it."""
    jvm: Any = session.sparkContext._jvm
    return Owner.of(jvm.java.lang.ProcessHandle.current().pid())
