"""Stores saved and cleaned."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from ...errors import HeadwaterError
from ..ir.topology import Store
from ..log.commit.records import StoreSnapshot
from ..log.state import LogState
from ..placing.place import ClientLostError
from ..records.schema import changelog_topic
from ..state.restore_strategy import Save, SavingStrategy, Unsaved
from ..task_id import StoreId, TaskId
from ..tasks.errors import TaskCorruptedError
from ..tasks.state import State
from ..tasks.stream_task import StreamTask
from .copies import Snapshots
from .linked_stores import LinkedStores
from .requests import StoreResponse

# Has the stores of one client's running tasks copied into the log, as a restore strategy says, beside their epochs.
#
# What is due follows from the commits alone, so that a run goes on where the last one has ended. The work is done where
# the stores are, one store at a time. A copy exists once a commit lists it.

Saved = Future[StoreResponse]

MAX_STORES_PER_ROUND = 500
"""Stores that one round of the loop looks at: it takes about a millisecond."""


class SnapshotCommits(Protocol):
    """The application's sequence of commits."""

    def list_snapshots(self, added: Sequence[StoreSnapshot], removed: Sequence[str]) -> None:
        """List copies of stores, and no more those at the paths `removed`, whose files go. Raises FencedError."""
        ...

    def discard(self, path: str) -> None:
        """Remove a copy that no commit lists. Any thread may do that."""
        ...


class Submit(Protocol):
    """Runs work somewhere else."""

    def __call__(self, work: Callable[[], StoreResponse], /) -> Saved:
        """Begin with it."""
        ...


@dataclass
class _Since:
    """What has changed a store up to `position`, since its last snapshot, which is at `base`, or since the last one
    failed. Mutable: the saver's own.
    """

    base: int
    position: int
    epochs: int = 0
    size: int = 0


class StoreSaver:
    """Used by the loop's thread. `working`: a store that is being copied, or has been, and is not listed yet.

    `report` is called with a store and the reason why it could not be copied. It is tried again once the strategy finds
    that as much has changed again.
    """

    def __init__(
        self,
        stores: LinkedStores,
        strategy: SavingStrategy,
        snapshots: Snapshots,
        state: LogState,
        commits: SnapshotCommits,
        submit: Submit,
        report: Callable[[StoreId, str], None] = lambda *_: None,
    ) -> None:
        self._stores = stores
        self._strategy = strategy
        self._snapshots = snapshots
        self._state = state
        self._commits = commits
        self._submit = submit
        self._report = report
        self._since: dict[StoreId, _Since] = {}
        self._seen: tuple[int, int] | None = None
        self._left: list[tuple[StreamTask, Store]] = []
        self.working: Saved | None = None
        self._task: StreamTask
        self._damage: TaskCorruptedError | None = None
        self._store = StoreId("", 0)
        self._save = Save()
        self._path = ""

    def advance(self, tasks: Iterable[StreamTask]) -> bool:
        """List what has been copied, and begin with the next store that is due, if there is one among the next that are
        looked at; whether none is left to look at since the last commit.

        Raises FencedError, and TaskCorruptedError for a store that was found damaged.
        """
        if self.working is not None:
            if not self.working.done():
                return False
            self._finish()
        if self._damage is not None:
            if self._task.epoch is not None:
                return False  # it may find the damage too
            damage, self._damage = self._damage, None
            if self._task.state is State.RUNNING:
                raise damage
        if not self._left:
            running = list(tasks)
            seen = self._state.number, len(running)
            if seen == self._seen:
                return True
            self._seen = seen
            self._left = [(task, store) for task in running for store in self._stores.declared(task.id)]
        for _ in range(min(MAX_STORES_PER_ROUND, len(self._left))):
            if self._begun(*self._left.pop()):
                break
        return False

    def give_up(self) -> None:
        """Save no further store. A copy that is done is listed; one that is not is removed once it is. Raises
        FencedError.
        """
        if self.working is None:
            return
        if self.working.done():
            self._finish()
            return
        working, self.working, path = self.working, None, self._path
        if not working.cancel():
            working.add_done_callback(lambda _: self._commits.discard(path))

    def _finish(self) -> None:
        working, self.working = self.working, None
        if working is None:
            return
        try:
            answer = working.result()
        except ClientLostError:
            return  # the task comes to another client
        except HeadwaterError as error:
            self._report(self._store, error.message)
            return
        saved = answer.saved
        if saved is None:
            self._stores.take(answer)
            cause = f"store {self._store} was found damaged when it was copied: {answer.damage}"
            self._damage = TaskCorruptedError(cause, [self._task.id], self._store.store)
            return
        end = self._stores.end(self._store)
        if self._latest(self._store) < saved.position <= end:
            self._since[self._store] = _Since(saved.position, saved.position)
            self._commits.list_snapshots((saved,), self._snapshots.outdated(saved, self._save.keep))
            return
        self._commits.discard(saved.path)  # without a commit: after each one the saver looks for stores that are due
        if saved.position > end:
            cause = f"store {self._store} is ahead of its changelog: {saved.position} > {end}"
            self._damage = TaskCorruptedError(cause, [self._task.id], self._store.store)

    def _begun(self, task: StreamTask, store: Store) -> bool:
        """Whether a copy of a store is due, which is begun then."""
        if not store.changelog or task.state is not State.RUNNING:
            return False
        self._stores.update_offsets([task])
        found = StoreId(store.name, task.id.partition)
        since = self._grown(found)
        if not since.epochs:
            return False
        snapshots = self._snapshots.of(found.store, found.partition)
        held = self._stores.position(found.store, found.partition)
        wanted = self._strategy.save(Unsaved(found.store, found.partition, held, since.epochs, since.size, snapshots))
        if wanted is None:
            return False
        path = self._path = self._snapshots.new_path(found.store, found.partition)
        self._task, self._store, self._save = task, found, wanted
        self._since[found] = _Since(since.base, held)
        self.working = self._submit(lambda: self._stores.save(task.id, store, path))
        return True

    def _grown(self, store: StoreId) -> _Since:
        """What has changed a store, as far as the client has applied it."""
        latest = self._latest(store)
        since = self._since.get(store)
        if since is None or since.base != latest:  # it was saved by another client meanwhile, or its last one given up
            since = self._since[store] = _Since(latest, latest)
        held = self._stores.position(store.store, store.partition)
        if held > since.position:
            topic = changelog_topic(self._state.application, store.store)
            ranges = self._state.lane_ranges(topic, store.partition, store.partition, since.position)
            new = [each for each in ranges if since.position < each.end <= held]
            # Of a range that was merged, only a part may be new.
            since.epochs += sum(max(1, round(each.epochs * each.part_from(since.position))) for each in new)
            since.size += sum(round(each.size * each.part_from(since.position)) for each in new)
            since.position = new[-1].end if new else since.position
        return since

    def _latest(self, store: StoreId) -> int:
        """The position of a store's furthest snapshot; 0 if there is none."""
        return max((each.position for each in self._snapshots.of(store.store, store.partition)), default=0)


