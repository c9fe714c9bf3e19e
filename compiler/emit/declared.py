"""A graph as the topology that its generated code declares, without writing or loading that code."""

from __future__ import annotations

from ...runtime.stages.building import Pipe, subtopology
from ...runtime.stages.sql_step import SqlStep
from ...runtime.stages.steps import PythonStep, Step
from ...runtime.topology import Subtopology, Topology
from ..topology.graph import PythonStage, SubtopologyGraph, TopologyGraph
from .template import content_hash


def declared_topology(graph: TopologyGraph) -> Topology:
    """The topology. It can be compared and described, not run: which columns its edges keep is left out."""
    return Topology(
        project=graph.project,
        name=graph.name,
        version=graph.version,
        content_hash=content_hash(graph),
        subtopologies=tuple(_declared(part, graph.file) for part in graph.subtopologies),
        assignment=graph.assignment,
        restore=graph.restore,
        was=graph.was,
    )


def _declared(part: SubtopologyGraph, file: str) -> Subtopology:
    steps = tuple(map(_step, part.stages))
    return subtopology(part.number, part.name, file=file, on_error=part.step_policies)(lambda _: Pipe(steps))


def _step(stage: PythonStage | SqlStep) -> Step:
    return PythonStep(stage.nodes) if isinstance(stage, PythonStage) else stage
