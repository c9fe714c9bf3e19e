"""What stays in the log only because a reader has not consumed it yet, and which reader that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..commit.encoding import decode_commit
from ..errors import CommitFormatError, LogError
from ..log import Log
from ..state import LogState
from .jobs import Lane, held
from .lanes import Lanes
from .merging import LIMITS, Limits
from .policies import Policy
from .readers import DeclaredReaders


@dataclass(frozen=True)
class HeldBack:
    """So many `records` of a topic would have expired or be compacted by now, but for `reader`, an application that has
    not consumed them.
    """

    topic: str
    reader: str
    records: int


class Waiting:
    """Adds up, lane by lane, what stays for readers."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._records: dict[tuple[str, str], int] = {}

    def add(self, lane: Lane, policy: Policy) -> None:
        """One more lane."""
        for reader, records in held(lane, policy, self._limits).items():
            self._records[lane.topic, reader] = self._records.get((lane.topic, reader), 0) + records

    def held(self) -> tuple[HeldBack, ...]:
        """By topic and reader."""
        return tuple(HeldBack(*of, records) for of, records in sorted(self._records.items()))


def held_back(
    log: Log, state: LogState, policies: Mapping[str, Policy], readers: DeclaredReaders
) -> tuple[HeldBack, ...]:
    """What of an application's topics stays for readers. Nothing is read but commits. Raises LogError."""
    waiting = Waiting()
    for lane, policy in Lanes(log, policies, readers).of(state):
        waiting.add(lane, policy)
    return waiting.held()


def last_commit_at(log: Log, application: str) -> int | None:
    """When an application has committed last, ms since 1970; None if it never has, or that cannot be read."""
    try:
        commits = log.commits(application)
        last = commits.read(number) if (number := commits.latest()) else None
        return None if last is None else decode_commit(last).at
    except (LogError, CommitFormatError):
        return None
