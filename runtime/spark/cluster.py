"""Spark as the cluster of a run: see `driver.cluster.Cluster`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..driver.cluster import EpochJob
from ..placing.client import Client
from ..restore.links import StateLink
from ..state.directories.process_file import Owner
from ..topology import DEADLINE_MS, Settings, Subtopology
from .clients import clients_of, driver_jvm, has_executors, local_state
from .executor_link import OnExecutor
from .job import SparkJob
from .session.gone_jvm import SparkEndedError
from .watching.executor_watch import ExecutorWatch
from .watching.known_executors import KnownExecutors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkCluster:
    """The executors of a session, or in local mode virtual clients of the driver. The session stays open.

    `deadline_ms`: how long an executor may be silent, see `watching.silence`. `in_tasks`: whether tasks compute the
    expressions themselves for which that is proven to give the same. Raises DeadlineError.
    """

    def __init__(self, session: SparkSession, deadline_ms: int = DEADLINE_MS, in_tasks: bool = False) -> None:
        self._in_tasks = in_tasks
        self._session = session
        has = has_executors(session.sparkContext.master)
        self._watch = ExecutorWatch(KnownExecutors(session), deadline_ms / 1000) if has else None
        self._virtual: tuple[Client, ...] = ()

    def clients(self, count: int) -> tuple[Client, ...]:
        """Wait for the executors of a cluster. Raises NoExecutorsError if none comes."""
        return clients_of(self._session, count)

    def present(self, count: int) -> tuple[Client, ...]:
        """The executors that are there. Virtual clients are always there, and join again if the group has lost one."""
        if self._watch is not None:
            return self._watch.present()
        if len(self._virtual) != count:
            self._virtual = clients_of(self._session, count)
        return self._virtual

    def lost(self, client: Client) -> bool:
        """Whether the client's executor has ended, or is silent. That of a virtual client never has, nor is it."""
        return self._watch is not None and self._watch.lost(client)

    def silent(self, client: Client) -> float | None:
        """For how long the client's executor has been silent, if it is lost for that."""
        return None if self._watch is None else self._watch.silent(client)

    def owner(self) -> Owner | None:
        """The JVM, which runs the workers of virtual clients; or this process, if the machine cannot see the JVM."""
        return driver_jvm(self._session) or Owner.of(os.getpid())

    def state_dir(self, settings: Settings) -> Path | None:
        """The folder of virtual clients' stores; None if executors keep them on their machines."""
        return local_state(settings)

    def job(self, part: Subtopology, client: Client, application: str) -> EpochJob:
        """The Spark job of a subtopology, placed on the client."""
        return SparkJob(self._session, part, client, application, self._in_tasks)

    def link(self, client: Client, application: str) -> StateLink:
        """By Spark jobs: a damaged store may end the process that opens it, which must not be the driver."""
        return OnExecutor(self._session, client, application, self.lost)

    def ended(self, error: Exception) -> SparkEndedError | None:
        """SparkEndedError, where the JVM is gone."""
        return SparkEndedError.of(error)
