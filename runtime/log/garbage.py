"""Removes files that no commit lists: those of failed attempts, fenced drivers and interrupted appends."""

from __future__ import annotations

import re
import time

from .log import Log
from .state import LogState

APPEND_GRACE_MS = 24 * 3_600_000
"""An append has no generation to compare. So its files count as garbage after a day."""

_EPOCH_NAME = re.compile(r"/(?:(?P<incarnation>[^/-]+)-)?g(?P<generation>\d+)-[es][^/]*\.(?:seg|snap)$")
"""Files of epochs, and snapshots of stores. Those of earlier versions have no incarnation in their names."""


def collect_garbage(log: Log, application: str, state: LogState, now: int | None = None) -> int:
    """Remove the files of an application that no commit lists nor ever will. Returns how many there were.

    These are files of drivers of an older generation than `state.generation` or of another incarnation, whose commits
    are refused, and files of appends that are older than `APPEND_GRACE_MS`. `now`: ms, by default the clock's.
    `state` must hold the commit of the current generation. Raises FullyRefreshedError, with nothing removed.
    """
    now = time.time_ns() // 1_000_000 if now is None else now
    listed = state.paths()
    doomed = []
    files = list(log.files(application))
    # After listing the files: those of a later incarnation, which `state` does not know, are not garbage.
    state.check_same()
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
