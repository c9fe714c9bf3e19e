"""Starts of applications whose topics are in Kafka, also while a cluster does not answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass

from ...errors import HeadwaterError, UnavailableError
from ..ir.topology import KafkaCluster, PluginRef, Settings, Topology
from ..kafka.polling import RETRY_SECONDS, beside
from ..kafka.sources import Clusters
from ..kafka.worker import offsets_of
from ..progress.kafka_ends import resolved
from ..records.schema import key_columns, value_columns
from ..serdes.serde import PayloadSpec, Role, Serde, ask_for_schema
from .events import ApplicationStopped, Observer
from .failures import Outages
from .results import ApplicationResult, Status

_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Start:
    """The applications of a run, as far as Kafka has answered.

    `ready`: those that can start, with what Kafka says of their raw topics. `waiting`: those whose partitions are
    unknown for `error`. `clusters`: of raw topics.
    """

    ready: tuple[Topology, ...]
    waiting: tuple[Topology, ...] = ()
    error: HeadwaterError | None = None
    clusters: Clusters | None = None


def _has_raw(topology: Topology) -> bool:
    return any(topic.kafka is not None for topic in topology.read)


def with_kafka(
    topologies: Sequence[Topology], settings: Settings, kafka: Clusters | None, stop: threading.Event | None = None
) -> Start:
    """Ask Kafka for the raw topics of the applications. `kafka`: the clusters; None: those of `settings`.

    If a cluster does not answer, or `stop` is set before it does, applications without raw topics are ready
    nevertheless. Raises the other errors of `KafkaOffsets`.
    """
    raw = tuple(filter(_has_raw, topologies))
    if not raw:
        return Start(tuple(topologies), clusters=kafka)
    clusters = offsets_of(settings.kafka) if kafka is None else kafka
    question = beside(lambda: resolved(raw, clusters), "kafka-topics")
    while not question.done() and not (stop is not None and stop.is_set()):
        wait([question], _LOOK_SECONDS)
    others = tuple(topology for topology in topologies if topology not in raw)
    if not question.done():
        return Start(others, raw, clusters=clusters)
    try:
        found = {topology.application: topology for topology in question.result()}
    except UnavailableError as error:
        return Start(others, raw, error, clusters)
    return Start(tuple(found.get(topology.application, topology) for topology in topologies), clusters=clusters)


def without_start(
    topologies: Sequence[Topology], error: HeadwaterError | None, observer: Observer
) -> tuple[ApplicationResult, ...]:
    """The results of applications that could not start for `error`; None: the run was stopped before."""
    status: Status = "not_started" if error is None else "failed"
    message = None if error is None else str(error)
    for topology in topologies:
        observer.on(ApplicationStopped(topology.application, status, 0, 0, message))
    return tuple(
        ApplicationResult(topology.application, status, -1, 0, 0, 0.0, error=message, raised=error)
        for topology in topologies
    )


def once_answered(
    start: Start,
    settings: Settings,
    observer: Observer,
    stop: threading.Event,
    run: Callable[[Sequence[Topology]], Sequence[ApplicationResult]],
) -> Sequence[ApplicationResult]:
    """Wait for Kafka, then run the waiting applications of a lasting run. If they cannot start, the others end too."""
    outages = [Outages(topology.application, observer) for topology in start.waiting]
    now = start
    while now.error is not None:
        for each in outages:
            each.begin("kafka", now.error.message)
        if stop.wait(RETRY_SECONDS):
            break
        try:
            now = with_kafka(start.waiting, settings, start.clusters, stop)
        except HeadwaterError as error:
            stop.set()
            return without_start(start.waiting, error, observer)
    if now.waiting:
        return without_start(start.waiting, None, observer)
    for each in outages:
        each.end("kafka")
    return run(now.ready)


def check_written_formats(
    topology: Topology, clusters: Mapping[str, KafkaCluster], serde: Callable[[PluginRef], Serde]
) -> None:
    """Write no record in each format: that asks for the schema, or registers it. Raises SerdeError if it does not fit.

    So an error comes before the first record does. Tasks wait for a registry that does not answer. It is asked only
    once here, as each question takes seconds.
    """
    silent = set[str]()
    for part in topology.subtopologies:
        sources = {topic.name: topic for topic in part.sources}
        for name, produced in part.produced.items():
            cluster = clusters.get(produced.kafka.cluster)
            if cluster is None or cluster.registry is None or produced.kafka.cluster in silent:
                continue
            key, value = key_columns(sources[name]), value_columns(sources[name])
            try:
                for role, form, columns in ((Role.KEY, produced.key, key), (Role.VALUE, produced.value, value)):
                    spec = PayloadSpec(produced.kafka.name, role, columns, cluster.registry)
                    ask_for_schema(serde(form), spec)
            except UnavailableError:
                silent.add(produced.kafka.cluster)
