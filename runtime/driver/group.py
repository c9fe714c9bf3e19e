"""The group of an application's clients: who is a member, which tasks each has, and how tasks move between them.

A rebalance has two steps, as in Kafka Streams' cooperative protocol. First the tasks that leave a client are revoked:
an epoch that is open is still committed. Then each client is given its new tasks. Tasks that stay are not touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from ..chosen_plugins import ChosenPlugins, origin_of
from ..placing.assigned import Assigned
from ..placing.client import Client, ClientLostError
from ..placing.hosts import Racks
from ..placing.place import Member, place
from ..progress.committed import Committed
from ..progress.planner import Planner
from ..restore.linked_stores import StateError
from ..restore.links import StateLink
from ..restore.requests import StateLocation, StateRequest, StoreAnswer
from ..state.directory import StateDirectory
from ..state.process_file import Owner, ProcessFile
from ..tasks.errors import TaskCorruptedError
from ..tasks.task_id import StoreId, TaskId
from ..topology import Settings, Topology
from .cluster import Cluster
from .errors import NoClientsError, SharedStateError
from .events import ClientJoined, ClientLost, Observer, Silent, StoreDamaged, StoreLost, StoresStrange
from .member import Commit, GroupMember
from .restore_events import RestoreEvents

Given = TypeVar("Given")
Found = TypeVar("Found")

ALONE_SECONDS = 60.0
"""How long an application waits for a client, once it has lost all."""

FOLLOWUP_SECONDS = 10.0
"""The least time between two assignments of which the second was asked for by the assignor, whatever it asks for."""

MOST_AT_ONCE = 32
"""Clients whose stores are worked on at once. The others wait for a slice of another client to end."""

MOST_RECOVERIES = 5
"""How often in a row the stores of a task are restored: a disk may damage whatever is written to it."""


class Group:
    """Owns the clients' state directories until it is closed. Touches those of virtual clients only: what executors
    have is on their own machines, and asked for by way of a link to each. Used from the loop's thread.

    `assigned`: who is to have which tasks, since they were placed last.
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
        self._commits: Commit
        self._observer = observer or Silent()
        self._planner = Planner(committed, settings.max_records)
        self._stack = ExitStack()
        self._locks: dict[str, ExitStack] = {}
        self._racks = Racks(settings)
        self._owner: Owner | None = None
        self._pool: ThreadPoolExecutor
        self._alone_since: float | None = None
        self._placed_at = float("-inf")
        self._recoveries: dict[TaskId, int] = {}
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
        self.members: dict[str, GroupMember] = {}
        self._clients: tuple[Client, ...] = ()

    def __enter__(self) -> Self:
        """Lock the state directories of virtual clients, and wait until nobody works on them who was started by a
        driver that is gone.

        Raises LockError when another process has one.
        """
        self._owner = self._cluster.owner()
        with ExitStack() as stack:  # If one directory is locked by another process, those before it are released again.
            self._pool = stack.enter_context(
                ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix=f"{self._topology.application}/restore")
            )
            self._clients = self._cluster.clients(self._settings.clients)
            stack.callback(self._unlock_all)
            for client in self._clients:
                self._lock(client)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close what is open, apply nothing more, and let go of the directories."""
        with self._stack:
            for member in self.members.values():
                with suppress(Exception):  # what ended the run is told already
                    member.reader.wait()
                    member.tasks.shutdown(clean=False)
            self.members = {}

    def join(self, incarnation: str, commits: Commit) -> None:
        """Have the clients join: each takes its state directory, and tells what is there.

        `incarnation`: of the application; copies of another one are removed. `commits`: of its tasks. Raises
        ClientLostError, StateJobError, StateError, SharedStateError.
        """
        self._commits = commits
        self._location = replace(self._location, incarnation=incarnation)
        self._join(self._clients)

    def place(self) -> Assigned:
        """Have the assignor place the tasks on the members."""
        assignor = self._plugins.assignor(self._topology.assignment.assignor)
        members = [member.member for member in self.members.values()]
        self._placed_at = time.monotonic()
        self.assigned = place(self._topology, members, self._committed.own, assignor)
        return self.assigned

    def watch(self) -> bool:
        """Notice clients that are gone or have come; whether the tasks have to be placed again.

        Raises NoClientsError where there has been none for long.
        """
        gone = [member for member in self.members.values() if self._cluster.lost(member.client)]
        for member in gone:
            self.lose(member)
        new = [client for client in self._cluster.present(self._settings.clients) if self._is_new(client)]
        for client in new:
            try:
                self._lock(client)
                self._join([client])
            except ClientLostError:  # it came and went
                new.remove(client)
            else:
                self._observer.on(ClientJoined(self._topology.application, client.name))
        if self.members:
            self._alone_since = None
        else:
            self._alone_since = self._alone_since or time.monotonic()
            if time.monotonic() - self._alone_since > ALONE_SECONDS:
                raise NoClientsError(self._topology.application, ALONE_SECONDS)
        return bool(self.members) and (bool(gone) or bool(new) or self._followup_due())

    def lose(self, member: GroupMember) -> None:
        """A client is gone: what its tasks have not committed does not exist."""
        if self.members.pop(member.client.name, None) is not None:
            member.tasks.handle_lost_all()
            self._locks.pop(member.client.name, ExitStack()).close()
            self._observer.on(ClientLost(self._topology.application, member.client.name))

    def leaving(self, assigned: Assigned) -> dict[str, set[TaskId]]:
        """The active tasks that each client has to give up for an assignment."""
        return {
            name: found
            for name, member in self.members.items()
            if (found := {task.id for task in member.tasks.active} - set(assigned.active.get(name, ())))
        }

    def revoke(self, leaving: dict[str, set[TaskId]]) -> None:
        """Suspend tasks that leave their clients."""
        for name, tasks in leaving.items():
            if name in self.members:
                self.members[name].tasks.handle_revocation(tasks)

    def assign(self, assigned: Assigned) -> None:
        """Give all members their tasks; those that leave a client are closed there first."""
        for name, member in self.members.items():
            member.tasks.handle_rebalance_start()
            try:
                member.tasks.handle_assignment(assigned.active.get(name, ()), assigned.standby.get(name, ()))
            except ClientLostError:
                continue  # `watch` finds it gone
            finally:
                member.tasks.handle_rebalance_complete()

    def advance(self) -> bool:
        """Bring stores forward by a step, and run the tasks that are restored; whether all tasks run.

        Raises StateError, StateJobError, RestoreStalledError; TaskCorruptedError where a store is damaged again and
        again.
        """
        done = bool(self.members)
        for member in list(self.members.values()):
            try:
                done = member.tasks.try_to_complete_restoration() and done
            except TaskCorruptedError as error:
                done = False
                self.recover(member, error.tasks, error)
            except ClientLostError:
                done = False  # `watch` finds it gone
        return done

    def slices(self) -> list[Future[dict[StoreId, Exception]]]:
        """What is being restored just now."""
        return [member.reader.slice for member in self.members.values() if member.reader.slice is not None]

    def recover(self, member: GroupMember, tasks: Iterable[TaskId], error: TaskCorruptedError) -> None:
        """Begin tasks again whose stores are damaged. Raises `error` when that has been so too often."""
        corrupted = set(tasks)
        for task in corrupted:
            self._recoveries[task] = self._recoveries.get(task, 0) + 1
            if self._recoveries[task] > MOST_RECOVERIES:
                raise error
        member.tasks.handle_corruption(corrupted)

    def went_well(self, tasks: Iterable[TaskId]) -> None:
        """Tasks have committed: damage that comes later is another one."""
        for task in tasks:
            self._recoveries.pop(task, None)

    def close(self) -> None:
        """Close all tasks clean: their stores hold what is committed."""
        members, self.members = list(self.members.values()), {}
        for member in members:
            member.reader.wait()
        self._for_each(members, lambda member: member.tasks.shutdown(clean=True))
        # After all stores are closed. Without this note the next run reads all rows first, see `ProcessFile`.
        self._for_each(members, lambda member: member.release())

    def _join(self, clients: Sequence[Client]) -> None:
        links = {client.name: self._cluster.link(client, self._topology.application) for client in clients}
        found = self._for_each(clients, lambda client: self._member(client, links[client.name]))
        self._refuse_shared([*(member.client for member in self.members.values()), *(each.client for each in found)])
        for member in found:
            self.members[member.client.name] = GroupMember(
                member,
                links[member.client.name],
                self._location,
                self._topology,
                self._planner,
                self._commits,
                self._pool.submit,
                partial(self._tell, member.client.name),
                RestoreEvents(self._topology.application, member.client.name, self._observer),
            )

    def _followup_due(self) -> bool:
        deadline = self.assigned.followup_deadline
        if deadline is None or time.time_ns() // 1_000_000 < deadline:
            return False
        return time.monotonic() >= self._placed_at + FOLLOWUP_SECONDS

    def _is_new(self, client: Client) -> bool:
        return client.name not in self.members and not self._cluster.lost(client)

    def _lock(self, client: Client) -> None:
        if client.executor is None and self._owner is not None:
            state_dir = Path(self._settings.state_dir)
            directory = StateDirectory(state_dir, client.folder, self._topology.application)
            lock = self._locks.setdefault(client.name, ExitStack())
            lock.enter_context(directory.locked())
            ProcessFile.take_over(directory.path, self._owner)

    def _unlock_all(self) -> None:
        for lock in self._locks.values():
            lock.close()
        self._locks = {}

    def _member(self, client: Client, link: StateLink) -> Member:
        """A client as it finds itself: its folder, its process id, its stores."""
        location = replace(self._location, folder=client.folder)
        (answer,) = link.ask([StateRequest("hold", location)])
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

    def _tell(self, client: str, answer: StoreAnswer) -> None:
        """Of a store that was damaged, or has lost its rows."""
        at = self._topology.application, client, answer.store, answer.partition
        if answer.damage:
            self._observer.on(StoreDamaged(*at, answer.damage))
        if answer.lost:
            self._observer.on(StoreLost(*at))

    def _refuse_shared(self, clients: Sequence[Client]) -> None:
        by_id: dict[str, list[Client]] = {}
        for client in clients:
            by_id.setdefault(client.process_id, []).append(client)
        for shared in by_id.values():
            if len(shared) > 1:
                path = f"{self._settings.state_dir}/{shared[0].folder}"
                raise SharedStateError(self._topology.application, [client.name for client in shared], path)

    def _for_each(self, given: Sequence[Given], work: Callable[[Given], Found]) -> list[Found]:
        """Do the same for all clients at once: most of it is waiting for them."""
        with ThreadPoolExecutor(max(1, len(given))) as pool:
            return list(pool.map(work, given))
