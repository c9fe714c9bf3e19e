"""Policies for failed records: of steps and repartition topics, and topics of dead letters.

`on_error` of a flow applies to its own steps; elsewhere the policy of the record's topic applies. A repartition topic
has the policy of the flow that writes it, or else the strictest of the topics upstream. A change of a regrouped table
is never skipped, because its rows go to several groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...runtime.ir.topology import OnError, dead_letter_topic
from ..entries import TopicModel, dead_letter_name
from ..model.build import kept_topics
from ..model.project import TopologyModel
from ..operations.base.operation import Lookup, Operation
from .connections import Forking, Merging, Reading, Writing
from .operation_graph import GraphOperation, OperationGraph

_STRICT: Sequence[OnError] = ("skip", "dead_letter", "fail")
"""Policies from the mildest to the strictest."""


def with_error_policies(
    wired: OperationGraph, topology: TopologyModel, topics: Mapping[str, TopicModel], application: str
) -> OperationGraph:
    """The graph, with policies of repartition topics, and topics of dead letters of sources.

    `topics`: the declared topics.
    """
    of_topics = _of_repartition_topics(wired, topology)
    wired = wired.with_operations(lambda op: _with_policy(op.operation, of_topics))
    repartitions = [v.operation.topic for v in wired.operations if isinstance(v.operation, Reading)]
    kept = {topic.name for topic in repartitions if topic.name in of_topics and topic.on_error == "dead_letter"}
    kept |= {*kept_topics(topology, topics)}
    for op in wired.operations:
        if _own(op, topology) == "dead_letter" and not _regrouped(wired, op):
            kept |= {reading.topic.name for reading in _sources(wired, op) if reading.repartition}
    return wired.with_operations(lambda op: _with_letters(op.operation, kept, topology, application))


def step_policies(
    wired: OperationGraph, part: Sequence[GraphOperation], topology: TopologyModel
) -> dict[OnError, tuple[str, ...]]:
    """The locations of steps of a subtopology with a policy of their flow, by policy."""
    locations: dict[OnError, dict[str, None]] = {}
    for op in part:
        own = _own(op, topology)
        if own is None or not op.at or isinstance(op.operation, (Merging, Forking)):
            continue
        if isinstance(op.operation, Reading) and len(op.operation.into) > 1:
            continue
        if own == "fail" or not _regrouped(wired, op):
            locations.setdefault(own, {})[op.at] = None
    return {policy: tuple(steps) for policy, steps in locations.items()}


def _own(op: GraphOperation, topology: TopologyModel) -> OnError | None:
    """The policy of an operation's flow; None if it has none."""
    flow = topology.flows.get(op.flow)
    return None if flow is None else flow.on_error


def _of_repartition_topics(wired: OperationGraph, topology: TopologyModel) -> dict[str, OnError]:
    of_edges: dict[int, OnError] = {}
    of_topics: dict[str, OnError] = {}
    for op in wired.operations:
        operation = op.operation
        if isinstance(operation, Reading):
            policy = of_topics[operation.topic.name] if operation.repartition else operation.topic.on_error
        else:
            policy = max((of_edges[edge] for edge in _read(op)), key=_STRICT.index, default="fail")
        if isinstance(operation, Writing) and operation.mode == "repartition":
            (edge,) = op.inputs
            of_table = wired.shapes[edge].is_table
            of_topics[operation.topic.name] = "fail" if of_table else _own(op, topology) or policy
        of_edges.update(dict.fromkeys(op.outputs, policy))
    return of_topics


def _with_policy(operation: Operation, of_topics: Mapping[str, OnError]) -> Operation:
    if isinstance(operation, (Reading, Writing)) and operation.topic.name in of_topics:
        return replace(operation, topic=replace(operation.topic, on_error=of_topics[operation.topic.name]))
    return operation


def _with_letters(operation: Operation, kept: set[str], topology: TopologyModel, application: str) -> Operation:
    """The operation, if it reads one of the topics whose failed records are kept, with their topic."""
    if not isinstance(operation, Reading) or operation.topic.name not in kept:
        return operation
    name = dead_letter_name(topology.name.text, operation.topic.name.removeprefix(f"{application}-"))
    return replace(operation, dead_letter=dead_letter_topic(name, operation.topic, application))


def _regrouped(wired: OperationGraph, op: GraphOperation) -> bool:
    """Whether an operation gets the changes of a regrouped table."""
    return any(
        reading.repartition and wired.shapes[edge].is_table
        for source in _upstream(wired, op)
        if isinstance(reading := source.operation, Reading)
        for edge in source.outputs
    )


def _sources(wired: OperationGraph, op: GraphOperation) -> list[Reading]:
    """The sources whose records reach an operation."""
    return [source.operation for source in _upstream(wired, op) if isinstance(source.operation, Reading)]


def _read(op: GraphOperation) -> tuple[int, ...]:
    """The edges of which an operation processes the records, without those where it only looks up rows."""
    operation = op.operation
    return (*op.inputs, op.lookups[0]) if isinstance(operation, Lookup) and operation.triggered else op.inputs


def _upstream(wired: OperationGraph, op: GraphOperation) -> list[GraphOperation]:
    """An operation and all upstream of it, in its subtopology."""
    upstream = {op.number: op}
    todo = [op]
    while todo:
        for edge in _read(todo.pop()):
            producer = wired.producer[edge]
            if producer.number not in upstream:
                upstream[producer.number] = producer
                todo.append(producer)
    return list(upstream.values())
