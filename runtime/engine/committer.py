"""The driver's side of exactly-once: claims a generation, and puts tasks' epochs into the one sequence of commits."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..log.errors import CommitExistsError
from ..log.records import INCARNATION, EpochRecord, GenerationRecord, TaskCommit
from ..log.state import LogState
from .errors import FencedError


class Committer:
    """Writes the commits of one application under one generation. Used from the loop's thread only."""

    def __init__(self, state: LogState) -> None:
        self._state = state
        self.generation = -1

    def claim(self, description: Mapping[str, Any], assignment: Mapping[str, Any] | None = None) -> int:
        """Take the application over: the next generation is this driver's, and every older driver is fenced.

        Tries again when another driver was quicker, since the later claim wins. The incarnation stays that of the
        first claim.
        """
        while True:
            self._state.refresh()
            generation = self._state.generation + 1
            try:
                kept = {name: value for name, value in self._state.topology.items() if name == INCARNATION}
                self._state.commit(GenerationRecord(generation, _now(), {**description, **kept}, assignment or {}))
            except CommitExistsError:
                continue
            self.generation = generation
            return generation

    def commit(self, epoch: int, tasks: Sequence[TaskCommit]) -> int:
        """Make the epoch of `tasks` exist, all or nothing; the commit's number.

        Raises FencedError when another driver has claimed the application.
        """
        try:
            self._state.commit(EpochRecord(self.generation, epoch, _now(), tuple(tasks)))
        except CommitExistsError:
            self.check()
            raise
        return self._state.number

    def check(self) -> None:
        """Raise FencedError when another driver has claimed the application: so one that is idle learns of it too."""
        if self._state.refresh():
            raise FencedError(self._state.application, self.generation, self._state.generation)


def _now() -> int:
    return time.time_ns() // 1_000_000
