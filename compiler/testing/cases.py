"""The test cases of a project."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from ...runtime.ir.topology import Topic
from ..diagnostics import Diagnostics, Position
from ..reading.files import ProjectFiles
from ..reading.jinja import render
from ..reading.source import MappingNode, Node, ScalarNode, SequenceNode, SourceFile
from ..reading.validate import validate
from ..reading.yaml_loader import read_yaml
from ..topology.graph import TopologyGraph

# The cases of the files in `tests/`, as nodes with positions, valid by the schema.

FOLDER = "tests"
"""The folder of the files with cases."""


@dataclass(frozen=True)
class Case:
    """One case. `given`, `expect`: their entries, in order. `vars`: variables of this case alone."""

    name: ScalarNode
    topology: ScalarNode
    given: tuple[MappingNode, ...]
    expect: tuple[MappingNode, ...]
    vars: AbstractMapping[str, Any] = field(default_factory=dict)
    vars_node: MappingNode | None = None

    @property
    def position(self) -> Position:
        """The position of its name."""
        return self.name.position


@dataclass(frozen=True)
class LoadedCases:
    """All cases in the order of files and lines. `sources`: the texts of the files read."""

    cases: tuple[Case, ...]
    sources: AbstractMapping[str, str]


def load_cases(root: Path, variables: AbstractMapping[str, Any], diagnostics: Diagnostics) -> LoadedCases:
    """The cases of all YAML files below `tests/` of a project. `variables`: of the project, for Jinja.

    Invalid cases are reported, and not returned.
    """
    files = ProjectFiles(root, diagnostics)
    firsts: dict[str, ScalarNode] = {}
    cases: list[Case] = []
    for source in files.below(FOLDER):
        for case in _cases(source, variables, diagnostics):
            first = firsts.setdefault(case.name.text, case.name)
            if first is not case.name:
                at = first.position
                message = f"The test '{case.name.text}' is also in {at.file}, line {at.line}."
                diagnostics.add("HW804", case.position, message, "Give it another name.")
            else:
                cases.append(case)
    return LoadedCases(tuple(cases), files.sources)


def _cases(source: SourceFile, variables: AbstractMapping[str, Any], diagnostics: Diagnostics) -> Iterator[Case]:
    node = read_yaml(source, diagnostics)
    if node is None:
        return
    document = validate(render(node, variables, diagnostics, None), "tests", diagnostics)
    entries = document.get("tests") if isinstance(document, MappingNode) else None
    for entry in entries if isinstance(entries, SequenceNode) else ():
        if (case := _case(entry)) is not None:
            yield case


def _case(node: Node) -> Case | None:
    if not isinstance(node, MappingNode):
        return None
    name, topology, variables = node.get("test"), node.get("topology"), node.get("vars")
    if not isinstance(name, ScalarNode) or not isinstance(topology, ScalarNode) or name.broken or topology.broken:
        return None
    given = variables if isinstance(variables, MappingNode) else None
    return Case(
        name,
        topology,
        _entries(node.get("given")),
        _entries(node.get("expect")),
        given.to_python() if given is not None else {},
        given,
    )


def _entries(node: Node | None) -> tuple[MappingNode, ...]:
    return tuple(entry for entry in node if isinstance(entry, MappingNode)) if isinstance(node, SequenceNode) else ()


# A topology alone, as in a test: topics written by other topologies become external topics.


def alone(graph: TopologyGraph) -> TopologyGraph:
    """The graph with topics written by other topologies as external topics."""
    result: TopologyGraph = _external(graph, graph.application)
    return result


def _external(part: Any, own: str) -> Any:
    """Any part of a graph with its topics. A part without a changed topic is the same object."""
    if isinstance(part, Topic):
        return part if part.writer in (None, own) else replace(part, writer=None)
    if isinstance(part, tuple):
        items = tuple(_external(item, own) for item in part)
        return items if any(new is not old for new, old in zip(items, part, strict=True)) else part
    if isinstance(part, Mapping):
        return {name: _external(item, own) for name, item in part.items()}
    if is_dataclass(part) and not isinstance(part, type):
        changed = {}
        for field in fields(part):
            value = getattr(part, field.name)
            if (new := _external(value, own)) is not value and field.init:
                changed[field.name] = new
        return replace(part, **changed) if changed else part
    return part
