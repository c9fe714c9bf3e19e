"""The driver's part of exactly-once: claims a generation, and writes the epochs of tasks as a sequence of commits.

When an epoch is due is decided in `driver/units.py`: there is one commit for each epoch of a unit, the tasks of one
subtopology on one client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..log.commit.descriptions import TopologyDescription
from ..log.commit.records import (
    DELAY_MS,
    AssignmentRecord,
    Beginning,
    DriversRecord,
    EpochRecord,
    GenerationRecord,
    Purged,
    PurgeRecord,
    RewriteRecord,
    SnapshotRecord,
    StoreSnapshot,
    TaskCommit,
)
from ..log.errors import CommitExistsError, FullyRefreshedError, GenerationError
from ..log.listed import Listed
from ..log.state import LogState
from .errors import FencedError


class Committer:
    """Writes the commits of one application under one generation. Used from the loop's thread only."""

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._seen = state.generation
        self.generation = -1

    @property
    def number(self) -> int:
        """The number of the application's last commit that is known here."""
        return self._state.number

    def claim(
        self,
        description: TopologyDescription,
        assignment: Mapping[str, Any] | None = None,
        begins: Callable[[], tuple[Beginning, ...]] = tuple,
    ) -> int:
        """Take the application over with the next generation, which fences every older driver.

        Raises FencedError if another driver has claimed it since this committer was made: that one began later. The
        incarnation stays that of the first claim. `begins` says where tasks begin in topics that they have not read.
        """
        while True:
            try:
                self._state.refresh()
                if self._state.generation != self._seen:
                    raise FencedError(self._state.application, None, self._state.generation)
                described = replace(description, incarnation=self._state.incarnation or description.incarnation)
                record = GenerationRecord(self._seen + 1, _now(), described, assignment or {}, begins=begins())
                self._state.commit(record)
            except CommitExistsError:
                continue
            except FullyRefreshedError as error:
                raise FencedError(self._state.application, None, None) from error
            self.generation = self._state.generation
            return self.generation

    def take_away(self) -> int:
        """Claim the application as it is, so that its driver ends; nobody works on it then. Raises FencedError as
        `claim` does.
        """
        return self.claim(self._state.topology, self._state.assignment)

    def commit(
        self, epoch: int, tasks: Sequence[TaskCommit], sources: Mapping[str, tuple[int, int]] | None = None
    ) -> int:
        """Commit the epoch of `tasks`, all or nothing. Returns the commit's number.

        `sources`: see `Committed.sources`. Raises FencedError when another driver has claimed the application.
        """
        noted = None if sources == self._state.sources else sources
        return self._commit(EpochRecord(self.generation, epoch, _now(), tuple(tasks), self._state.incarnation, noted))

    def assign(self, assignment: Mapping[str, Any]) -> int:
        """Note who has which tasks from now on; the commit's number. Raises FencedError."""
        return self._commit(AssignmentRecord(self.generation, _now(), assignment, self._state.incarnation))

    def list_snapshots(self, added: Sequence[StoreSnapshot], removed: Sequence[str]) -> int:
        """List copies of stores, and list others (`removed`: their paths) no more. Raises FencedError."""
        state = self._state
        return self._commit(SnapshotRecord(self.generation, _now(), tuple(added), tuple(removed), state.incarnation))

    def purge(self, purged: Sequence[Purged]) -> int:
        """Give up records that their readers have consumed. Raises FencedError."""
        return self._commit(PurgeRecord(self.generation, _now(), tuple(purged), self._state.incarnation))

    def rewrite(self, segments: Sequence[Listed], delay_ms: int = DELAY_MS) -> int:
        """Put segments in the place of others, whose files stay for `delay_ms`. Raises FencedError,
        SegmentsChangedError.
        """
        return self._commit(RewriteRecord(self.generation, _now(), tuple(segments), self._state.incarnation, delay_ms))

    def _commit(self, record: DriversRecord) -> int:
        while True:
            try:
                self._state.commit(record)
                return self.number
            except FullyRefreshedError as error:
                raise self._fenced() from error
            except GenerationError as error:
                raise self._fenced(error.current) from error
            except CommitExistsError:
                self.check()  # the existing commit may be void: one by a driver of an earlier incarnation

    def check(self) -> None:
        """Raise FencedError if another driver has claimed the application. So an idle driver notices it too."""
        try:
            self._state.refresh()
        except FullyRefreshedError as error:
            raise self._fenced() from error
        if self._state.generation != self.generation:
            raise self._fenced(self._state.generation)

    def _fenced(self, generation: int | None = None) -> FencedError:
        return FencedError(self._state.application, self.generation, generation)


def _now() -> int:
    return time.time_ns() // 1_000_000