# Has copies of stores removed that one client has had no task of for some time (`state_cleanup_delay`).
#
# Source: the cleaner of `StateDirectory` of Kafka Streams 4.0. A copy that was moved away is kept for a while: it may
# be needed again, and is then nearly caught up. Only copies are removed that a changelog can make again. The work is
# done where the stores are, beside epochs.

_LOOKS = 10
"""How often the copies are looked at within the delay."""


class SubmitCleaning(Protocol):
    """Runs work somewhere else."""

    def __call__(self, work: Callable[[], Sequence[StoreId]], /) -> Future[Sequence[StoreId]]:
        """Begin with it."""
        ...


class StoreCleaner:
    """Used by the loop's thread. `report` is called with what was removed, and with why no more was, if that failed.

    `seconds`: a clock that nobody sets.
    """

    def __init__(
        self,
        stores: LinkedStores,
        delay_s: float,
        submit: SubmitCleaning,
        report: Callable[[Sequence[StoreId], str], None] = lambda *_: None,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stores = stores
        self._delay = delay_s
        self._submit = submit
        self._report = report
        self._seconds = seconds
        self._unused: dict[StoreId, float] = {}
        self._look_at = seconds()
        self._working: Future[Sequence[StoreId]] | None = None

    def advance(self, tasks: Callable[[], Collection[TaskId]]) -> None:
        """Take up what was removed, and begin to remove what is due. `tasks`: those that the client has."""
        if self._working is not None:
            if self._working.done():
                self.finish()
            return
        now = self._seconds()
        if now < self._look_at:
            return
        self._look_at = now + self._delay / _LOOKS
        self._unused = {store: self._unused.get(store, now) for store in self._stores.unused(tasks())}
        due = [store for store, since in self._unused.items() if now - since >= self._delay]
        if due:
            held = self._stores.forget(due)
            self._working = self._submit(lambda: self._stores.clean(held, self._delay))

    def finish(self) -> None:
        """Wait until what is being removed is."""
        if self._working is None:
            return
        working, self._working, self._unused = self._working, None, {}
        try:
            if removed := working.result():
                self._report(removed, "")
        except ClientLostError:
            pass  # with all that it has
        except HeadwaterError as error:
            self._report((), error.message)
