"""Which engine runs an operation: the one place where that is decided.

State, topics and order need Python; expressions need Spark SQL; renaming and selecting columns is free in Arrow, and
copying and merging edges is possible in both. A hop between the two costs about 0.4 s per million rows, so what both
can do stays where the rows are: in SQL only if they would have to come back for another SQL step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ..language.expressions import Expression
from ..language.operations import Explosion, Filter, Projection, Rekeying, Tabling
from .wired import Forking, Merging, Splitting, Vertex, Wired

Engine = Literal["python", "sql"]


def is_pure(columns: Mapping[str, Expression]) -> bool:
    """Whether columns are only renamed or selected."""
    return all(e.plain is not None and e.plain.role in ("key", "value") for e in columns.values())


def possible(vertex: Vertex, needed: frozenset[str]) -> Engine | Literal["either"]:
    """Where an operation can run; `needed`: the value columns of its output that some later step reads."""
    match vertex.action:
        case Filter() | Explosion() | Splitting():
            return "sql"
        case Projection(columns=columns):
            return "either" if is_pure({n: e for n, e in columns.items() if n in needed}) else "sql"
        case Rekeying(columns=columns):
            return "either" if is_pure(columns) else "sql"
        case Forking() | Merging():
            return "either"
    return "python"


def levels(wired: Wired, needed: Mapping[int, frozenset[str]]) -> dict[int, int]:
    """The stage of each vertex: even numbers are Python stages, odd ones SQL in between; each as early as can be.

    A table that is there for joins only moves to the first of them, so that its source's rows cross SQL in its place.
    """
    producer, consumers = wired.producer, wired.consumers
    engines = {
        vertex.number: possible(vertex, frozenset().union(*(needed[edge] for edge in vertex.outputs)))
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
        if isinstance(vertex.action, Tabling) and readers and only_looked_at:
            found[vertex.number] = min(found[reader.number] for reader in readers)
    return found
