"""Clients: the members of an application's group, among which the assignor places its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..state.process_file import Owner
from .placement import Executor, executors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Client:
    """An executor, or in local mode a virtual client of the driver (`executor` is None).

    `name` is its process id in the group and its folder below the state directory; `threads` run at once.
    """

    name: str
    threads: int
    executor: Executor | None = None


def clients_of(session: SparkSession, count: int) -> tuple[Client, ...]:
    """The clients of a session: its executors, or `count` virtual ones that share the local cores, by name."""
    found = executors(session)
    if found:
        return tuple(Client(f"executor-{each.id}", each.cores, each) for _, each in sorted(found.items()))
    cores = session.sparkContext.defaultParallelism
    return tuple(Client(f"client-{number}", max(1, cores // count)) for number in range(1, count + 1))


def driver_jvm(session: SparkSession) -> Owner | None:
    """The process that has the workers of virtual clients; None where this machine cannot see it."""
    jvm: Any = session.sparkContext._jvm
    return Owner.of(jvm.java.lang.ProcessHandle.current().pid())
