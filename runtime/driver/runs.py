"""Runs of several applications on one cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from ...errors import HeadwaterError
from ..changes.model import Change
from ..changes.rebuild import StartChanges, start_changes
from ..changes.repartition import external_topics
from ..chosen_plugins import log_of
from ..ingest.repartition import TOPIC_ERRORS, repartition
from ..ir.topology import Settings, Topology
from ..kafka.sources import Clusters
from ..log.errors import FullyRefreshedError
from ..log.state import LoadedStates
from ..progress.committed import Committed
from ..task_id import TaskKey
from ..timed_parts import wall_ms
from .application import ApplicationRun, check_log, check_state, load_start_state
from .cluster import Cluster
from .epochs import Feed
from .events import Observer, Observers, TopicRepartitioned
from .failures import user_error
from .kafka_starts import once_answered, with_kafka, without_start
from .loop import RunContext
from .rebuild import Passes, Rebuild, together
from .results import ApplicationResult, RunResults
from .stopping import check_not_paused
from .upkeep import ExternalTopicsCleaning

# Changes that a run finds at its start, and the repartitioning of external topics.


def changes_at_start(
    topologies: Sequence[Topology],
    settings: Settings,
    owned: Collection[str] | None = None,
    staying: Mapping[str, HeadwaterError] | None = None,
    kafka: Clusters | None = None,
) -> StartChanges:
    """The changes of a run's applications. Applications with unreadable commits have none: their own start reports why.

    `owned`: the applications of the project's topologies; None if unknown. `staying`: see `start_changes`. `kafka`: the
    clusters of raw topics; None: those of `settings`.
    """
    with suppress(HeadwaterError, OSError):
        log, committed = log_of(settings), dict[str, Committed]()
        for topology in topologies:
            with suppress(HeadwaterError, OSError):
                committed[topology.application] = Committed(log, topology, kafka=kafka)
        return start_changes(log, topologies, committed, owned, go_on=settings.go_on, staying=staying)
    return StartChanges()


class StoppedError(HeadwaterError):
    """The run was stopped during a repartitioning. The topics are unchanged."""

    def __init__(self) -> None:
        super().__init__("the run was stopped; the topics are as they were")


def start_with_topics_in_place(
    topologies: Sequence[Topology],
    settings: Settings,
    observer: Observer,
    stop: threading.Event,
    owned: Collection[str] | None = None,
    kafka: Clusters | None = None,
) -> StartChanges:
    """Repartition external topics whose partitions or keys have changed, and return the changes of the applications;
    see `changes_at_start`.

    A topic that cannot be repartitioned stays as it is, and so do all if `stop` is set: only their readers do not
    start. Raises errors of the log that are not about one topic.
    """
    staying: dict[str, HeadwaterError] = {}
    while True:
        start = changes_at_start(topologies, settings, owned, staying, kafka)
        try:
            _repartition(topologies, settings, start, observer, stop)
            return start
        except StoppedError as stopped:
            staying |= dict.fromkeys(start.repartitions, stopped)
        except TOPIC_ERRORS as error:
            staying[error.topic] = error


def _repartition(
    topologies: Sequence[Topology], settings: Settings, start: StartChanges, observer: Observer, stop: threading.Event
) -> None:
    """Repartition all topics in one commit. A topic whose readers are rebuilt must still have all of its records.

    Raises StoppedError, and the errors of `repartition`.
    """
    if not start.repartitions:
        return

    def go_on() -> None:
        if stop.is_set():
            raise StoppedError

    begun = time.monotonic()
    log, application = log_of(settings), f"{topologies[0].project}-seed"
    whole = {
        name
        for topology in topologies
        if topology.application in start.recomputed
        for name in external_topics(topology)
    }
    topics = [move.topic for move in start.repartitions.values()]
    delay = settings.file_delete_delay_ms
    for moved in repartition(log, application, topics, whole=whole, delay_ms=delay, go_on=go_on):
        seconds, was, now = time.monotonic() - begun, moved.was, moved.topic
        observer.on(
            TopicRepartitioned(
                application, now.name, moved.records, was.partitions, now.partitions, was.key, now.key, seconds
            )
        )


# Every topology has its own generation, commits and loop. A run until caught up runs them one after the other, in the
# given order, which is that of the graph. A lasting run runs all of them at the same time.
#
# A run loads the state of all its applications at its start, and does not claim one that another run has claimed since.
# Once one of its applications is taken over, it claims no other. So a run that was suspended gives way to a newer one.


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
    kafka: Clusters | None = None,
) -> RunResults:
    """Run applications on a cluster until they are caught up, or until `stop` is set.

    The result of an application has the error that ended it. The others:

    - In a lasting run they end too, as it sets `stop`. If failing records were the cause, applications that do not
      depend on the failed one continue.
    - In a run until caught up they continue, unless another run has taken one of them over.

    Applications with raw topics whose cluster does not answer at the start fail in a run until caught up, and start
    once it does in a lasting one. The others do not wait for it.

    `owned`, `kafka`: see `changes_at_start`. `feed`: gives records to a run of one application until caught up. Raises
    OtherLogError.
    """
    started, begun = wall_ms(), time.monotonic()
    stop, observer = stop or threading.Event(), observer or Observers()
    start = with_kafka(topologies, settings, kafka, stop)
    members = (*start.ready, *start.waiting)
    context = RunContext(cluster, members, not until_caught_up, observer, held, feed, kafka=start.clusters)

    def run(ready: Sequence[Topology]) -> list[ApplicationResult]:
        return _run(ready, settings, context, until_caught_up=until_caught_up, stop=stop, owned=owned)

    if not start.waiting:
        results = run(start.ready)
    elif until_caught_up or stop.is_set():
        results = [*without_start(start.waiting, start.error, observer), *(run(start.ready) if start.ready else ())]
    else:
        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(once_answered, start, settings, observer, stop, run)
            results = [*(run(start.ready) if start.ready else ()), *late.result()]
    order = [topology.application for topology in topologies]
    results.sort(key=lambda result: order.index(result.application))
    return RunResults(started, time.monotonic() - begun, tuple(results))


def _run(
    topologies: Sequence[Topology],
    settings: Settings,
    context: RunContext,
    *,
    until_caught_up: bool,
    stop: threading.Event,
    owned: Collection[str] | None,
) -> list[ApplicationResult]:
    """Run applications of a run, in their order. Kafka has answered for all of them."""
    cluster, observer, kafka = context.cluster, context.observer, context.kafka
    try:
        check_log(topologies, settings, cluster.state_dir(settings))
        start = start_with_topics_in_place(topologies, settings, observer, stop, owned, kafka)

        def run_of(topology: Topology, settings: Settings) -> ApplicationRun:
            return ApplicationRun(context, topology, settings, start.decided(topology.application))

        rebuild = Rebuild(topologies, settings, cluster.state_dir(settings), start, observer, owned)
        beside = rebuild.begin()
        runs = [run_of(topology, settings) for topology in topologies if topology not in rebuild.members]
        # All of them before the first claim: a run must see all claims up to its start.
        for run in runs:
            run.begin()
        passes = Passes(rebuild, beside, run_of, _in_turn, context)
        log = log_of(settings)
        with ExternalTopicsCleaning(topologies, settings, log, observer) as cleaning:
            if until_caught_up:
                results = [_in_turn(run, stop) for run in runs]
                if rebuild.members:
                    switched = passes.until_switched(stop)
                    results += passes.results.values()
                    for mirror in rebuild.mirrors if switched else ():
                        run = run_of(mirror, settings)
                        run.begin()
                        results.append(_in_turn(run, stop))
                if all(result.status == "caught_up" for result in results):
                    cleaning.finish(stop)
            else:
                with ThreadPoolExecutor(len(runs) + 1) as pool:
                    rebuilt = pool.submit(_rebuilt, rebuild, passes, context, settings, run_of, stop)
                    results = [*pool.map(lambda run: _lasting(run, stop, context.ended), runs), *rebuilt.result()]
    finally:
        if not until_caught_up:
            stop.set()  # other threads may wait for it, and nothing runs any more
    return results


def _rebuilt(
    rebuild: Rebuild,
    passes: Passes,
    context: RunContext,
    settings: Settings,
    run_of: Callable[[Topology, Settings], ApplicationRun],
    stop: threading.Event,
) -> list[ApplicationResult]:
    """Rebuild results in parallel to the other applications of a lasting run, then run the rebuilt applications.

    If failing records stop the rebuilds, the others continue, as they do not depend on them.
    """
    if not rebuild.members:
        return []
    others_continue = False
    try:
        switched = passes.until_switched(stop)
        others_continue = switched or passes.stopped_by_records
    finally:
        if not others_continue:
            stop.set()
    if not switched:
        context.ended.update(topology.application for topology in rebuild.members)
        return list(passes.results.values())
    runs = [run_of(topology, settings) for topology in rebuild.members]
    for run, member in zip(runs, rebuild.members, strict=True):
        passed = passes.results.get(member.application)
        run.begin(-1 if passed is None else passed.generation)
    with ThreadPoolExecutor(len(runs)) as pool:
        results = list(pool.map(lambda run: _lasting(run, stop, context.ended), runs))
    return [together(passes.results.get(result.application), result) for result in results]


def _in_turn(run: ApplicationRun, stop: threading.Event) -> ApplicationResult:
    """Run an application until caught up. If it is taken over, the following ones are not started."""
    result = run.run(stop, True)
    if result.status == "fenced":
        stop.set()
    return result


def _lasting(run: ApplicationRun, stop: threading.Event, ended: set[str]) -> ApplicationResult:
    """Run an application in a lasting run. At its end the others end too, unless its tasks have stopped at failing
    records: then applications that can get records without it continue, and it is added to `ended`.
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


