"""The group of an application's clients: who they are, which tasks each owns, and the stores they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ..log.log import Log
from ..state.directory import StateDirectory
from ..tasks.task_id import TaskId
from ..tasks.task_manager import TaskManager
from ..topology import Settings, Subtopology, Topology
from .clients import Client, clients_of
from .committed import Committed
from .job import EpochJob
from .restorer import LocalRestorer
from .units import Unit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Group:
    """Holds the clients' state directories from start to close: one process at a time works on an application."""

    def __init__(
        self, session: SparkSession, topology: Topology, settings: Settings, log: Log, committed: Committed
    ) -> None:
        self._session = session
        self._topology = topology
        self._settings = settings
        self._log = log
        self._committed = committed
        self._stack = ExitStack()
        self._managers: dict[str, TaskManager] = {}
        self.clients = clients_of(session, settings.clients)

    def __enter__(self) -> Self:
        """Lock the state directories. Raises LockError when another process has one."""
        with ExitStack() as stack:
            for client in self.clients:
                directory = StateDirectory(Path(self._settings.state_dir), client.name, self._topology.application)
                stack.enter_context(directory.locked())
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close what is open, apply nothing more, and let go of the directories."""
        with self._stack:
            for manager in self._managers.values():
                manager.shutdown(clean=False)
            self._managers = {}

    def start(self) -> tuple[list[Unit], int]:
        """Place the tasks and restore their stores; the units that run them, and how many tasks were restored."""
        assigned = self._assign()
        restored = 0
        parts = {part.number: part for part in self._topology.subtopologies}
        for client in self.clients:
            restorer = LocalRestorer(
                client.name, self._settings, self._log, self._committed, self._topology.subtopologies
            )
            manager = TaskManager(
                client.name,
                restorer,
                lambda task: tuple(store.name for store in parts[task.subtopology].stores),
            )
            manager.handle_assignment([task for thread in assigned[client.name] for task in thread])
            while not manager.try_to_complete_restoration():
                pass
            self._managers[client.name] = manager
            restored += sum(bool(task.stores) for task in manager.tasks.values())
        units = [
            self._unit(part, client, assigned[client.name])
            for part in self._topology.subtopologies
            for client in self.clients
        ]
        return [unit for unit in units if unit.partitions], restored

    def close(self) -> None:
        """Close all tasks clean: their stores hold everything that is committed."""
        for manager in self._managers.values():
            manager.shutdown(clean=True)
        self._managers = {}

    @property
    def assignment(self) -> dict[str, tuple[str, ...]]:
        """Client -> ids of its tasks."""
        return {name: tuple(map(str, manager.tasks)) for name, manager in self._managers.items()}

    def _unit(self, part: Subtopology, client: Client, threads: Sequence[Sequence[TaskId]]) -> Unit:
        partitions = tuple(
            tuple(task.partition for task in thread if task.subtopology == part.number) for thread in threads
        )
        job = EpochJob(self._session, part, client, self._topology.application)
        tasks = self._managers[client.name].tasks
        applied = {
            task.partition: dict(tasks[task].positions)
            for thread in threads
            for task in thread
            if task.subtopology == part.number
        }
        return Unit(part, client, partitions, job, applied)

    def _assign(self) -> Mapping[str, tuple[tuple[TaskId, ...], ...]]:
        """Client -> the tasks of each of its threads."""
        tasks = [
            TaskId(part.number, partition, part.name)
            for part in self._topology.subtopologies
            for partition in range(part.partitions)
        ]
        slots = [(client.name, thread) for client in self.clients for thread in range(client.threads)]
        by_slot: dict[tuple[str, int], list[TaskId]] = {slot: [] for slot in slots}
        for number, task in enumerate(tasks):
            by_slot[slots[number % len(slots)]].append(task)
        return {
            client.name: tuple(tuple(by_slot[client.name, thread]) for thread in range(client.threads))
            for client in self.clients
        }
