"""Runs that end before a cluster is started, because of what the log says of their applications."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from pathlib import Path

from ...errors import HeadwaterError
from ..changes.model import Change
from ..log.errors import FullyRefreshedError
from ..progress.committed import Committed
from ..topology import Settings, Topology
from .beginning import check_log, check_state, look
from .failures.user_errors import user_error
from .pausing import check_not_paused
from .recompute.start import judged_start
from .reports.events import ApplicationStopped, Observer, Silent
from .reports.results import ApplicationResult, RunResults


def refused(
    topologies: Sequence[Topology],
    settings: Settings,
    state_dir: Path | None,
    observer: Observer | None = None,
    *,
    until_caught_up: bool = False,
    owned: Collection[str] | None = None,
) -> RunResults | None:
    """The results of a run whose applications are all refused because of what the log says; None if it can begin.

    Called before a cluster is started, which takes many seconds. `state_dir`: see `check_log`, `owned`: see
    `judged_start`. Raises OtherLogError.
    """
    started, begun = time.time_ns() // 1_000_000, time.monotonic()
    check_log(topologies, settings, state_dir)
    judged = judged_start(topologies, settings, owned)
    if judged.recomputed or judged.repartitions:
        return None
    errors = [_refusal(each, settings, until_caught_up, judged.known(each.application)) for each in topologies]
    results = tuple(
        ApplicationResult(topology.application, "failed", -1, 0, 0, 0.0, error=str(error), raised=error)
        for topology, error in zip(topologies, errors, strict=True)
        if error is not None
    )
    if not results or len(results) < len(errors):
        return None
    for result in results:
        (observer or Silent()).on(ApplicationStopped(result.application, result.status, 0, 0, result.error))
    return RunResults(started, time.monotonic() - begun, results)


def _refusal(
    topology: Topology, settings: Settings, until_caught_up: bool, known: Sequence[Change]
) -> HeadwaterError | None:
    """Why the application cannot start now; None if it can."""
    try:
        found = look(topology, settings)
        if until_caught_up:
            check_not_paused(topology, found.log)
        check_state(topology, Committed(found.log, topology, found.own), known)
    except FullyRefreshedError:  # it happened just now: the next look may find nothing wrong
        return None
    except Exception as failed:
        error = user_error(failed)
        if error is None:
            raise
        return error
    return None
