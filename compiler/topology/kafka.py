"""The graphs of the two applications that copy topics from Kafka and to Kafka. No file declares them.

Each has a subtopology for each topic, which is named after it: as a step, so its policy for failed records, its dead
letters, its plan and its metrics are those of a flow that reads the topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from ...runtime.engine.operators.kafka import Decode, Produce
from ...runtime.engine.operators.operator import Operator
from ...runtime.engine.operators.topics import Sink, Source, topics_written
from ...runtime.ir.topology import Assignment, KafkaTopic, PluginRef, Recomputed, Topic, raw_topic, start_at_group
from ..entries import KafkaModel, TopicModel, dead_letter_name
from ..model.project import FROM_KAFKA, TO_KAFKA, ProjectModel
from .graph import ProcessorNode, PythonStage, SubtopologyGraph, TopologyGraph
from .subtopologies import identifier

_FILES = "topics/*.yml"
"""The file of a graph with topics of several files."""


def graph_from_kafka(model: ProjectModel, topics: Mapping[str, Topic]) -> Iterator[TopologyGraph]:
    """The graph of the application that writes the topics which Kafka has, if the target and the project have any."""
    if model.read_from_kafka:
        description = "Copies topics from Kafka: those with `kafka:` that no flow writes."
        parts = [_from_kafka(model, topic, topics) for topic in model.read_from_kafka]
        yield _graph(model, FROM_KAFKA, description, model.read_from_kafka, parts)


def graph_to_kafka(model: ProjectModel, topics: Mapping[str, Topic]) -> Iterator[TopologyGraph]:
    """The graph of the application that reads topics for Kafka, if the target and the project have any."""
    if model.written_to_kafka:
        description = "Copies topics to Kafka: those with `kafka:` that a flow writes."
        parts = [_to_kafka(model, topic, topics) for topic in model.written_to_kafka]
        yield _graph(model, TO_KAFKA, description, model.written_to_kafka, parts)


def kafka_topic(model: ProjectModel, topic: TopicModel) -> KafkaTopic:
    """The topic of Kafka that a topic is. Only in a target with Kafka, for a topic with `kafka:`."""
    kafka = _kafka(topic)
    cluster = model.clusters[0] if kafka.cluster is None else kafka.cluster.text
    headers = kafka.headers is None or kafka.headers.text != "drop"
    return KafkaTopic(topic.name.text if kafka.topic is None else kafka.topic.text, cluster, headers=headers)


def _from_kafka(model: ProjectModel, topic: TopicModel, topics: Mapping[str, Topic]) -> tuple[Operator, ...]:
    kafka, name = _kafka(topic), topic.name.text
    at, written, origin = kafka.word.position.line_text, topics[name], kafka_topic(model, topic)
    raw = raw_topic(origin.name, origin.cluster, on_error=topic.on_error, headers=origin.headers)
    start = None if kafka.start is None else kafka.start.text
    start = start if kafka.group is None else start_at_group(kafka.group.text)
    return (
        Source(raw, name, dead_letter=topics.get(dead_letter_name(FROM_KAFKA, name)), start=start, at=at),
        Decode(name, raw, written, key=kafka.key_format, value=kafka.value_format, at=at),
        Sink(name, written, at=at),
    )


def _to_kafka(model: ProjectModel, topic: TopicModel, topics: Mapping[str, Topic]) -> tuple[Operator, ...]:
    kafka, name = _kafka(topic), topic.name.text
    at, read, letters = kafka.word.position.line_text, topics[name], topics.get(dead_letter_name(TO_KAFKA, name))
    key, value = kafka.key_format, kafka.value_format
    return (
        Source(read, name, dead_letter=letters, at=at),
        Produce(name, read, kafka_topic(model, topic), key=key, value=value, recomputed=_recomputed(kafka), at=at),
    )


def _recomputed(kafka: KafkaModel) -> Recomputed:
    return "refuse" if kafka.recomputed is None else cast(Recomputed, kafka.recomputed.text)


def _kafka(topic: TopicModel) -> KafkaModel:
    assert topic.kafka is not None, f"{topic.name.text} is no topic of Kafka"
    return topic.kafka


def _graph(
    model: ProjectModel,
    name: str,
    description: str,
    topics: Sequence[TopicModel],
    operators: Sequence[tuple[Operator, ...]],
) -> TopologyGraph:
    files = {topic.name.position.file for topic in topics}
    parts: list[SubtopologyGraph] = []
    for topic, nodes in zip(topics, operators, strict=True):
        first = sum(len(part.nodes) for part in parts)
        parts.append(_part(len(parts), topic.name.text, nodes, first))
    ours = {topic.name: topic for part in parts for topic in (*part.sinks, *part.sources) if topic.kafka is None}
    theirs = {topic.name: topic for part in parts for topic in part.sources if topic.kafka is not None}
    return TopologyGraph(
        project=model.name,
        name=name,
        version=model.version,
        description=description,
        file=next(iter(files)) if len(files) == 1 else _FILES,
        topics=(*ours.values(), *theirs.values()),
        stores=(),
        global_tables=(),
        subtopologies=tuple(parts),
        assignment=Assignment(),
        restore=PluginRef("changelog"),
    )


def _part(number: int, name: str, operators: Sequence[Operator], first: int) -> SubtopologyGraph:
    """A subtopology. `first`: the number of its first processor node."""
    (source,) = (topic for operator in operators for topic in operator.topics_read)
    return SubtopologyGraph(
        number=number,
        name=name,
        function=identifier(name),
        partitions=source.partitions,
        sources=(source,),
        sinks=topics_written(operators),
        stores=(),
        global_tables=(),
        stages=(PythonStage(tuple(operators)),),
        nodes=tuple(_nodes(name, operators, first)),
    )


def _nodes(name: str, operators: Sequence[Operator], first: int) -> Iterator[ProcessorNode]:
    """The operators in the format of Kafka Streams, one behind the other."""
    nodes = [_node(name, operator, number) for number, operator in enumerate(operators, first)]
    for before, node, behind in zip((None, *nodes), nodes, (*nodes[1:], None), strict=False):
        yield replace(
            node,
            predecessors=() if before is None else (before.name,),
            successors=() if behind is None else (behind.name,),
        )


def _node(name: str, operator: Operator, number: int) -> ProcessorNode:
    about = f"{name}: {operator.text}, {operator.at}"
    match operator:
        case Source():
            topics = (operator.topic.name,)
            return ProcessorNode("source", f"KSTREAM-SOURCE-{number:010d}", topics, about=about, at=str(operator.at))
        case Sink():
            topics = (operator.topic.name,)
        case Produce():
            topics = (raw_topic(operator.kafka.name, operator.kafka.cluster).name,)
        case _:
            return ProcessorNode("processor", f"KSTREAM-DECODE-{number:010d}", about=about, at=str(operator.at))
    return ProcessorNode("sink", f"KSTREAM-SINK-{number:010d}", topics, about=about, at=str(operator.at))