def failed_start(
    topologies: Sequence[Topology],
    settings: Settings,
    state_dir: Path | None,
    observer: Observer | None = None,
    *,
    until_caught_up: bool = False,
    owned: Collection[str] | None = None,
    kafka: Clusters | None = None,
) -> RunResults | None:
    """The results of a run in which no application can start, because of their state in the log; None if one can.

    Called before a cluster is started, which takes many seconds. `state_dir`: see `check_log`; `owned`, `kafka`: see
    `changes_at_start`. Raises OtherLogError.
    """
    started, begun = wall_ms(), time.monotonic()
    answered = with_kafka(topologies, settings, kafka)
    if answered.waiting and not until_caught_up:
        return None  # they wait for Kafka
    check_log(topologies, settings, state_dir)
    start = changes_at_start(answered.ready, settings, owned, kafka=answered.clusters)
    if start.recomputed or start.repartitions:
        return None
    loaded = LoadedStates()
    errors: dict[str, HeadwaterError | None] = {topology.application: answered.error for topology in answered.waiting}
    for topology in answered.ready:
        decided = start.decided(topology.application)
        errors[topology.application] = _refusal(topology, settings, until_caught_up, decided, loaded, answered.clusters)
    if not all(errors.values()):
        return None
    seen = observer or Observers()
    results = [result for each in topologies for result in without_start([each], errors[each.application], seen)]
    return RunResults(started, time.monotonic() - begun, tuple(results))


def _refusal(
    topology: Topology,
    settings: Settings,
    until_caught_up: bool,
    changes: Sequence[Change],
    loaded: LoadedStates,
    kafka: Clusters | None,
) -> HeadwaterError | None:
    """The error for which an application cannot start; None if it can."""
    try:
        start = load_start_state(topology, settings, loaded)
        if until_caught_up:
            check_not_paused(topology, start.log)
        check_state(topology, Committed(start.log, topology, start.own, kafka=kafka), changes)
    except FullyRefreshedError:  # it was fully refreshed just now: the run itself may start
        return None
    except Exception as failed:
        error = user_error(failed)
        if error is None:
            raise
        return error
    return None
