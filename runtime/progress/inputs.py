"""Checks at the start of a run that the topics of an application are written and declared as it expects."""

from __future__ import annotations

from ..log.declared_topics import check_declaration, check_writers
from ..topology import Topology
from .committed import Committed


def check_topics(topology: Topology, committed: Committed) -> None:
    """Compare each topic that is read or written with what the log says of its writer and its declaration.

    Raises WriterChangedError, TopicChangedError.
    """
    read = [
        topic
        for part in topology.subtopologies
        for topic in (*part.sources, *(table.topic for table in part.global_tables))
    ]
    written = [topic for part in topology.subtopologies for topic in part.sinks]
    check_writers(committed.log, topology.project, [*read, *written], committed.states)
    for topic in read:
        if topic.writer != topology.application:  # `compatibility` compares topics that it writes itself
            check_declaration(topic, committed.of(topic))
