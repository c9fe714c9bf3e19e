"""Repartitioning of topics at the start of a run."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from ...errors import HeadwaterError
from ..changes.rebuild import Judged, judge
from ..changes.repartition import fed_topics
from ..chosen_plugins import log_of
from ..ingest.repartition_switch import TOPIC_ERRORS, repartition
from ..ir.topology import Settings, Topology
from ..progress.committed import Committed
from .events import Observer, TopicRepartitioned

# What a run finds changed at its start: which applications it refuses, and whose results it computes again.


def judged_start(
    topologies: Sequence[Topology],
    settings: Settings,
    owned: Collection[str] | None = None,
    staying: Mapping[str, HeadwaterError] | None = None,
) -> Judged:
    """What has changed about the applications of a run. Nothing is said of those whose commits cannot be read: their
    own start tells why. `owned`: the applications of the project's topologies, None if they are not known. `staying`:
    see `judge`.
    """
    committed: dict[str, Committed] = {}
    for topology in topologies:
        with suppress(HeadwaterError, OSError):
            committed[topology.application] = Committed(log_of(settings), topology)
    with suppress(HeadwaterError, OSError):
        return judge(log_of(settings), topologies, committed, owned, go_on=settings.go_on, staying=staying)
    return Judged()


# Puts the records of topics where the project has them now, before what reads them is computed again.
#
# A topic with which that cannot be done stops those that read it, and no others.


class StoppedError(HeadwaterError):
    """The run was told to stop in the midst of it. Nothing has changed."""

    def __init__(self) -> None:
        super().__init__("the run was stopped; the topics are as they were")


def start_with_topics_in_place(
    topologies: Sequence[Topology],
    settings: Settings,
    observer: Observer,
    stop: threading.Event,
    owned: Collection[str] | None = None,
) -> Judged:
    """What has changed about the applications of a run, once the records lie where the project has them; see
    `judged_start`. If `stop` is set before, they stay where they are.

    Raises errors of the log that are not about one topic.
    """
    staying: dict[str, HeadwaterError] = {}
    while True:
        judged = judged_start(topologies, settings, owned, staying)
        try:
            _repartition(topologies, settings, judged, observer, stop)
            return judged
        except StoppedError as stopped:
            staying |= dict.fromkeys(judged.repartitions, stopped)
        except TOPIC_ERRORS as error:
            staying[error.topic] = error


def _repartition(
    topologies: Sequence[Topology], settings: Settings, judged: Judged, observer: Observer, stop: threading.Event
) -> None:
    """Do all of it with one commit, or nothing. Of a topic whose readers have consumed some, all records must be there.

    Raises StoppedError, and what `repartition` raises.
    """
    if not judged.repartitions:
        return

    def go_on() -> None:
        if stop.is_set():
            raise StoppedError

    begun = time.monotonic()
    log, application = log_of(settings), f"{topologies[0].project}-seed"
    whole = {name for each in topologies if each.application in judged.recomputed for name in fed_topics(each)}
    topics = [each.topic for each in judged.repartitions.values()]
    delay = settings.file_delete_delay_ms
    for moved in repartition(log, application, topics, whole=whole, delay_ms=delay, go_on=go_on):
        seconds, was, now = time.monotonic() - begun, moved.was, moved.topic
        observer.on(
            TopicRepartitioned(
                application, now.name, moved.records, was.partitions, now.partitions, was.key, now.key, seconds
            )
        )
