"""Finds the columns that must travel: only those that a later step reads, all the way back to the topics.

All key columns travel. `NOW`, the epoch's planned time, is added by the Python stage before the step that needs it.
"""

from __future__ import annotations

from ..operations.base.edge import NOW
from ..operations.base.operation import Lookup
from ..operations.parts.foreign_key import Responding
from .connections import Reading, Writing
from .operation_graph import Vertex, Wired

Needed = dict[int, frozenset[str]]


def live_columns(wired: Wired) -> Needed:
    """For each edge, the value columns that are read later."""
    needed: dict[int, frozenset[str]] = dict.fromkeys(wired.shapes, frozenset())
    topics: dict[str, frozenset[str]] = {}
    """What the readers of each repartition topic need."""
    # From the end, so that the readers of an edge, or of a repartition topic, come before its writer.
    for vertex in reversed(wired.vertices):
        operation = vertex.operation
        output = _needed_behind(vertex, needed, topics)
        if isinstance(operation, Reading) and operation.repartition:
            topics[operation.topic.name] = topics.get(operation.topic.name, frozenset()) | (output - {NOW})
        for edge in vertex.inputs:
            needed[edge] |= operation.needs(output, frozenset(wired.shapes[edge].value))
        if isinstance(operation, Lookup | Responding):
            # Of the others only the order of their changes is read.
            for edge in vertex.lookups[:1]:
                needed[edge] |= operation.needs_of_table(output)
    return needed


def _needed_behind(vertex: Vertex, needed: Needed, topics: dict[str, frozenset[str]]) -> frozenset[str]:
    """The needed columns of an operation's outputs; for a repartition topic, those that its readers need."""
    if isinstance(vertex.operation, Writing):
        return topics.get(vertex.operation.topic.name, frozenset())
    return frozenset().union(*(needed[edge] for edge in vertex.outputs))
