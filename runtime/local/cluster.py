"""Clients in this process, as the cluster of a run: see `driver.cluster.Cluster`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..driver.cluster import EpochJob
from ..placing.client import Client
from ..restore.links import InDriver, StateLink
from ..state.directories.process_file import Owner
from ..topology import Settings, Subtopology
from .engine import Step
from .job import LocalJob


class LocalCluster:
    """Virtual clients `client-1`, `client-2` and so on with `threads` threads each, and with stores on this machine.

    `expressions`: functions in place of SQL steps, see `LocalEngine`.
    """

    def __init__(self, threads: int = 1, expressions: Mapping[str, Step] | None = None) -> None:
        self._threads = threads
        self._expressions = expressions or {}
        self._lost: set[str] = set()

    def lose(self, client: str) -> None:
        """Make the client with this name count as gone from now on."""
        self._lost.add(client)

    def find(self, client: str) -> None:
        """A client that was lost is there again, with what it has on disk."""
        self._lost.discard(client)

    def clients(self, count: int) -> tuple[Client, ...]:
        """The first `count` clients, without those that are lost."""
        names = [f"client-{number}" for number in range(1, count + 1)]
        return tuple(Client(name, self._threads, folder=name) for name in names if name not in self._lost)

    def present(self, count: int) -> tuple[Client, ...]:
        """Those that are not lost."""
        return self.clients(count)

    def lost(self, client: Client) -> bool:
        """Whether `lose` was called for it."""
        return client.name in self._lost

    def silent(self, client: Client) -> float | None:  # noqa: ARG002
        """None: what works in this process is never silent, however long it takes."""
        return None

    def owner(self) -> Owner | None:
        """This process."""
        return Owner.of(os.getpid())

    def state_dir(self, settings: Settings) -> Path | None:
        """The state directory of the settings."""
        return Path(settings.state_dir)

    def job(self, part: Subtopology, client: Client, application: str) -> EpochJob:  # noqa: ARG002
        """The subtopology's steps in this process."""
        return LocalJob(part, client, self._expressions)

    def link(self, client: Client, application: str) -> StateLink:  # noqa: ARG002
        """The link into this process."""
        return InDriver()

    def ended(self, error: Exception) -> None:
        """None: this process is running."""
