"""The clients of a run, and rebalances."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
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
from .cluster import Cluster
from .epochs import EpochCommits
from .errors import DamagedAgainError, NoClientsError
from .events import ClientJoined, ClientLost, ClientRefused, Observer, Silent
from .joining import Joining, Newcomer, for_each
from .member import GroupMember

# The state directories of virtual clients, which this process holds while an application runs.


class ClientDirectories:
    """One lock for each client. An executor has its directory on its own machine, and is left alone here.

    `own`: the state of the application. If it was renamed, its directories are, too.
    `owner`: the process that works on the stores; nothing is locked where the system does not tell.
    """

    def __init__(self, state_dir: Path, own: LogState, owner: Owner | None) -> None:
        self._state_dir = state_dir
        self._own = own
        self._owner = owner
        self._locks: dict[str, ExitStack] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of all directories."""
        for lock in self._locks.values():
            lock.close()
        self._locks = {}

    def lock(self, client: Client) -> None:
        """Hold a client's directory, once nobody works on it who was started by a driver that is gone.

        Raises LockError when another process has it.
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
        """Let go of a client's directory: the client is gone."""
        if (lock := self._locks.pop(client.name, None)) is not None:
            lock.close()


# The group of an application's clients: who is a member, which tasks each has, and how tasks move between them.
#
# A rebalance has two steps, as in Kafka Streams' cooperative protocol. First the tasks that leave a client are revoked:
# an epoch that is open is still committed. Then each client is given its new tasks. Tasks that stay are not touched.

ALONE_SECONDS = 60.0
"""How long an application waits for a client, once it has lost all."""

FOLLOWUP_SECONDS = 10.0
"""The least time between two assignments of which the second was asked for by the assignor, whatever it asks for."""

MOST_AT_ONCE = 32
"""Clients whose stores are worked on at once. The others wait for a slice or a join of another client to end."""

MOST_COPIES = 2
"""Clients that have a store copied into the log at once. It may take minutes, and no other work waits for it."""

MOST_DAMAGES = 3
"""How often in a row the stores of a task are found damaged, until they are given up: a disk may damage whatever is
written to it."""


