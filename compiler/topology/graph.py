"""The graph of a topology: the input of the code emitter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ...runtime.engine.operators.operator import Flow, Operator
from ...runtime.engine.operators.stateless import Call
from ...runtime.engine.sql_step import SqlStep
from ...runtime.ir.functions import Udf
from ...runtime.ir.topology import Assignment, GlobalTable, OnError, PluginRef, Store, Topic
from ..operations.base.operation import Lookup
from ..operations.base.site import NOW
from ..operations.parts.joins import ResponseJoin
from .connections import Reading, Writing
from .operation_graph import GraphOperation, OperationGraph

# A checked topology, cut into subtopologies and laid out in stages. These classes have the structure of `job.py`, and
# templates only print it: the engine of a step, the columns of an edge and the repartition topics are already chosen.
# Topics, stores, windows and operators are declarations of the runtime (`runtime/engine/operators`). An operator is
# printed as `<class name>(<fields that differ from the default>)`.
#
# **Pipe.** One ordered pipe of rows runs through a subtopology: Python stage 0 (reads the sources), SQL steps, Python
# stage, SQL steps, ..., Python stage (writes). An edge has the name of a flow or table, and keeps it: a step on flow
# `late` reads edge `late` and yields edge `late`.
#
# **Physical names.** The physical name of a value column is its own name. The physical name of a key column is its
# name, or `key.<name>` while the edge has a value column with that name. Operators and SQL read physical names, and
# write columns under their own names.


@dataclass(frozen=True)
class PythonStage:
    """Operators that run one after another in one `mapInArrow`.

    SQL steps among them are between processors that share a store. `reads`: edges from SQL (empty in stage 0).
    `yields`: edges to SQL (empty in the last stage).
    """

    nodes: tuple[Operator | SqlStep, ...]
    reads: Mapping[str, Flow] = field(default_factory=dict)
    yields: Mapping[str, Flow] = field(default_factory=dict)


@dataclass(frozen=True)
class ProcessorNode:
    """A node in the format of Kafka Streams' `Topology.describe()`.

    `topics`: of sources and sinks. `at`: the step's `file:line`. `about`: its flow or table, its text, and `at`.
    """

    kind: Literal["source", "processor", "sink"]
    name: str
    topics: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    predecessors: tuple[str, ...] = ()
    successors: tuple[str, ...] = ()
    about: str = ""
    at: str = ""


@dataclass(frozen=True)
class SubtopologyGraph:
    """A connected part of a topology: one function in `job.py` and `partitions` tasks.

    `name`: the name of its first flow or table. `function`: the name as a Python identifier. `step_policies`: policies
    of flows (`on_error`), with the locations of their steps.
    """

    number: int
    name: str
    function: str
    partitions: int
    sources: tuple[Topic, ...]
    sinks: tuple[Topic, ...]
    stores: tuple[Store, ...]
    global_tables: tuple[GlobalTable, ...]
    stages: tuple[PythonStage | SqlStep, ...]
    nodes: tuple[ProcessorNode, ...] = ()
    step_policies: Mapping[OnError, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Note:
    """The description of a flow or table in the YAML, which begins in `line`."""

    name: str
    line: int
    description: str


@dataclass(frozen=True, repr=False)
class TopologyGraph:
    """One application.

    `topics`: the topics it reads and writes, including repartition topics. `file`: the YAML file, relative to the
    project. `global_nodes`: the source and the processor of a global table by its number. A global table has a number
    among the subtopologies, as in Kafka Streams, but no tasks. `was`: see `runtime.ir.topology.Topology`.
    """

    project: str
    name: str
    version: str
    description: str
    file: str
    topics: tuple[Topic, ...]
    stores: tuple[Store, ...]
    global_tables: tuple[GlobalTable, ...]
    subtopologies: tuple[SubtopologyGraph, ...]
    assignment: Assignment
    restore: PluginRef
    repartition_topics: tuple[str, ...] = ()
    global_nodes: Mapping[int, tuple[ProcessorNode, ...]] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    was: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        parts = ", ".join(part.name for part in self.subtopologies)
        return f"<TopologyGraph {self.application}: {len(self.subtopologies)} subtopologies ({parts})>"

    @property
    def udfs(self) -> tuple[Udf, ...]:
        """The Python functions called in expressions, in the order of their first calls."""
        stages = (stage for part in self.subtopologies for stage in part.stages if isinstance(stage, PythonStage))
        calls = (node.udf for stage in stages for node in stage.nodes if isinstance(node, Call))
        return tuple({udf.name: udf for udf in calls}.values())

    @property
    def application(self) -> str:
        """The application's id: `<project>-<topology>`."""
        return f"{self.project}-{self.name}"


# Live columns: only those that a later step reads are read from topics and kept on edges.
#
# All key columns are kept. The Python stage before a step that needs `NOW`, the planned time of the epoch, adds it.

Needed = dict[int, frozenset[str]]
"""Edge -> the needed value columns."""


def live_columns(wired: OperationGraph) -> Needed:
    """The value columns of each edge that are read later."""
    needed: dict[int, frozenset[str]] = dict.fromkeys(wired.shapes, frozenset())
    topics: dict[str, frozenset[str]] = {}
    """Repartition topic -> the columns needed by its readers."""
    # From the end, because the readers of an edge or repartition topic come after its writer.
    for op in reversed(wired.operations):
        operation = op.operation
        output = _needed_behind(op, needed, topics)
        if isinstance(operation, Reading) and operation.repartition:
            topics[operation.topic.name] = topics.get(operation.topic.name, frozenset()) | (output - {NOW})
        for edge in op.inputs:
            needed[edge] |= operation.needs(output, frozenset(wired.shapes[edge].value))
        if isinstance(operation, Lookup | ResponseJoin):
            # Further lookups are read only for the order of their changes.
            for edge in op.lookups[:1]:
                needed[edge] |= operation.needs_of_table(output)
    return needed


def _needed_behind(op: GraphOperation, needed: Needed, topics: dict[str, frozenset[str]]) -> frozenset[str]:
    """The needed columns of an operation's outputs; for the sink of a repartition topic, those of its readers."""
    if isinstance(op.operation, Writing):
        return topics.get(op.operation.topic.name, frozenset())
    return frozenset().union(*(needed[edge] for edge in op.outputs))
