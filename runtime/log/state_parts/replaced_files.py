"""Files that others have taken the place of, until they may be removed.

They are kept with the committed state, not by who has replaced them: a file is spared by every process that looks for
superfluous ones, and after a restart. Times are those of the machines that commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ReplacedFile:
    """`until`: the time (ms) up to which somebody may still read it by the ranges of before."""

    path: str
    until: int


@dataclass
class ReplacedFiles:
    """Those of one application. They are as many as are replaced within the delay of the removal."""

    _until: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of_all(cls, files: Iterable[ReplacedFile]) -> ReplacedFiles:
        """Those of a snapshot."""
        return cls({each.path: each.until for each in files})

    def after(self, at: int) -> None:
        """Forget those whose time is over with a commit at `at` (ms), in the order in which they were replaced."""
        while self._until and next(iter(self._until.values())) <= at:
            del self._until[next(iter(self._until))]

    def add(self, paths: Iterable[str], until: int) -> None:
        """Files that a commit has put others in the place of."""
        self._until.update(dict.fromkeys(paths, until))

    def spared(self, now: int) -> set[str]:
        """Those that must stay at `now` (ms)."""
        return {path for path, until in self._until.items() if until > now}

    def over(self, now: int) -> set[str]:
        """Those that may be removed at `now` (ms), and that no later commit has forgotten."""
        return {path for path, until in self._until.items() if until <= now}

    def all(self) -> tuple[ReplacedFile, ...]:
        """All of them."""
        return tuple(ReplacedFile(path, until) for path, until in self._until.items())
