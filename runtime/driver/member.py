"""A member of an application's group: a client, its tasks, and the driver's knowledge of its stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ..assignment.balance import assign_to_threads
from ..ir.topology import Subtopology, Topology
from ..placing.place import Client, Member
from ..progress.planner import Planner
from ..restore.copies import Snapshots
from ..restore.linked_stores import LinkedStores, StateError
from ..restore.links import StateLink
from ..restore.requests import StateLocation, StoreResponse
from ..restore.store_changelog_reader import STANDBY_REST, ReaderMode, StoreChangelogReader
from ..restore.store_saver import StoreCleaner, StoreSaver
from ..state.restore_listener import RestoreListener
from ..state.restore_strategy import RestoreStrategy
from ..task_id import StoreId, TaskId, TopicPartition
from ..tasks.assigned_tasks import Commits
from ..tasks.measured import StoreSize
from ..tasks.task import StreamTask
from ..tasks.task_manager import DeclaredTask, TaskManager


@dataclass(frozen=True)
class GroupContext:
    """What the members of a group share.

    `location`: of their stores, without the parts of a single client. `commits`: commits their tasks. `submit`: runs
    slices of their restores. `snapshots`: of the application's stores.
    """

    topology: Topology
    planner: Planner
    location: StateLocation
    commits: Commits
    submit: Callable[..., Future[Any]]
    strategy: RestoreStrategy
    snapshots: Snapshots


class GroupMember:
    """A client with its tasks and stores. Owned by the loop's thread.

    `member`: the client as it was when it joined. `stores`: its stores, with their known positions. `saver`, `cleaner`:
    set when it joins; the first is None if the restore strategy saves no snapshots.
    """

    def __init__(
        self,
        group: GroupContext,
        member: Member,
        link: StateLink,
        report: Callable[[StoreResponse], None],
        listener: RestoreListener,
    ) -> None:
        self.client: Client = member.client
        self._member = member
        self._link = link
        self._location = replace(group.location, folder=member.client.folder, process_id=member.client.process_id)
        self._planner = group.planner
        self._parts = {part.number: part for part in group.topology.subtopologies}
        self.stores = LinkedStores(
            member.client.name,
            link,
            self._location,
            group.planner,
            group.topology.subtopologies,
            member.held,
            report,
            group.strategy,
            group.snapshots,
            member.unopened,
        )
        self.reader = StoreChangelogReader(self.stores, group.submit, listener, STANDBY_REST, self._runs)
        self.tasks = TaskManager(member.client.name, self.stores, self.reader, group.commits, cache(self._declared))
        self.saver: StoreSaver | None = None
        self.cleaner: StoreCleaner

    @property
    def member(self) -> Member:
        """The client as the assignor sees it: with its present stores."""
        held = dict(self.stores.positions())
        for task in self.tasks.active.running:  # at the end of its changelogs, except for the last committed epoch
            for store in (StoreId(name, task.id.partition) for name in task.stores):
                held[store] = self._planner.end(store)
        return replace(self._member, client=self.client, held=held)

    def _runs(self) -> bool:
        return any(self.tasks.active.running)

    def processable(self, among: Iterable[TaskId]) -> list[StreamTask]:
        """Those of the given tasks that are active here and may start an epoch."""
        tasks = (self.tasks.active.get(task) for task in among)
        return [task for task in tasks if task is not None and task.processable]

    def threads(self, part: Subtopology) -> Sequence[Sequence[TaskId]]:
        """The active tasks of a subtopology in any state, by thread of the client."""
        dealt = assign_to_threads([task.id for task in self.tasks.active], self.client.threads)
        return [[task for task in thread if task.subtopology == part.number] for thread in dealt]

    def note_sizes(self, partition: int, sizes: Mapping[str, StoreSize]) -> None:
        """Note the sizes of a task's stores after an epoch. `sizes`: store name -> size."""
        for name, size in sizes.items():
            self.stores.sizes[StoreId(name, partition)] = size

    def saved(self) -> bool:
        """Start to save the next due store, unless the client restores stores. Whether none is due."""
        if self.saver is None or (self.saver.working is None and self.reader.mode is ReaderMode.ACTIVE_RESTORING):
            return True
        return self.saver.advance(self.tasks.active.running)

    def clean(self) -> None:
        """Start due removals, and note finished ones."""
        self.cleaner.advance(lambda: {task.id for task in (*self.tasks.active, *self.tasks.standby)})

    def release(self) -> None:
        """Note in the client's directory that all stores are closed. Raises StateError."""
        (answer,) = self._link.send([self.stores.release_request()])
        if answer.failure is not None:
            raise StateError(self.client.name, answer.failure)

    def _declared(self, task: TaskId) -> DeclaredTask:
        part = self._parts[task.subtopology]
        inputs = (TopicPartition(topic.name, task.partition) for topic in part.sources)
        return DeclaredTask(tuple(store.name for store in part.stores), frozenset(inputs))
