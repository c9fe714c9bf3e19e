"""The group of an application's clients: who they are, which tasks each owns, and the stores they hold."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ..assignment.threads import deal_to_threads
from ..log.log import Log
from ..state.directory import StateDirectory
from ..state.process_file import ProcessFile
from ..tasks.errors import TaskCorruptedError
from ..tasks.task_id import TaskId
from ..tasks.task_manager import TaskManager
from ..topology import Settings, Subtopology, Topology
from .clients import Client, clients_of, driver_jvm
from .committed import Committed
from .job import EpochJob
from .placing import place
from .planner import Planner
from .plugged import Plugged
from .restorer import LocalRestorer
from .units import Unit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Group:
    """Holds the clients' state directories from start to close: one process at a time works on an application."""

    def __init__(
        self,
        session: SparkSession,
        topology: Topology,
        settings: Settings,
        log: Log,
        committed: Committed,
        plugged: Plugged,
    ) -> None:
        self._session = session
        self._topology = topology
        self._log = log
        self._plugged = plugged
        self._planner = Planner(committed, settings.max_records)
        self._stack = ExitStack()
        self._managers: dict[str, TaskManager] = {}
        self.clients = clients_of(session, settings.clients)
        self._directories = {
            client.name: StateDirectory(Path(settings.state_dir), client.name, topology.application)
            for client in self.clients
        }

    def __enter__(self) -> Self:
        """Lock the state directories, and wait until nobody works on them who was started by a driver that is gone.

        Raises LockError when another process has one.
        """
        owner = driver_jvm(self._session)
        with ExitStack() as stack:
            for client in self.clients:
                directory = self._directories[client.name]
                stack.enter_context(directory.locked())
                if client.executor is None and owner is not None:
                    ProcessFile.take_over(directory.path, owner)
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
        """Place the tasks and restore their stores; the units that run them, and how many tasks have state."""
        assigned = place(self._topology, self.clients, self._directories, self._planner, self._plugged)
        for client in self.clients:
            self._managers[client.name] = self._manager(client, assigned[client.name])
        restored = sum(bool(task.stores) for manager in self._managers.values() for task in manager.tasks.values())
        units = [
            self._unit(part, client, deal_to_threads(assigned[client.name], client.threads))
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

    def _manager(self, client: Client, tasks: Sequence[TaskId]) -> TaskManager:
        """A client's tasks, restored. A store that cannot be brought forward is begun anew."""
        parts = {part.number: part for part in self._topology.subtopologies}
        restorer = LocalRestorer(
            self._directories[client.name],
            self._planner,
            self._log,
            self._plugged,
            self._plugged.restore_strategy(self._topology.restore),
            self._topology.subtopologies,
        )
        manager = TaskManager(
            client.name, restorer, lambda task: tuple(store.name for store in parts[task.subtopology].stores)
        )
        manager.handle_assignment(tasks)
        restored = False
        while not restored:
            try:
                restored = manager.try_to_complete_restoration()
            except TaskCorruptedError as error:
                manager.handle_corruption(error.tasks)
        return manager

    def _unit(self, part: Subtopology, client: Client, threads: Sequence[Sequence[TaskId]]) -> Unit:
        mine = [[task for task in thread if task.subtopology == part.number] for thread in threads]
        tasks = self._managers[client.name].tasks
        return Unit(
            part,
            client,
            tuple(tuple(task.partition for task in thread) for thread in mine),
            EpochJob(self._session, part, client, self._topology.application),
            {task.partition: dict(tasks[task].positions) for thread in mine for task in thread},
        )
