"""The epochs of one application as they are committed, and what they add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..log.commit.records import Purged, StoreSnapshot, TaskCommit
from ..log.listed import Listed
from ..progress.committed import Committed
from ..progress.committer import Committer
from ..progress.global_task import GlobalTask
from .upkeep.removal import FileRemoval


@dataclass
class Tally:
    """What the loop has done so far."""

    commits: int = 0
    records: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    waits_for: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    caught_up: bool = False


@dataclass(frozen=True)
class Done:
    """One commit. `records`: consumed; `dropped`: `<step>:<reason>` -> records."""

    number: int = -1
    records: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)


class EpochCommits:
    """The Commits of an application's tasks. Used from the loop's thread only.

    What global tables have dropped goes with the next commit, as it is about no task of a client. `last`: the commit
    that was made last.
    """

    def __init__(
        self, committer: Committer, committed: Committed, global_task: GlobalTask, removal: FileRemoval
    ) -> None:
        self._committer = committer
        self._committed = committed
        self._global_task = global_task
        self._removal = removal
        self._epoch = 0
        self.tally = Tally()
        self.last = Done()

    @property
    def epoch(self) -> int:
        """The number of the epoch that began last."""
        return self._epoch

    def next_epoch(self) -> int:
        """The number of an epoch that begins."""
        self._epoch += 1
        return self._epoch

    def advance(self) -> None:
        """Look at what global tables have got. Raises LogError."""
        self._global_task.advance()

    def flush(self) -> None:
        """Commit what global tables have dropped, if that is all there is to commit."""
        if self._global_task.dropped:
            self._commit(self._global_task.take())

    def commit(self, tasks: Sequence[TaskCommit]) -> int:
        """Commit what tasks have come to; the commit's number. Raises FencedError."""
        self._commit((*tasks, *self._global_task.take()))
        return self.last.number

    def list_snapshots(self, added: Sequence[StoreSnapshot], removed: Sequence[str]) -> None:
        """List copies of stores, and remove those that are not listed any more. Raises FencedError."""
        self._committer.list_snapshots(added, removed)
        self._remove_unlisted()

    def discard(self, path: str) -> None:
        """Remove a copy that no commit lists. Any thread may do that."""
        self._committed.log.remove(path)

    def purge(self, purged: Sequence[Purged]) -> None:
        """Give up records that their readers have consumed, and remove their files. Raises FencedError."""
        self._committer.purge(purged)
        self._remove_unlisted()

    def rewrite(self, segments: Sequence[Listed]) -> None:
        """Put segments in the place of others, whose files are removed later. Raises FencedError,
        SegmentsChangedError.
        """
        self._committer.rewrite(segments, self._removal.delay_ms)
        self._remove_unlisted()

    def _commit(self, tasks: Sequence[TaskCommit]) -> None:
        number = self._committer.commit(self._epoch, tasks, self._committed.sources())
        self._remove_unlisted()
        dropped = sum((Counter(task.dropped) for task in tasks), Counter[str]())
        self.last = Done(number, sum(task.records for task in tasks), dict(dropped))
        self.tally.commits += 1
        self.tally.records += self.last.records
        self.tally.dropped.update(dropped)

    def _remove_unlisted(self) -> None:
        self._removal.now(self._committed.own.unlisted)
        self._removal.later(self._committed.own.replaced)
