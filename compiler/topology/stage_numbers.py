"""Decides in which stage each operation runs. No other module decides this.

State, topics and order need Python. Expressions need Spark SQL. Renaming and selecting columns costs nothing in Arrow,
and copying and merging edges is possible in both. Each operation says where it can run. A hop between the two costs
about 0.4 s for a million rows. So an operation that can run in both runs where the rows are. It runs in SQL only if the
rows would otherwise come back for another SQL step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..operations.base.operation import Engine
from ..operations.parts.tables import ToTable
from .operation_graph import Vertex, Wired
from .sharing.groups import Group


def stage_numbers(wired: Wired, needed: Mapping[int, frozenset[str]], groups: Sequence[Group] = ()) -> dict[int, int]:
    """The stage of each vertex, as early as possible. Even numbers are Python stages; odd ones are SQL between them.

    Those of one of `groups` are in the same Python stage, the first in which all of them can be: also the steps with
    expressions that stand between its processors.
    A table that only joins read moves to the stage of the first join. Then the rows of its source cross SQL, and not
    those of the table.
    """
    producer, consumers = wired.producer, wired.consumers
    in_python = {vertex.number for group in groups for vertex in group}
    engines: dict[int, Engine] = {
        vertex.number: "python"
        if vertex.number in in_python
        else vertex.operation.engine(frozenset().union(*(needed[edge] for edge in vertex.outputs)))
        for vertex in wired.vertices
    }

    def leads_to_sql(vertex: Vertex) -> bool:
        following = [reader for edge in vertex.outputs for reader in consumers[edge]]
        return any(
            engines[reader.number] == "sql" or (engines[reader.number] == "either" and leads_to_sql(reader))
            for reader in following
        )

    found: dict[int, int] = {}
    least = dict.fromkeys((vertex.number for vertex in wired.vertices), 0)

    def place(vertex: Vertex) -> None:
        before = max((found[producer[edge].number] for edge in (*vertex.inputs, *vertex.lookups)), default=0)
        engine = engines[vertex.number]
        # A hop between Python and the JVM costs more than a simple step: an operation that can run in both stays where
        # the rows are, and in SQL only if they are needed there later as well.
        in_sql = engine == "sql" or (engine == "either" and before % 2 == 1 and leads_to_sql(vertex))
        found[vertex.number] = max(before if (before % 2 == 1) == in_sql else before + 1, least[vertex.number])

    while True:
        for vertex in wired.vertices:
            place(vertex)
        late = {each.number: max(found[other.number] for other in group) for group in groups for each in group}
        if all(found[number] == stage for number, stage in late.items()):
            break
        least |= late
    for vertex in wired.vertices:
        readers = [reader for edge in vertex.outputs for reader in consumers[edge]]
        only_looked_at = all(edge in reader.lookups for reader in readers for edge in vertex.outputs)
        if isinstance(vertex.operation, ToTable) and readers and only_looked_at:
            found[vertex.number] = min(found[reader.number] for reader in readers)
    return found
