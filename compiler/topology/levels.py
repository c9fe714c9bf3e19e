"""The stage in which each operation runs: the one place where that is decided.

State, topics and order need Python; expressions need Spark SQL; renaming and selecting columns is free in Arrow, and
copying and merging edges is possible in both. Each operation says where it can run. A hop between the two costs about
0.4 s per million rows, so what both can do stays where the rows are: in SQL only if they would have to come back for
another SQL step.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..operations.to_table import ToTable
from .wired import Vertex, Wired


def levels(wired: Wired, needed: Mapping[int, frozenset[str]]) -> dict[int, int]:
    """The stage of each vertex: even numbers are Python stages, odd ones SQL in between; each as early as can be.

    A table that is there for joins only moves to the first of them, so that its source's rows cross SQL in its place.
    """
    producer, consumers = wired.producer, wired.consumers
    engines = {
        vertex.number: vertex.operation.engine(frozenset().union(*(needed[edge] for edge in vertex.outputs)))
        for vertex in wired.vertices
    }

    def leads_to_sql(vertex: Vertex) -> bool:
        following = [reader for edge in vertex.outputs for reader in consumers[edge]]
        return any(
            engines[reader.number] == "sql" or (engines[reader.number] == "either" and leads_to_sql(reader))
            for reader in following
        )

    found: dict[int, int] = {}
    for vertex in wired.vertices:
        before = max((found[producer[edge].number] for edge in (*vertex.inputs, *vertex.lookups)), default=0)
        engine = engines[vertex.number]
        in_sql = engine == "sql" or (engine == "either" and before % 2 == 1 and leads_to_sql(vertex))
        found[vertex.number] = before if (before % 2 == 1) == in_sql else before + 1
    for vertex in wired.vertices:
        readers = [reader for edge in vertex.outputs for reader in consumers[edge]]
        only_looked_at = all(edge in reader.lookups for reader in readers for edge in vertex.outputs)
        if isinstance(vertex.operation, ToTable) and readers and only_looked_at:
            found[vertex.number] = min(found[reader.number] for reader in readers)
    return found
