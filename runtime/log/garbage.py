"""Removes files that no commit lists: those of failed attempts, fenced drivers and interrupted appends."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable

from ...errors import HeadwaterError
from .log import Log
from .state import LogState

APPEND_GRACE_MS = 24 * 3_600_000
"""An append has no generation to compare. So its files count as garbage after a day."""

GIVE_UP = 8
"""After so many files that could not be removed, a removal ends: a log that answers no more takes long for each."""

_EPOCH_NAME = re.compile(
    r"/(?:(?P<incarnation>[^/-]+)-)?g(?P<generation>\d+)-(?:e(?P<epoch>\d+)-|[ms])[^/]*\.(?:seg|snap)$"
)
"""Files of epochs, files that take the place of others, and snapshots of stores. Those of earlier versions have no
incarnation in their names.
"""


def collect_garbage(
    log: Log,
    application: str,
    state: LogState,
    now: int | None = None,
    decided: Callable[[int], bool] = lambda _: False,
    spared: Callable[[], Collection[str]] = lambda: (),
) -> int:
    """Remove the files of an application that no commit lists nor ever will. Returns how many there were.

    These are files of drivers of an older generation than `state.generation` or of another incarnation, whose commits
    are refused, and files of appends that are older than `APPEND_GRACE_MS`. `now`: ms, by default the clock's.
    `state` must hold the commit of the current generation. `decided` says of an epoch of this generation whether it is
    over; then `state` has its commit, if there is one. `spared`: files that stay for now. Raises FullyRefreshedError,
    with nothing removed.
    """
    now = time.time_ns() // 1_000_000 if now is None else now
    doomed = []
    files = list(log.files(application))
    # After listing the files: those of a later incarnation, which `state` does not know, are not garbage, nor are those
    # that were committed meanwhile.
    state.check_same_in(log.commits(application))
    with state.lock:
        # Whoever has replaced files, this process, another or one of before: they stay as long as the commit says.
        listed = state.paths() | state.spared.spared(now) | set(state.replaced)
    listed |= set(spared())
    for file in files:
        epoch = _EPOCH_NAME.search(file.path)
        if epoch is not None and not int(epoch["generation"]):
            epoch = None  # of an application without generations
        undecided = file.modified > now - APPEND_GRACE_MS if epoch is None else _may_be_listed(epoch, state, decided)
        if not undecided and file.path not in listed:
            doomed.append(file.path)
    _, error = remove_all(log, doomed)
    if error is not None:
        raise error
    return len(doomed)


def remove_all(log: Log, paths: Iterable[str]) -> tuple[list[str], OSError | HeadwaterError | None]:
    """Remove files. Those that cannot be removed hold up no others. Returns these, and the first error.

    After `GIVE_UP` errors it is not about single files: the rest is left as well.
    """
    left: list[str] = []
    errors: list[OSError | HeadwaterError] = []
    for path in paths:
        if len(errors) == GIVE_UP:
            left.append(path)
            continue
        try:
            log.remove(path)
        except (OSError, HeadwaterError) as error:
            left.append(path)
            errors.append(error)
    return left, errors[0] if errors else None


def _may_be_listed(name: re.Match[str], state: LogState, decided: Callable[[int], bool]) -> bool:
    """Whether the driver that wrote a file of this name may still commit it."""
    generation = int(name["generation"])
    if name["incarnation"] not in (None, state.incarnation[:8]) or generation < state.generation:
        return False
    return generation > state.generation or name["epoch"] is None or not decided(int(name["epoch"]))
