"""The group of an application's clients, and its rebalances."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Any, Self

from ...errors import HeadwaterError
from ..chosen_plugins import ChosenPlugins
from ..ir.topology import Settings, Topology
from ..log.state import LogState
from ..placing.assigned import Assigned
from ..placing.place import Client, ClientLostError, place
from ..progress.committed import Committed
from ..progress.committer import Committer
from ..state.directory import StateDirectory, take_over_renamed
from ..state.process_file import Owner, ProcessFile
from ..task_id import TaskId
from ..tasks.errors import TaskCorruptedError, TaskMigratedError
from ..timed_parts import wall_ms
from .client_events import ClientJoined, ClientLost, ClientRefused
from .cluster import Cluster
from .epochs import EpochCommits
from .errors import DamagedAgainError, NoClientsError
from .events import Observer, Observers
from .joining import Joining, Newcomer, for_each
from .member import GroupMember


class ClientDirectories(AbstractContextManager["ClientDirectories"]):
    """Locks on the state directories of virtual clients, one per client, while an application runs.

    Executors lock their directories on their own machines. `own`: the state of the application; if it was renamed, its
    directories are renamed too. `owner`: the process that owns the stores; None, where the system does not tell: then
    nothing is locked.
    """

    def __init__(self, state_dir: Path, own: LogState, owner: Owner | None) -> None:
        self._state_dir = state_dir
        self._own = own
        self._owner = owner
        self._locks: dict[str, ExitStack] = {}

    def __exit__(self, *_: object) -> None:
        """Release all directories."""
        for lock in self._locks.values():
            lock.close()
        self._locks = {}

    def lock(self, client: Client) -> None:
        """Lock a client's directory, after processes of a dead driver have left it.

        Raises LockError if another process has it.
        """
        if client.executor is None and self._owner is not None:
            own = self._own
            take_over_renamed(self._state_dir, own.application, own.former, own.incarnation, client.folder)
            directory = StateDirectory(self._state_dir, client.folder, own.application)
            with ExitStack() as stack:
                stack.enter_context(directory.lock())
                ProcessFile.take_over(directory.path, self._owner)
                self._locks[client.name] = stack.pop_all()

    def unlock(self, client: Client) -> None:
        """Release the directory of a lost client."""
        if (lock := self._locks.pop(client.name, None)) is not None:
            lock.close()


ALONE_SECONDS = 60.0
"""How long an application without clients waits for one."""

FOLLOWUP_SECONDS = 10.0
"""The least time before an assignment that the assignor has asked for, whatever time it asks for."""

MOST_AT_ONCE = 32
"""Clients that join or have a slice of a restore at once. The others wait for one of them."""

MOST_COPIES = 2
"""Clients that save a store snapshot to the log at once. One may take minutes, and no other work waits for it."""

MOST_DAMAGES = 3
"""The number of damages in a row after which a task stops: a broken disk may damage everything that is written to it.
"""


class Group:
    """The members of an application's group, their tasks, and the moves of tasks. Used from the loop's thread.

    A rebalance has two steps, as in Kafka Streams' cooperative protocol. First the tasks that leave a client are
    revoked; their open epochs are still committed. Then every client gets its new tasks. Tasks that stay are not
    touched.

    The group locks the state directories of virtual clients until it is closed. Executors have theirs on their own
    machines, behind a link. `assigned`: the newest assignment. `assignment`: the number of the last assignment that was
    carried out, which is the number of its commit.
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
        self._observer = observer or Observers()
        self._directories = ClientDirectories(Path(settings.state_dir), committed.own, cluster.owner())
        self._joining = Joining(cluster, topology, settings, committed, self._observer)
        self._stack = ExitStack()
        self._pool: ThreadPoolExecutor
        self._copying: ThreadPoolExecutor
        self._alone_since: float | None = None
        self._followup_at: float | None = None
        self._damages: dict[TaskId, int] = {}
        self._changed = False
        self.assigned = Assigned(topology.assignment.assignor.name)
        self.assignment = 0
        self.members: dict[str, GroupMember] = {}
        self._clients: tuple[Client, ...] = ()
        self._refused: set[str] = set()
        self._joining_clients: dict[str, Future[Newcomer]] = {}

    def __enter__(self) -> Self:
        """Lock the state directories of virtual clients, after processes of a dead driver have left them.

        Raises LockError if another process has one of them.
        """
        with ExitStack() as stack:  # releases the locked directories if another process has one
            stack.enter_context(self._directories)
            self._pool = stack.enter_context(
                ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix=f"{self._topology.application}/restore")
            )
            self._copying = ThreadPoolExecutor(
                MOST_COPIES, thread_name_prefix=f"{self._topology.application}/snapshots"
            )
            stack.callback(self._copying.shutdown, wait=False, cancel_futures=True)
            self._clients = self._cluster.clients(self._settings.clients)
            for client in self._clients:
                self._directories.lock(client)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Close all tasks without applying anything more, and release the directories."""
        with self._stack:
            for member in self.members.values():
                with suppress(Exception):  # the error that has ended the run is reported already
                    member.reader.wait()
                    member.tasks.shutdown(clean=False)
            self.members = {}

    def join(self, incarnation: str, commits: EpochCommits) -> None:
        """Let all clients join: every client locks its state directory and reports its stores.

        `incarnation`: of the application; copies of another one are removed. `commits`: commits the tasks. Raises
        ClientLostError, StateJobError, StateError, SharedStateError.
        """
        self._joining.begin(incarnation, commits, self._pool.submit, self._copying.submit)
        for member in self._joining.join(self._clients):
            self.members[member.client.name] = member

    def place(self) -> Assigned:
        """Ask the assignor for an assignment of the tasks to the members."""
        assignor = self._plugins.assignor(self._topology.assignment.assignor)
        members = [member.member for member in self.members.values()]
        self._changed = False
        now, clock_ms = time.monotonic(), wall_ms()
        self.assigned = place(self._topology, members, self._committed.own, assignor)
        deadline = self.assigned.followup_deadline
        # From here on by the monotonic clock.
        self._followup_at = None if deadline is None else now + max(FOLLOWUP_SECONDS, (deadline - clock_ms) / 1000)
        return self.assigned

    def watch(self) -> bool:
        """Detect lost and new clients. Whether a new assignment is needed.

        Raises NoClientsError after ALONE_SECONDS without a client.
        """
        lost = [member for member in self.members.values() if self._cluster.lost(member.client)]
        for member in lost:
            self.lose(member)
        new = [client for client in self._cluster.present(self._settings.clients) if self._is_new(client)]
        joined = [client for client in new if self._joins(client)]
        for name in self._joining_clients.keys() - {client.name for client in new}:  # it is lost again
            if self._joining_clients[name].done():
                del self._joining_clients[name]
        if self.members:
            self._alone_since = None
        else:
            self._alone_since = self._alone_since or time.monotonic()
            if time.monotonic() - self._alone_since > ALONE_SECONDS:
                raise NoClientsError(self._topology.application, ALONE_SECONDS)
        self._changed = self._changed or bool(joined)
        return bool(self.members) and (self._changed or self._followup_due())

    def lose(self, member: GroupMember) -> None:
        """Remove a lost client. The uncommitted work of its tasks is lost too."""
        if self.members.pop(member.client.name, None) is not None:
            self._changed = True
            member.tasks.handle_lost_all()
            if member.saver is not None:
                member.saver.cancel()
            self._directories.unlock(member.client)
            self._joining.fence(member.client)
            silent = self._cluster.silent(member.client)
            self._observer.on(ClientLost(self._topology.application, member.client.name, silent))

    def leaving(self, assigned: Assigned) -> dict[str, set[TaskId]]:
        """Client -> active tasks that an assignment revokes from it."""
        return {
            name: leaving
            for name, member in self.members.items()
            if (leaving := {task.id for task in member.tasks.active} - set(assigned.active.get(name, ())))
        }

    def carried_out(self, assigned: Assigned) -> bool:
        """Whether all members have their tasks. A client that was lost and has joined again has none."""
        return all(
            {task.id for task in member.tasks.active} == set(assigned.active.get(name, ()))
            for name, member in self.members.items()
        )

    def revoke(self, leaving: dict[str, set[TaskId]]) -> None:
        """Suspend revoked tasks."""
        for name, tasks in leaving.items():
            if name in self.members:
                self.members[name].tasks.handle_revocation(tasks)

    def assign(self, assigned: Assigned, number: int) -> None:
        """Give all members their tasks; revoked ones are closed first. `number`: of the assignment's commit."""
        self.assignment = number
        for name, member in self.members.items():
            active, standby = assigned.active.get(name, ()), assigned.standby.get(name, ())
            member.tasks.handle_rebalance_start()
            try:
                member.tasks.handle_assignment(active, standby, number)
            except ClientLostError:
                continue  # `watch` detects it
            except (TaskCorruptedError, TaskMigratedError):
                # Of revoked tasks, which are closed dirty by now. The new ones remain to be assigned.
                member.tasks.handle_assignment(active, standby, number)
            finally:
                member.tasks.handle_rebalance_complete()

    def advance(self) -> bool:
        """Advance restores by a slice, and start restored tasks. Whether all tasks run and no store snapshot is due.

        Raises StateError, StateJobError, RestoreStalledError, DamagedAgainError, FencedError.
        """
        done = bool(self.members)
        for member in list(self.members.values()):
            try:
                done = member.tasks.try_to_complete_restoration() and done
                done = member.saved() and done
                member.clean()
            except TaskCorruptedError as error:
                done = False
                self.recover(member, error.tasks, error)
            except ClientLostError:
                done = False  # `watch` detects it
        return done

    def slices(self) -> list[Future[Any]]:
        """Running slices of restores, and running saves of snapshots."""
        restoring = [member.reader.slice for member in self.members.values()]
        saving = [member.saver.working for member in self.members.values() if member.saver is not None]
        return [future for future in (*restoring, *saving) if future is not None]

    def recover(self, member: GroupMember, tasks: Iterable[TaskId], error: TaskCorruptedError) -> None:
        """Restart tasks with damaged stores.

        Raises DamagedAgainError for the first task with MOST_DAMAGES in a row; then no task is restarted.
        """
        corrupted = sorted(tasks)
        for task in corrupted:
            self._damages[task] = self._damages.get(task, 0) + 1
            if self._damages[task] >= MOST_DAMAGES:
                key = task.key(self._topology.application)
                name, times = member.client.name, self._damages[task]
                raise DamagedAgainError(key, name, times, error.reason, error.way_out) from error
        member.tasks.handle_corruption(corrupted)

    def went_well(self, tasks: Iterable[TaskId]) -> None:
        """Reset the damage counts of tasks that have committed."""
        for task in tasks:
            self._damages.pop(task, None)

    def close(self) -> None:
        """Close all tasks clean, with their stores at the committed positions."""
        members, self.members = list(self.members.values()), {}
        for member in members:
            member.reader.wait()
            if member.saver is not None:
                member.saver.cancel()
            member.cleaner.finish()
        for_each(members, self._closed)

    def _closed(self, member: GroupMember) -> None:
        """Close the tasks of a client. A client that is lost by now has no uncommitted work."""
        try:
            member.tasks.shutdown(clean=True)
            # After all stores are closed. Without this the next run reads all rows first, see `ProcessFile`.
            member.release()
        except ClientLostError:
            self._observer.on(ClientLost(self._topology.application, member.client.name))

    def _newcomer(self, client: Client) -> Newcomer | None:
        """A new client that has locked its directory; None while it does.

        The loop does not wait for an executor, whose first worker takes seconds to start. Raises ClientLostError,
        HeadwaterError.
        """
        if client.executor is None:
            self._directories.lock(client)
            return self._joining.look(client)
        joining = self._joining_clients.get(client.name)
        if joining is None:
            self._joining_clients[client.name] = self._pool.submit(self._joining.look, client)
        if joining is None or not joining.done():
            return None
        return self._joining_clients.pop(client.name).result()

    def _joins(self, client: Client) -> bool:
        """Whether a new client has become a member. One that cannot is reported once, and ignored from then on."""
        application = self._topology.application
        try:
            newcomer = self._newcomer(client)
            if newcomer is None:
                return False
            here = [member.client for member in self.members.values()]
            (self.members[client.name],) = self._joining.admit([newcomer], here)
        except ClientLostError:  # it is lost again
            self._directories.unlock(client)
            return False
        except HeadwaterError as error:
            self._directories.unlock(client)
            self._refused.add(client.name)
            self._observer.on(ClientRefused(application, client.name, error.message))
            return False
        self._observer.on(ClientJoined(application, client.name))
        return True

    def _followup_due(self) -> bool:
        return self._followup_at is not None and time.monotonic() >= self._followup_at

    def _is_new(self, client: Client) -> bool:
        seen_before = client.name in self.members or client.name in self._refused
        return not seen_before and not self._cluster.lost(client)


