"""The graph of a topology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ...runtime.engine.sql_step import SqlStep
from ...runtime.ir.declarations import Call, Declaration, Flow
from ...runtime.ir.functions import Udf
from ...runtime.ir.topology import Assignment, GlobalTable, OnError, PluginRef, Store, Topic
from ..operations.base.operation import Lookup
from ..operations.base.site import NOW
from ..operations.parts.joins import ResponseJoin
from .connections import Reading, Writing
from .operation_graph import Vertex, Wired

# The input of the code emitter: a checked topology, cut into subtopologies and laid out in stages.
#
# These classes have the structure of `job.py` as data, and templates only print it. All choices have been made: which
# engine runs a step, which columns travel, where repartition topics are. Topics, stores, windows and the operators of a
# Python stage are the runtime's own declarations (`runtime/ir/declarations.py`). A node is printed as
# `<class name>(<fields that differ from the default>)`.
#
# **Pipe.** One ordered pipe of rows runs through a subtopology: Python stage 0 (reads the sources), SQL steps, Python
# stage, SQL steps, ..., Python stage (writes). An edge has the name of a flow or table and keeps it through the steps:
# a
# step on flow `late` reads edge `late` and yields edge `late`.
#
# **Physical names.** The physical name of a value column is its own name. That of a key column is its name, or
# `key.<name>` while the edge has a value column of that name. Operators and SQL read physical names; what a step makes
# or
# keeps has its own name.


@dataclass(frozen=True)
class PythonStage:
    """Operators that run one after another in one `mapInArrow`.

    A step in SQL among them stands between processors that share a store. `reads`: edges that come from SQL (empty in
    stage 0). `yields`: edges that go on to SQL (empty in the last stage).
    """

    nodes: tuple[Declaration | SqlStep, ...]
    reads: Mapping[str, Flow] = field(default_factory=dict)
    yields: Mapping[str, Flow] = field(default_factory=dict)


@dataclass(frozen=True)
class ProcessorNode:
    """A node as `Topology.describe()` of Kafka Streams shows it. `topics`: of sources and sinks.

    `about`: its flow or table, the text of the step, and its place; `at`: the place alone.
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

    `name`: that of its first flow or table, stable while that flow stays. `function`: the name as a Python identifier.
    `step_policies`: what flows say by `on_error`, and the places of their steps.
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
    """What the YAML says of a flow or table, from line `line` to the next one's."""

    name: str
    line: int
    description: str


@dataclass(frozen=True, repr=False)
class TopologyGraph:
    """One application. `topics`: all that it reads and writes, including repartition topics.

    `file`: the YAML file, relative to the project. `global_nodes`: the source and the processor of each global table by
    its number. A global table takes a number among the subtopologies, as in Kafka Streams, but has no tasks. `was`:
    see `runtime.topology.Topology`.
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
        """The Python functions that its expressions call, in the order of their first calls."""
        stages = (stage for part in self.subtopologies for stage in part.stages if isinstance(stage, PythonStage))
        calls = (node.udf for stage in stages for node in stage.nodes if isinstance(node, Call))
        return tuple({udf.name: udf for udf in calls}.values())

    @property
    def application(self) -> str:
        """The application's id."""
        return f"{self.project}-{self.name}"


# Finds the columns that must travel: only those that a later step reads, all the way back to the topics.
#
# All key columns travel. `NOW`, the epoch's planned time, is added by the Python stage before the step that needs it.

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
        if isinstance(operation, Lookup | ResponseJoin):
            # Of the others only the order of their changes is read.
            for edge in vertex.lookups[:1]:
                needed[edge] |= operation.needs_of_table(output)
    return needed


def _needed_behind(vertex: Vertex, needed: Needed, topics: dict[str, frozenset[str]]) -> frozenset[str]:
    """The needed columns of an operation's outputs; for a repartition topic, those that its readers need."""
    if isinstance(vertex.operation, Writing):
        return topics.get(vertex.operation.topic.name, frozenset())
    return frozenset().union(*(needed[edge] for edge in vertex.outputs))
