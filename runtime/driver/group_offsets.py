"""Offsets of a consumer group, so that Kafka's own tools show how far an application is."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager

from ...errors import HeadwaterError, UnavailableError
from ..ir.topology import Topology
from ..kafka.polling import beside
from ..kafka.sources import Clusters
from ..log.commit.external_records import EXTERNAL_LANE
from ..progress.committed import Committed
from ..task_id import TaskKey
from .events import Observer
from .service_events import KafkaOffsetsFailed

INTERVAL_SECONDS = 1.0
"""The least time between two commits of offsets."""

LAST_SECONDS = 2.0
"""How long the end of a run waits for its last commit of offsets. A cluster that does not answer takes longer."""

Place = tuple[str, str]
"""Cluster, and topic in Kafka."""

Offsets = Mapping[Place, Mapping[int, int]]
"""Topic -> partition -> position."""


class GroupOffsets(AbstractContextManager["GroupOffsets"]):
    """Commits an application's positions in raw topics to its consumer group, behind its own commits.

    Nothing here reads them: they are for Kafka's tools. So they are committed in the background. An error of a topic is
    only reported, once until its offsets can be committed again, and they are committed with the next try. Used from
    the loop's thread as a context, whose end commits the last positions if the clusters answer. `clusters`: of the raw
    topics. `seconds`: a monotonic clock.
    """

    def __init__(
        self,
        topology: Topology,
        committed: Committed,
        clusters: Clusters | None,
        observer: Observer,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts = [part for part in topology.subtopologies if any(topic.kafka for topic in part.sources)]
        self._application = topology.application
        self._committed = committed
        self._clusters = clusters or {}
        self._observer = observer
        self._seconds = seconds
        self._working: Future[None] | None = None
        self._done: dict[Place, Mapping[int, int]] = {}
        self._due = float("-inf")
        self._failing: set[Place] = set()

    def advance(self) -> None:
        """Commit new positions, if the last commit is not too recent and is done."""
        if not self._parts or self._seconds() < self._due or (self._working is not None and not self._working.done()):
            return
        self._due = self._seconds() + INTERVAL_SECONDS
        self._begin()

    def __exit__(self, *_: object) -> None:
        if not self._parts:
            return
        if self._working is not None:
            wait([self._working], LAST_SECONDS)
        if self._working is None or self._working.done():
            wait([self._begin()], LAST_SECONDS)

    def _begin(self) -> Future[None]:
        positions = self._positions()
        self._working = beside(lambda: self._commit(positions), f"{self._application}-offsets")
        return self._working

    def _positions(self) -> Offsets:
        positions: dict[Place, dict[int, int]] = defaultdict(dict)
        for part in self._parts:
            for topic in part.sources:
                for partition in range(topic.partitions if topic.kafka is not None else 0):
                    task = TaskKey(self._application, part.name, partition)
                    at = self._committed.own.tasks.last_commit(task).positions.get(topic.name, {}).get(EXTERNAL_LANE)
                    if at is not None and topic.kafka is not None:
                        positions[topic.kafka.cluster, topic.kafka.name][partition] = at
        return positions

    def _commit(self, positions: Offsets) -> None:
        """Commit the new positions, in a thread beside the loop. A cluster that does not answer is asked only once."""
        silent = set[str]()
        for (cluster, topic), offsets in positions.items():
            if cluster in silent or self._done.get((cluster, topic)) == offsets:
                continue
            try:
                self._clusters[cluster].commit(self._application, topic, offsets)
                self._done[cluster, topic] = offsets
                self._failing.discard((cluster, topic))
            except HeadwaterError as error:
                if isinstance(error, UnavailableError):
                    silent.add(cluster)
                if (cluster, topic) not in self._failing:
                    self._failing.add((cluster, topic))
                    self._observer.on(KafkaOffsetsFailed(self._application, topic, error.message))