class Rebalancer:
    """Carries out rebalances while an application runs. Used from the loop's thread.

    `placed`: called with every new assignment.
    """

    def __init__(self, group: Group, committer: Committer, placed: Callable[[Assigned], None]) -> None:
        self._group = group
        self._committer = committer
        self._placed = placed
        self._next: Assigned | None = None
        self._leaving: dict[str, set[TaskId]] = {}

    @property
    def in_progress(self) -> bool:
        """Whether a rebalance is in progress."""
        return self._next is not None

    def leaves(self, client: str, task: TaskId) -> bool:
        """Whether a task is being revoked from a client, and starts no more epochs there."""
        return task in self._leaving.get(client, ())

    def advance(self, open_tasks: Callable[[str], Collection[TaskId]]) -> None:
        """Advance as far as possible without waiting. `open_tasks`: the tasks of a client with an open epoch."""
        if self._group.watch():
            before = self._group.assigned
            placed = self._group.place()
            if self._next is not None or placed.differs(before) or not self._group.carried_out(placed):
                self._next, self._leaving = placed, self._group.leaving(placed)
        if self._next is None:
            return
        if any(tasks & set(open_tasks(client)) for client, tasks in self._leaving.items()):
            return  # their open epochs are committed first
        assigned, leaving = self._next, self._leaving
        self._next, self._leaving = None, {}
        self._group.revoke(leaving)
        number = self._committer.assign(assigned.to_json())
        self._group.assign(assigned, number)
        self._placed(assigned)
