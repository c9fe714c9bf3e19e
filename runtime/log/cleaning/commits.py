"""Commits what a round of cleaning has come to."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from ....errors import HeadwaterError
from ..commit.records import DELAY_MS, RewriteRecord
from ..errors import CommitExistsError, SegmentsChangedError
from ..listed import Listed
from ..log import Log
from ..state import LogState
from .cleaner import Cleaned, Cleaner


def commit_cleaned(
    cleaned: Cleaned, log: Log, state: LogState, commit: Callable[[tuple[Listed, ...]], object]
) -> tuple[Listed, ...]:
    """Commit what still fits `state` by `commit`, and remove files that this leaves unlisted. Returns what it was.

    Raises what `commit` raises. Nothing is removed then: the commit may have been made all the same, as where only the
    sync of its directory failed. If it was not, its files are garbage of its generation.
    """
    committed: tuple[Listed, ...] = ()
    while not committed and (fitting := cleaned.fitting(state)):
        try:
            commit(fitting)
            committed = fitting
        except (CommitExistsError, SegmentsChangedError):
            state.refresh()  # another commit came first, and it may have changed what fits
    for path in cleaned.unlisted(committed):
        with suppress(OSError, HeadwaterError):  # it is garbage from now on
            log.remove(path)
    return committed


def clean_round(
    cleaner: Cleaner,
    log: Log,
    state: LogState,
    may_go_on: Callable[[], bool] = lambda: True,
    delay_ms: int = DELAY_MS,
) -> tuple[Cleaned, tuple[Listed, ...]]:
    """Do a round and commit it, for an application whose driver is not in this process; what was committed.

    Its driver may be running: whoever is first commits, and the other goes on. Replaced files stay for `delay_ms`.
    Raises what `Cleaner.round` raises, and FullyRefreshedError, GenerationError.
    """
    state.refresh()
    # Those of before the round, as the files have them in their names: a driver that claims the application meanwhile
    # takes the files for garbage, and then nothing may list them.
    generation, incarnation = state.generation, state.incarnation
    cleaned = cleaner.round(state, may_go_on)

    def commit(segments: tuple[Listed, ...]) -> None:
        state.commit(RewriteRecord(generation, time.time_ns() // 1_000_000, segments, incarnation, delay_ms))

    return cleaned, commit_cleaned(cleaned, log, state, commit)
