"""One member of an application's group: a client, its tasks, and what the driver remembers of its stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from ..assignment.balance import deal_to_threads
from ..ir.topology import Subtopology, Topology
from ..placing.place import Client, Member
from ..progress.planner import Planner
from ..restore.copies import Snapshots
from ..restore.linked_stores import LinkedStores, StateError
from ..restore.links import StateLink
from ..restore.requests import StateLocation, StoreResponse
from ..restore.store_changelog_reader import STANDBY_REST, ReaderMode, StoreChangelogReader, Submit
from ..restore.store_saver import StoreCleaner, StoreSaver
from ..state.restore_listener import RestoreListener
from ..state.restore_strategy import RestoreStrategy
from ..task_id import StoreId, TaskId, TopicPartition
from ..tasks.assigned_tasks import Commits
from ..tasks.measured import StoreSize
from ..tasks.stream_task import StreamTask
from ..tasks.task_manager import DeclaredTask, TaskManager


class GroupMember:
    """Owned by the loop's thread. `member`: what was known of the client when it joined. `saver`: where the restore
    strategy has snapshots saved.
    """

    def __init__(
        self,
        member: Member,
        link: StateLink,
        location: StateLocation,
        topology: Topology,
        planner: Planner,
        commits: Commits,
        submit: Submit,
        report: Callable[[StoreResponse], None],
        listener: RestoreListener,
        strategy: RestoreStrategy | None = None,
        snapshots: Snapshots | None = None,
    ) -> None:
        self.client: Client = member.client
        self._member = member
        self._link = link
        self._location = replace(location, folder=member.client.folder, process_id=member.client.process_id)
        self._planner = planner
        self._parts = {part.number: part for part in topology.subtopologies}
        self._stores = LinkedStores(
            member.client.name,
            link,
            self._location,
            planner,
            topology.subtopologies,
            member.held,
            report,
            strategy,
            snapshots,
            member.unopened,
        )
        self.reader = StoreChangelogReader(self._stores, submit, listener, STANDBY_REST, self._runs)
        self.tasks = TaskManager(member.client.name, self._stores, self.reader, commits, cache(self._declared))
        self.saver: StoreSaver | None = None
        self.cleaner: StoreCleaner | None = None

    @property
    def member(self) -> Member:
        """The client as an assignor is to see it: with the stores that it has by now."""
        self._stores.update_offsets(self.tasks.active)
        held = dict(self._stores.positions())
        for task in self.tasks.active.running:  # at the end of its changelogs, but for the epoch committed last
            for store in self._stores.declared(task.id):
                held[StoreId(store.name, task.id.partition)] = self._planner.end(store.name, task.id.partition)
        return replace(self._member, client=self.client, held=held)

    def _runs(self) -> bool:
        return any(self.tasks.active.running)

    def processable(self, among: Iterable[TaskId]) -> list[StreamTask]:
        """The tasks that may begin an epoch, of those that are given and here."""
        found = (self.tasks.active.get(task) for task in among)
        return [task for task in found if task is not None and task.processable]

    def threads(self, part: Subtopology) -> Sequence[Sequence[TaskId]]:
        """The tasks of a subtopology that each thread of the client runs, whatever state they are in."""
        dealt = deal_to_threads([task.id for task in self.tasks.active], self.client.threads)
        return [[task for task in thread if task.subtopology == part.number] for thread in dealt]

    def size(self, store: StoreId) -> StoreSize | None:
        """How large the client's copy of a store is, as far as is known."""
        return self._stores.size(store)

    def note_sizes(self, partition: int, sizes: Mapping[str, StoreSize]) -> None:
        """Note how large an epoch of a task has found its stores, by name."""
        for name, size in sizes.items():
            self._stores.record_size(StoreId(name, partition), size)

    def save_with(self, make: Callable[[LinkedStores], StoreSaver]) -> None:
        """Have snapshots of the stores saved."""
        self.saver = make(self._stores)

    def saved(self) -> bool:
        """Begin to save the next store that is due, unless the client has stores to restore; whether none is due."""
        if self.saver is None or (self.saver.working is None and self.reader.mode is ReaderMode.ACTIVE_RESTORING):
            return True
        return self.saver.advance(self.tasks.active.running)

    def clean_with(self, make: Callable[[LinkedStores], StoreCleaner]) -> None:
        """Have copies of stores removed that the client has had no task of for long."""
        self.cleaner = make(self._stores)

    def clean(self) -> None:
        """Begin to remove what is due, or take up what was removed."""
        if self.cleaner is not None:
            self.cleaner.advance(lambda: {task.id for task in (*self.tasks.active, *self.tasks.standby)})

    def release(self) -> None:
        """Note where the client is that it has closed all. Raises StateError."""
        (answer,) = self._link.send([self._stores.release_request()])
        if answer.failure is not None:
            raise StateError(self.client.name, answer.failure)

    def _declared(self, task: TaskId) -> DeclaredTask:
        part = self._parts[task.subtopology]
        inputs = (TopicPartition(topic.name, task.partition) for topic in part.sources)
        return DeclaredTask(tuple(store.name for store in part.stores), frozenset(inputs))
