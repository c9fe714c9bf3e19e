"""Which columns of the topics that an application reads enter which columns that it writes.

Operators and steps in SQL say what their columns are made of; here that is followed from the sources to the sinks.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.errors import SqlglotError

from ..engine.operators.operator import NO_INPUTS, OWN, Column, EdgeColumns, Inputs, Operator, topic_columns, union
from ..engine.steps import after, columns_between, nodes_of, steps_of
from ..expressions.misread import parse_expression
from ..ir.topology import Topic, Topology

TopicInputs = dict[str, dict[str, Inputs]]
"""Topic -> column (`key.<name>`, `value.<name>`) -> the columns of topics that enter it."""


def column_lineage(topology: Topology) -> TopicInputs:
    """What enters the topics that are written, of topics that are read from outside."""
    internal = {name for part in topology.subtopologies for name in part.repartition_topics}
    written: TopicInputs = {}
    for _ in range(len(internal) + 1):  # as often as records can pass from one subtopology to the next
        lineage = _Traced({name: columns for name, columns in written.items() if name in internal})
        written = {}
        for part in topology.subtopologies:
            for step, edges, _ in columns_between(steps_of(part), lineage):
                for node in nodes_of([step]):
                    # A source writes dead letters, which have columns of their own, and reads no edge.
                    if isinstance(node, Operator) and node.reads:
                        for topic in node.topics_written:
                            _add(written, topic, edges[node.reads[0]])
                    edges = after(node, edges, lineage)
    return {name: columns for name, columns in written.items() if name not in internal}


def _add(written: TopicInputs, topic: Topic, edge: EdgeColumns) -> None:
    """Add the columns of a topic, which several flows may write."""
    before = written.get(topic.name)
    columns = _named(edge)
    inputs = {name: columns[name].inputs for name in _named(topic_columns(topic))}
    written[topic.name] = inputs if before is None else {name: union([before[name], inputs[name]]) for name in inputs}


def _named(edge: EdgeColumns) -> dict[str, Column]:
    sides = zip(("key", "value"), edge.sides, strict=True)
    return {f"{side}.{name}": column for side, columns in sides for name, column in columns.items()}


class _Traced:
    """A Lineage. `repartitioned`: what enters repartition topics, as far as it is known."""

    def __init__(self, repartitioned: Mapping[str, Mapping[str, Inputs]]) -> None:
        self._repartitioned = repartitioned

    def topic(self, topic: Topic) -> EdgeColumns:
        """The columns of a topic from outside are their own inputs."""
        edge = topic_columns(topic)
        outside = {name: frozenset({(topic.name, name)}) for name in _named(edge)}
        inputs: Mapping[str, Inputs] = self._repartitioned.get(topic.name, outside)
        key = {name: column.with_inputs(inputs[f"key.{name}"]) for name, column in edge.key.items()}
        return EdgeColumns(
            key, {name: column.with_inputs(inputs[f"value.{name}"]) for name, column in edge.value.items()}
        )

    def expression(self, sql: str, edge: EdgeColumns) -> Inputs:
        """What enters an expression; None if a name in it is no column."""
        try:
            tree = parse_expression(sql)
        except SqlglotError:
            return None
        by_name = {name.lower(): column.inputs for name, column in edge.physical.items()}
        return union(_inputs(column, by_name) for column in tree.find_all(exp.Column))


def _inputs(column: exp.Column, by_name: Mapping[str, Inputs]) -> Inputs:
    """Spark finds columns whatever the case of their letters. Of `a.b` it is `a`, where that is a column: a struct."""
    names = [part.name.lower() for part in column.parts]
    if names[0] in OWN:
        return NO_INPUTS
    return by_name.get(names[0], by_name.get(".".join(names)))
