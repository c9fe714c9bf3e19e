"""Removing files that no commit lists: what failed tries, fenced drivers and broken-off appends left behind."""

from __future__ import annotations

import re
import time

from .log import Log
from .state import LogState

APPEND_GRACE_MS = 24 * 3_600_000
"""An append has no generation that would decide it, so its files count as left behind after a day."""

_EPOCH_NAME = re.compile(r"/(?:(?P<incarnation>[^/-]+)-)?g(?P<generation>\d+)-e\d+-[^/]*\.seg$")
"""Files of earlier versions have no incarnation in their names."""


def collect_garbage(log: Log, application: str, state: LogState, now: int | None = None) -> int:
    """Remove the files of an application that no commit lists nor ever will; how many there were.

    Those are the files of drivers of an older generation than `state.generation` or of another incarnation, whose
    commits are refused, and those of appends that are older than `APPEND_GRACE_MS`. `now`: ms, by default the clock's.
    `state` must hold the commit of the current generation. Raises StartedAgainError, with nothing removed.
    """
    now = time.time_ns() // 1_000_000 if now is None else now
    listed = state.paths()
    doomed = []
    files = list(log.files(application))
    state.check_same()  # after looking: files of a successor that are not listed here are not garbage
    for file in files:
        epoch = _EPOCH_NAME.search(file.path)
        undecided = file.modified > now - APPEND_GRACE_MS if epoch is None else _may_be_listed(epoch, state)
        if not undecided and file.path not in listed:
            doomed.append(file.path)
    for path in doomed:
        log.remove(path)
    return len(doomed)


def _may_be_listed(name: re.Match[str], state: LogState) -> bool:
    """Whether the driver that wrote a file of this name may still commit it."""
    of_this = name["incarnation"] in (None, state.incarnation[:8])
    return of_this and int(name["generation"]) >= state.generation
