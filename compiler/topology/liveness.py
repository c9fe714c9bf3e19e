"""Which columns travel: only those that some later step reads, back to the topics themselves.

Keys always travel whole. `NOW`, the epoch's planned time, is needed no further back than the Python stage before.
"""

from __future__ import annotations

from ..operations.base.edge import NOW
from ..operations.base.operation import Lookup
from .connections import Reading, Writing
from .wired import Vertex, Wired

Needed = dict[int, frozenset[str]]


def live_columns(wired: Wired) -> Needed:
    """For each edge the value columns that are read further on."""
    needed: dict[int, frozenset[str]] = dict.fromkeys(wired.shapes, frozenset())
    topics: dict[str, frozenset[str]] = {}
    """What the readers of each repartition topic need."""
    for vertex in reversed(wired.vertices):
        operation = vertex.operation
        output = _needed_behind(vertex, needed, topics)
        if isinstance(operation, Reading) and operation.repartition:
            topics[operation.topic.name] = topics.get(operation.topic.name, frozenset()) | (output - {NOW})
        for edge in vertex.inputs:
            needed[edge] |= operation.needs(output, frozenset(wired.shapes[edge].value))
        if isinstance(operation, Lookup):
            for edge in vertex.lookups:
                needed[edge] |= operation.needs_of_table(output)
    return needed


def _needed_behind(vertex: Vertex, needed: Needed, topics: dict[str, frozenset[str]]) -> frozenset[str]:
    """What is needed of an operation's outputs; of a repartition topic, what its readers need."""
    if isinstance(vertex.operation, Writing):
        return topics.get(vertex.operation.topic.name, frozenset())
    return frozenset().union(*(needed[edge] for edge in vertex.outputs))
