"""The topics in Kafka that an application writes: whether they are still those that it has written to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...errors import HeadwaterError, UnavailableError
from ..ir.topology import Subtopology, Topology
from ..kafka.sources import Clusters, topic_of
from ..log.state import LogState


class KafkaTargetReplacedError(HeadwaterError):
    """A topic in Kafka was deleted and created again: it lacks what was written. `topic`: of the log."""

    def __init__(self, application: str, topic: str, target: str, was: str, now: str) -> None:
        move = f"headwater rewind {application.partition('-')[2]} --topic {topic} --to"
        super().__init__(
            f"{target} in Kafka was deleted and created again (its id was {was}, and is {now}): it lacks the records "
            f"of {topic} that were written before",
            f"to write all of them again: {move} earliest; to go on with later records only: {move} latest",
        )
        self.topic = topic


def with_target_ids(topology: Topology, own: LogState, clusters: Clusters) -> Topology:
    """The topology with the ids that the topics have to which it writes. If a cluster does not answer, these are those
    of the last start (`own`: the application's state).

    Raises errors of `KafkaOffsets`, such as those of a missing topic.
    """
    return replace(topology, subtopologies=tuple(_with_ids(part, own, clusters) for part in topology.subtopologies))


def _with_ids(part: Subtopology, own: LogState, clusters: Clusters) -> Subtopology:
    found = dict(part.produced)
    for topic, produced in part.produced.items():
        kafka = produced.kafka
        try:
            topic_id = clusters[kafka.cluster].offsets([kafka.name])[kafka.name].id
        except UnavailableError:
            before = topic_of(own.topology.targets.get(topic, ""))
            topic_id = before.id if before is not None and before.name == kafka.name else ""
        found[topic] = replace(produced, kafka=replace(kafka, id=topic_id))
    return replace(part, produced=found)


def check_targets(topology: Topology, own: LogState) -> None:
    """Raise KafkaTargetReplacedError if a topic is another one than at the last start of the application, `own`."""
    for topic, was, now in _replaced(topology, own):
        raise KafkaTargetReplacedError(topology.application, topic, *was, now)


def _replaced(topology: Topology, own: LogState) -> Iterator[tuple[str, tuple[str, str], str]]:
    """(Topic of the log, name and former id of that in Kafka, its present id)."""
    for part in topology.subtopologies:
        for topic, produced in part.produced.items():
            now, token = produced.kafka, own.topology.targets.get(topic)
            was = None if token is None else topic_of(token)
            if was is not None and now.id and (was.name, was.cluster) == (now.name, now.cluster) and was.id != now.id:
                yield topic, (was.name, was.id), now.id
