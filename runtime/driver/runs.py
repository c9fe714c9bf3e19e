"""Runs of several applications, and those that are refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ...errors import HeadwaterError
from ..changes.model import Change
from ..chosen_plugins import log_of
from ..ir.topology import Settings, Topology
from ..log.errors import FullyRefreshedError
from ..progress.committed import Committed
from ..progress.committer import Committer
from ..task_id import TaskKey
from .application import ApplicationRun, check_log, check_state, look
from .cluster import Cluster
from .epoch_plans import MadeCommits
from .epochs import Feed
from .events import ApplicationStopped, Observer, Silent
from .failures import user_error
from .rebuild import Passes, Recomputing, together
from .repartitioning import judged_start, start_with_topics_in_place
from .results import ApplicationResult, RunResults
from .stopping import check_not_paused
from .upkeep import FedTopicsCleaning

# A run of several applications on one cluster: in turn until they are caught up, or all at the same time.
#
# Each topology has its own generation, commits and loop. A run until caught up takes them in the given order, which is
# graph order. A lasting run works on all of them at the same time.
#
# A run looks at all of its applications at its start, and does not claim one that another run has claimed since. Once
# one of its applications has been taken over, it claims no other. So a run that was suspended gives way to a newer one.


def run_topologies(
    topologies: Sequence[Topology],
    settings: Settings,
    cluster: Cluster,
    *,
    until_caught_up: bool,
    observer: Observer | None = None,
    stop: threading.Event | None = None,
    held: Callable[[TaskKey], bool] = lambda _: False,
    owned: Collection[str] | None = None,
    feed: Feed | None = None,
) -> RunResults:
    """Run applications on a cluster until they are caught up, or until `stop` is set.

    The result of an application has the error that ended it. What becomes of the others depends on the run:

    - A lasting run ends too, by setting `stop`. If records were the reason, it goes on with the applications that do
      not depend on the failed one.
    - A run until caught up goes on with the others, unless another run has taken one of them over.

    `owned`: see `judged_start`. `feed`: what gives records to a run of one application until caught up. Raises
    OtherLogError.
    """
    started, begun = time.time_ns() // 1_000_000, time.monotonic()
    stop = stop or threading.Event()
    observer = observer or Silent()
    try:
        check_log(topologies, settings, cluster.state_dir(settings))
        claimed: list[Committer] = []
        made = MadeCommits()
        ended: set[str] = set()
        judged = start_with_topics_in_place(topologies, settings, observer, stop, owned)

        def run_of(topology: Topology, settings: Settings) -> ApplicationRun:
            return ApplicationRun(
                cluster,
                topology,
                settings,
                observer,
                held,
                claimed,
                made,
                topologies,
                lambda: ended,
                judged.known(topology.application),
                patient=not until_caught_up,
                feed=feed,
            )

        recomputing = Recomputing(topologies, settings, cluster.state_dir(settings), judged, observer, owned)
        beside = recomputing.begin()
        runs = [run_of(each, settings) for each in topologies if each not in recomputing.members]
        # All of them before the first claim: a run must see what others have claimed up to the moment when it began.
        for run in runs:
            run.begin()
        lasting = not until_caught_up
        passes = Passes(recomputing, beside, run_of, _in_turn, observer, lambda: ended, lasting=lasting)
        log = log_of(settings)
        with FedTopicsCleaning(topologies, settings, log, observer) as cleaning:
            if until_caught_up:
                results = [_in_turn(run, stop) for run in runs]
                if recomputing.members:
                    passes.until_switched(stop)
                    results += passes.results.values()
                if all(result.status == "caught_up" for result in results):
                    cleaning.finish(stop)
            else:
                with ThreadPoolExecutor(len(runs) + 1) as pool:
                    recomputed = pool.submit(_recomputed, recomputing, passes, settings, run_of, stop, ended)
                    results = [*pool.map(lambda run: _lasting(run, stop, ended), runs), *recomputed.result()]
    finally:
        if not until_caught_up:
            stop.set()  # others may wait for it, and nothing runs any more
    order = [each.application for each in topologies]
    results.sort(key=lambda each: order.index(each.application))
    return RunResults(started, time.monotonic() - begun, tuple(results))


def _recomputed(
    recomputing: Recomputing,
    passes: Passes[ApplicationRun],
    settings: Settings,
    run_of: Callable[[Topology, Settings], ApplicationRun],
    stop: threading.Event,
    ended: set[str],
) -> list[ApplicationResult]:
    """Compute results again beside all else that runs, and go on with those that have taken the old ones' place.

    Where records keep the new results from being completed, the others go on, as they do not depend on them.
    """
    if not recomputing.members:
        return []
    going_on = False
    try:
        switched = passes.until_switched(stop)
        going_on = switched or passes.stopped_by_records
    finally:
        if not going_on:
            stop.set()
    if not switched:
        ended.update(each.application for each in recomputing.members)
        return list(passes.results.values())
    runs = [run_of(each, settings) for each in recomputing.members]
    for run, member in zip(runs, recomputing.members, strict=True):
        run.begin(passes.results[member.application].generation)
    with ThreadPoolExecutor(len(runs)) as pool:
        results = list(pool.map(lambda run: _lasting(run, stop, ended), runs))
    return [together(passes.results.get(each.application), each) for each in results]


def _in_turn(run: ApplicationRun, stop: threading.Event) -> ApplicationResult:
    """Run an application after others. If it is taken over, the following ones are not started."""
    result = run.run(stop, True)
    if result.status == "fenced":
        stop.set()
    return result


def _lasting(run: ApplicationRun, stop: threading.Event, ended: set[str]) -> ApplicationResult:
    """Run an application beside others. When it ends the others end too, unless tasks of it have stopped for a record:
    then those go on that can get records without it. `ended` is told.
    """
    try:
        result = run.run(stop, False)
    except BaseException:
        stop.set()
        raise
    if run.was_stopped_by_records:
        ended.add(result.application)
    else:
        stop.set()
    return result


# Runs that end before a cluster is started, because of what the log says of their applications.


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
