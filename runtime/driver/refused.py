"""Runs that end before a cluster is started, because of what the log says of their applications."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from ...errors import HeadwaterError
from ..log.errors import FullyRefreshedError
from ..progress.committed import Committed
from ..topology import Settings, Topology
from .beginning import check_log, check_state, look
from .failures.user_errors import user_error
from .pausing import check_not_paused
from .reports.events import ApplicationStopped, Observer, Silent
from .reports.results import ApplicationResult, RunResults


def refused(
    topologies: Sequence[Topology],
    settings: Settings,
    state_dir: Path | None,
    observer: Observer | None = None,
    *,
    until_caught_up: bool = False,
) -> RunResults | None:
    """The results of a run whose applications are all refused because of what the log says; None if it can begin.

    Called before a cluster is started, which takes many seconds. `state_dir`: see `check_log`. Raises OtherLogError.
    """
    started, begun = time.time_ns() // 1_000_000, time.monotonic()
    check_log(topologies, settings, state_dir)
    errors = [_refusal(topology, settings, until_caught_up) for topology in topologies]
    results = tuple(
        ApplicationResult(topology.application, "failed", -1, 0, 0, 0.0, error=str(error))
        for topology, error in zip(topologies, errors, strict=True)
        if error is not None
    )
    if not results or len(results) < len(errors):
        return None
    for result in results:
        (observer or Silent()).on(ApplicationStopped(result.application, result.status, 0, 0))
    return RunResults(started, time.monotonic() - begun, results)


def _refusal(topology: Topology, settings: Settings, until_caught_up: bool) -> HeadwaterError | None:
    """Why the application cannot start now; None if it can."""
    try:
        found = look(topology, settings)
        if until_caught_up:
            check_not_paused(topology, found.log)
        check_state(topology, Committed(found.log, topology, found.own))
    except FullyRefreshedError:  # it happened just now: the next look may find nothing wrong
        return None
    except Exception as failed:
        error = user_error(failed)
        if error is None:
            raise
        return error
    return None
