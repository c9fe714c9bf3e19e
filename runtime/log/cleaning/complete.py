"""Cleans all of an application that does not run, until there is nothing more to do."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ....errors import HeadwaterError
from ...topology import Topology
from ..commit.records import DELAY_MS
from ..garbage import collect_garbage
from ..log import Log
from ..state import LogState
from .cleaner import Cleaner
from .commits import clean_round
from .held import HeldBack
from .merging import LIMITS, Limits
from .policies import Policy


@dataclass(frozen=True)
class Sizes:
    """How much commits list: segments, and the bytes of their records."""

    segments: int
    size: int

    @classmethod
    def of(cls, state: LogState) -> Sizes:
        """Of an application."""
        listed = state.segments()
        return cls(len(listed), sum(segment.size for segment in listed))


@dataclass(frozen=True)
class CleanedApplication:
    """What the cleaning of an application has come to. `removed`: how many files have gone that nothing lists any more.
    `waiting`: how many of these stay until the delay is over. `damage`: what could not be read, and is left as it is.
    `held`: what stays for readers.
    """

    application: str
    before: Sizes
    after: Sizes
    removed: int = 0
    waiting: int = 0
    damage: tuple[HeadwaterError, ...] = ()
    held: tuple[HeldBack, ...] = ()


def clean_completely(
    log: Log,
    application: str,
    policies: Mapping[str, Policy],
    *,
    delay_ms: int = DELAY_MS,
    limits: Limits = LIMITS,
    topologies: Iterable[Topology] = (),
) -> CleanedApplication:
    """Do round after round, and remove what nothing lists. Replaced files stay for `delay_ms`.
    `topologies`: readers that count before they have committed anything, too.

    For an application that no driver works on; if one claims it meanwhile, GenerationError. Raises LogError, OSError
    and MachineError. What was committed by then stays.
    """
    state = LogState.load(log.commits(application))
    before = Sizes.of(state)
    # First: the next commit forgets those whose time is over.
    removed = _remove_replaced(log, state, _now())
    cleaner = Cleaner(log, policies, limits, topologies)
    while True:
        cleaned, committed = clean_round(cleaner, log, state, delay_ms=delay_ms)
        if not committed:
            break
    log.remove_leftovers()
    removed += _remove_replaced(log, state, _now())
    removed += collect_garbage(log, application, state)
    return CleanedApplication(
        application, before, Sizes.of(state), removed, len(state.spared.spared(_now())), cleaned.damage, cleaned.held
    )


def _remove_replaced(log: Log, state: LogState, now: int) -> int:
    """Remove files that others have taken the place of, as their time is over. Returns how many were there."""
    over: Collection[str] = state.spared.over(now) - state.paths()
    there = {file.path for file in log.files(state.application)} if over else ()
    for path in over:
        log.remove(path)
    return sum(path in there for path in over)


def _now() -> int:
    return time.time_ns() // 1_000_000
