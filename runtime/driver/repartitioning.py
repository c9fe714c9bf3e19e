"""Changes that a run finds at its start, and the repartitioning of external topics."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from ...errors import HeadwaterError
from ..changes.rebuild import StartChanges, start_changes
from ..changes.repartition import external_topics
from ..chosen_plugins import log_of
from ..ingest.repartition import TOPIC_ERRORS, repartition
from ..ir.topology import Settings, Topology
from ..progress.committed import Committed
from .events import Observer, TopicRepartitioned


def changes_at_start(
    topologies: Sequence[Topology],
    settings: Settings,
    owned: Collection[str] | None = None,
    staying: Mapping[str, HeadwaterError] | None = None,
) -> StartChanges:
    """The changes of a run's applications. Applications with unreadable commits have none: their own start reports why.

    `owned`: the applications of the project's topologies; None if unknown. `staying`: see `start_changes`.
    """
    with suppress(HeadwaterError, OSError):
        log, committed = log_of(settings), dict[str, Committed]()
        for topology in topologies:
            with suppress(HeadwaterError, OSError):
                committed[topology.application] = Committed(log, topology)
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
) -> StartChanges:
    """Repartition external topics whose partitions or keys have changed, and return the changes of the applications;
    see `changes_at_start`.

    A topic that cannot be repartitioned stays as it is, and so do all if `stop` is set: only their readers do not
    start. Raises errors of the log that are not about one topic.
    """
    staying: dict[str, HeadwaterError] = {}
    while True:
        start = changes_at_start(topologies, settings, owned, staying)
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