class Group:
    """Owns the clients' state directories until it is closed. Touches those of virtual clients only: what executors
    have is on their own machines, and asked for by way of a link to each. Used from the loop's thread.

    `assigned`: who is to have which tasks, since they were placed last. `assignment`: the number of the assignment that
    was carried out last, which is that of the commit that notes it.
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
        self._coming: dict[str, Future[Newcomer]] = {}

    def __enter__(self) -> Self:
        """Lock the state directories of virtual clients, and wait until nobody works on them who was started by a
        driver that is gone.

        Raises LockError when another process has one.
        """
        with ExitStack() as stack:  # If one directory is locked by another process, those before it are released again.
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

    def join(self, incarnation: str, commits: EpochCommits) -> None:
        """Have the clients join: each takes its state directory, and tells what is there.

        `incarnation`: of the application; copies of another one are removed. `commits`: of its tasks. Raises
        ClientLostError, StateJobError, StateError, SharedStateError.
        """
        self._joining.begin(incarnation, commits, self._pool.submit, self._copying.submit)
        for member in self._joining.join(self._clients):
            self.members[member.client.name] = member

    def place(self) -> Assigned:
        """Have the assignor place the tasks on the members."""
        assignor = self._plugins.assignor(self._topology.assignment.assignor)
        members = [member.member for member in self.members.values()]
        self._changed = False
        now, clock_ms = time.monotonic(), time.time_ns() // 1_000_000
        self.assigned = place(self._topology, members, self._committed.own, assignor)
        deadline = self.assigned.followup_deadline
        # From here on by a clock that nobody sets.
        self._followup_at = None if deadline is None else now + max(FOLLOWUP_SECONDS, (deadline - clock_ms) / 1000)
        return self.assigned

    def watch(self) -> bool:
        """Notice clients that are gone or have come; whether the tasks have to be placed again.

        Raises NoClientsError where there has been none for long.
        """
        gone = [member for member in self.members.values() if self._cluster.lost(member.client)]
        for member in gone:
            self.lose(member)
        new = [client for client in self._cluster.present(self._settings.clients) if self._is_new(client)]
        joined = [client for client in new if self._joins(client)]
        for name in self._coming.keys() - {client.name for client in new}:  # it is gone again
            if self._coming[name].done():
                del self._coming[name]
        if self.members:
            self._alone_since = None
        else:
            self._alone_since = self._alone_since or time.monotonic()
            if time.monotonic() - self._alone_since > ALONE_SECONDS:
                raise NoClientsError(self._topology.application, ALONE_SECONDS)
        self._changed = self._changed or bool(joined)
        return bool(self.members) and (self._changed or self._followup_due())

    def lose(self, member: GroupMember) -> None:
        """A client is gone: what its tasks have not committed does not exist."""
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
        """The active tasks that each client has to give up for an assignment."""
        return {
            name: found
            for name, member in self.members.items()
            if (found := {task.id for task in member.tasks.active} - set(assigned.active.get(name, ())))
        }

    def carried_out(self, assigned: Assigned) -> bool:
        """Whether all members have their tasks. One that was lost and found has none, whatever it had before."""
        return all(
            {task.id for task in member.tasks.active} == set(assigned.active.get(name, ()))
            for name, member in self.members.items()
        )

    def revoke(self, leaving: dict[str, set[TaskId]]) -> None:
        """Suspend tasks that leave their clients."""
        for name, tasks in leaving.items():
            if name in self.members:
                self.members[name].tasks.handle_revocation(tasks)

    def assign(self, assigned: Assigned, number: int) -> None:
        """Give all members their tasks; those that leave a client are closed there first. `number`: its commit's."""
        self.assignment = number
        for name, member in self.members.items():
            active, standby = assigned.active.get(name, ()), assigned.standby.get(name, ())
            member.tasks.handle_rebalance_start()
            try:
                member.tasks.handle_assignment(active, standby, number)
            except ClientLostError:
                continue  # `watch` finds it gone
            except (TaskCorruptedError, TaskMigratedError):
                # Of tasks that leave: they are closed by now, dirty. What remains is to begin with the new ones.
                member.tasks.handle_assignment(active, standby, number)
            finally:
                member.tasks.handle_rebalance_complete()

    def advance(self) -> bool:
        """Bring stores forward by a step, and run the tasks that are restored; whether all tasks run, and no snapshot
        of a store is due.

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
                done = False  # `watch` finds it gone
        return done

    def slices(self) -> list[Future[Any]]:
        """What is being restored and saved just now."""
        restoring = [member.reader.slice for member in self.members.values()]
        saving = [member.saver.working for member in self.members.values() if member.saver is not None]
        return [each for each in (*restoring, *saving) if each is not None]

    def recover(self, member: GroupMember, tasks: Iterable[TaskId], error: TaskCorruptedError) -> None:
        """Begin tasks again whose stores are damaged. Raises DamagedAgainError, of the first for which it is too often;
        then all of them are left as they are.
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
        """Tasks have committed: damage that comes later is another one."""
        for task in tasks:
            self._damages.pop(task, None)

    def close(self) -> None:
        """Close all tasks clean: their stores hold what is committed."""
        members, self.members = list(self.members.values()), {}
        for member in members:
            member.reader.wait()
            if member.saver is not None:
                member.saver.cancel()
            if member.cleaner is not None:
                member.cleaner.finish()
        for_each(members, self._closed)

    def _closed(self, member: GroupMember) -> None:
        """Close a client's tasks. One that is gone by now has nothing that is not committed."""
        try:
            member.tasks.shutdown(clean=True)
            # After all stores are closed. Without this note the next run reads all rows first, see `ProcessFile`.
            member.release()
        except ClientLostError:
            self._observer.on(ClientLost(self._topology.application, member.client.name))

    def _newcomer(self, client: Client) -> Newcomer | None:
        """A client that has come and taken its directory; None while it does. The loop does not wait for an executor,
        whose first worker takes seconds to start: the tasks of others go on.

        Raises ClientLostError, HeadwaterError.
        """
        if client.executor is None:
            self._directories.lock(client)
            return self._joining.look(client)
        coming = self._coming.get(client.name)
        if coming is None:
            self._coming[client.name] = self._pool.submit(self._joining.look, client)
        if coming is None or not coming.done():
            return None
        return self._coming.pop(client.name).result()

    def _joins(self, client: Client) -> bool:
        """Whether a client that has come becomes a member. One that cannot is told of once, and left out: the others
        do well without it."""
        application = self._topology.application
        try:
            newcomer = self._newcomer(client)
            if newcomer is None:
                return False
            here = [member.client for member in self.members.values()]
            (self.members[client.name],) = self._joining.admit([newcomer], here)
        except ClientLostError:  # it came and went
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
        known = client.name in self.members or client.name in self._refused
        return not known and not self._cluster.lost(client)


# When tasks are placed again while an application runs, and how that is carried out.


class Rebalancer:
    """Carries out one rebalance after the other. Used from the loop's thread.

    `placed` is called with each new assignment.
    """

    def __init__(self, group: Group, committer: Committer, placed: Callable[[Assigned], None]) -> None:
        self._group = group
        self._committer = committer
        self._placed = placed
        self._next: Assigned | None = None
        self._leaving: dict[str, set[TaskId]] = {}

    @property
    def in_progress(self) -> bool:
        """Whether tasks are on their way."""
        return self._next is not None

    def leaves(self, client: str, task: TaskId) -> bool:
        """Whether a task begins no more epochs on a client, because it goes elsewhere."""
        return task in self._leaving.get(client, ())

    def advance(self, open_tasks: Callable[[str], Collection[TaskId]]) -> None:
        """Go on as far as possible without waiting. `open_tasks`: the tasks of a client whose epochs are open."""
        if self._group.watch():
            before = self._group.assigned
            placed = self._group.place()
            if self._next is not None or placed.differs(before) or not self._group.carried_out(placed):
                self._next, self._leaving = placed, self._group.leaving(placed)
        if self._next is None:
            return
        if any(tasks & set(open_tasks(client)) for client, tasks in self._leaving.items()):
            return  # what they have taken is committed first
        assigned, leaving = self._next, self._leaving
        self._next, self._leaving = None, {}
        self._group.revoke(leaving)
        number = self._committer.assign(assigned.to_json())
        self._group.assign(assigned, number)
        self._placed(assigned)
