"""The group of an application's clients: which clients there are, the tasks that each owns, and their stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from ..assignment.threads import deal_to_threads
from ..chosen_plugins import ChosenPlugins, origin_of
from ..placing.assigned import Assigned
from ..placing.client import Client
from ..placing.hosts import Racks
from ..placing.place import Member, place
from ..progress.committed import Committed
from ..progress.planner import Planner
from ..restore.links import StateLink
from ..restore.requests import StateLocation, StateRequest, StoreAnswer
from ..restore.restorer import StateError, StoreRestorer
from ..state.directory import StateDirectory
from ..state.process_file import ProcessFile
from ..tasks.errors import TaskCorruptedError
from ..tasks.task_id import StoreId, TaskId
from ..tasks.task_manager import TaskManager
from ..topology import Settings, Subtopology, Topology
from .cluster import Cluster
from .errors import SharedStateError
from .events import Observer, Silent, StoreDamaged, StoreLost, StoresStrange
from .units import Unit

Given = TypeVar("Given")
Found = TypeVar("Found")


class Group:
    """Owns the clients' state directories from start to close.

    It opens only those of virtual clients. Executors have theirs on their own machines, which a link to each reaches.
    `assigned`: the tasks of each client, once they are placed. Nothing acts on its `followup_deadline` yet.
    """

    def __init__(
        self,
        cluster: Cluster,
        topology: Topology,
        settings: Settings,
        committed: Committed,
        plugins: ChosenPlugins,
        observer: Observer | None = None,
    ) -> None:
        self._cluster = cluster
        self._topology = topology
        self._settings = settings
        self._committed = committed
        self._plugins = plugins
        self._observer = observer or Silent()
        self._planner = Planner(committed, settings.max_records)
        self._stack = ExitStack()
        self._members: list[Member] = []
        self._restorers: dict[str, StoreRestorer] = {}
        self._managers: dict[str, TaskManager] = {}
        self._units: list[Unit] = []
        self._racks = Racks(settings)
        self._location = StateLocation(
            settings.state_dir,
            topology.application,
            log=(settings.log.name, settings.log.options),
            log_identity=committed.log.identity(),
            plugins=origin_of(settings),
            strategy=(topology.restore.name, topology.restore.options),
            stores=tuple(store for part in topology.subtopologies for store in part.stores),
            tables=tuple(table.store for part in topology.subtopologies for table in part.global_tables),
        )
        self.assigned = Assigned(topology.assignment.assignor.name)
        self.clients = cluster.clients(settings.clients)
        self._links: dict[str, StateLink] = {
            client.name: cluster.link(client, topology.application) for client in self.clients
        }

    def __enter__(self) -> Self:
        """Lock the state directories of virtual clients, and wait for the end of workers of a driver that is gone.

        Raises LockError if another process has one of the directories.
        """
        owner = self._cluster.owner()
        with ExitStack() as stack:
            for client in self.clients:
                if client.executor is None and owner is not None:
                    state_dir = Path(self._settings.state_dir)
                    directory = StateDirectory(state_dir, client.folder, self._topology.application)
                    stack.enter_context(directory.locked())
                    ProcessFile.take_over(directory.path, owner)
            # If one directory is locked by another process, those before it are released again.
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close what is open without applying anything more, and release the directories."""
        with self._stack:
            for manager in self._managers.values():
                manager.shutdown(clean=False)
            self._managers = {}

    def place(self, incarnation: str) -> Assigned:
        """Ask the clients what they hold, and have the assignor place the tasks.

        `incarnation`: of the application; copies of another one are removed. Raises ClientLostError, StateJobError,
        StateError, SharedStateError.
        """
        self._location = replace(self._location, incarnation=incarnation)
        self._members = self._for_each(self.clients, self._member)
        # Now with the folders and process ids that were found on their disks.
        self.clients = tuple(member.client for member in self._members)
        self._refuse_shared()
        assignor = self._plugins.assignor(self._topology.assignment.assignor)
        self.assigned = place(self._topology, self._members, self._committed.own, assignor)
        return self.assigned

    def start(self) -> tuple[list[Unit], int]:
        """Restore the stores of the placed tasks. Returns the units that run them, and how many tasks have state."""
        managers = self._for_each(self._members, self._manager)
        self._managers = {client.name: manager for client, manager in zip(self.clients, managers, strict=True)}
        restored = sum(bool(task.stores) for manager in managers for task in manager.tasks.values())
        units = [
            self._unit(part, client, deal_to_threads(self.assigned.active[client.name], client.threads))
            for part in self._topology.subtopologies
            for client in self.clients
        ]
        self._units = [unit for unit in units if unit.partitions]
        return self._units, restored

    def recover(self, unit: Unit) -> None:
        """Restore the stores of a unit that were found damaged and wiped. Raises ClientLostError, StateError."""
        restorer = self._restorers[unit.client.name]
        tasks = [TaskId(unit.part.number, partition, unit.part.name) for partition in unit.partitions]
        for task, positions in restorer.recover(tasks).items():
            unit.applied[task.partition] = dict(positions)
        unit.held_globals.clear()  # the next epoch brings global tables forward itself

    def close(self) -> None:
        """Close all tasks cleanly: their stores then have everything that is committed."""
        for unit in self._units:
            for partition, applied in unit.applied.items():
                self._restorers[unit.client.name].note(partition, applied)
        managers, self._managers = list(self._managers.values()), {}
        self._for_each(managers, lambda manager: manager.shutdown(clean=True))
        # After all stores are closed. Without this note the next run reads all rows first, see `ProcessFile`.
        self._for_each(self.clients, self._release)

    def _member(self, client: Client) -> Member:
        """A client with what it finds on its disk: its folder, its process id, its stores."""
        location = replace(self._location, folder=client.folder)
        (answer,) = self._links[client.name].ask([StateRequest("hold", location)])
        if answer.failure is not None:
            raise StateError(client.name, answer.failure)
        if answer.strangers:
            self._observer.on(StoresStrange(self._topology.application, client.name, answer.strangers))
        for each in answer.stores:
            self._tell(client.name, each)
        return Member(
            replace(client, folder=answer.folder, process_id=answer.process_id),
            {StoreId(each.store, each.partition): each.position for each in answer.stores},
            self._racks.rack(client),
            self._racks.tags(client),
        )

    def _release(self, client: Client) -> None:
        """Note on the client's disk that all of its stores are closed."""
        location = replace(self._location, folder=client.folder, process_id=client.process_id)
        (answer,) = self._links[client.name].ask([StateRequest("release", location)])
        if answer.failure is not None:
            raise StateError(client.name, answer.failure)

    def _tell(self, client: str, answer: StoreAnswer) -> None:
        """Report a store that was damaged or has lost its rows."""
        place = self._topology.application, client, answer.store, answer.partition
        if answer.damage:
            self._observer.on(StoreDamaged(*place, answer.damage))
        if answer.lost:
            self._observer.on(StoreLost(*place))

    def _refuse_shared(self) -> None:
        by_id: dict[str, list[Client]] = {}
        for client in self.clients:
            by_id.setdefault(client.process_id, []).append(client)
        for shared in by_id.values():
            if len(shared) > 1:
                path = f"{self._settings.state_dir}/{shared[0].folder}"
                raise SharedStateError(self._topology.application, [client.name for client in shared], path)

    def _manager(self, member: Member) -> TaskManager:
        """A client's tasks, restored. A store that cannot be brought forward is wiped and restored from nothing."""
        client, parts = member.client, {part.number: part for part in self._topology.subtopologies}
        location = replace(self._location, folder=client.folder, process_id=client.process_id)
        restorer = StoreRestorer(
            client.name,
            self._links[client.name],
            location,
            self._planner,
            self._topology.subtopologies,
            member.held,
            partial(self._tell, client.name),
        )
        self._restorers[client.name] = restorer
        manager = TaskManager(
            client.name, restorer, lambda task: tuple(store.name for store in parts[task.subtopology].stores)
        )
        manager.handle_assignment(self.assigned.active[client.name])
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
            self._cluster.job(part, client, self._topology.application),
            {task.partition: dict(tasks[task].positions) for thread in mine for task in thread},
        )

    def _for_each(self, given: Sequence[Given], work: Callable[[Given], Found]) -> list[Found]:
        """Do the same for all clients at once, because most of it is waiting for them."""
        with ThreadPoolExecutor(max(1, len(given))) as pool:
            return list(pool.map(work, given))
