"""The cases of the files in `tests/` as written: nodes with their places, in the form that the schema asks for."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..diagnostics import Diagnostics, Position
from ..reading.files import ProjectFiles
from ..reading.jinja.render import render
from ..reading.nodes import Mapping, Node, Scalar, Sequence
from ..reading.source import SourceFile
from ..reading.strict_yaml.loader import read_yaml
from ..reading.validate import validate

FOLDER = "tests"
"""Where the files with cases are, in the project's folder."""


@dataclass(frozen=True)
class Case:
    """One case. `given`, `expect`: their entries, in order. `vars`: those of the case alone."""

    name: Scalar
    topology: Scalar
    given: tuple[Mapping, ...]
    expect: tuple[Mapping, ...]
    vars: AbstractMapping[str, Any] = field(default_factory=dict)
    vars_node: Mapping | None = None

    @property
    def position(self) -> Position:
        """Where its name is."""
        return self.name.position


@dataclass(frozen=True)
class LoadedCases:
    """All cases in the order of files and lines. `sources`: the text of each file that was read."""

    cases: tuple[Case, ...]
    sources: AbstractMapping[str, str]


def load_cases(root: Path, variables: AbstractMapping[str, Any], diagnostics: Diagnostics) -> LoadedCases:
    """The cases of all YAML files below `tests/` of a project. `variables`: of the project, for Jinja in them.

    What does not fit the schema is reported, and left out.
    """
    files = ProjectFiles(root, diagnostics)
    known: dict[str, Scalar] = {}
    found: list[Case] = []
    for source in files.below(FOLDER):
        for case in _cases(source, variables, diagnostics):
            first = known.setdefault(case.name.text, case.name)
            if first is not case.name:
                at = first.position
                message = f"The test '{case.name.text}' is in {at.file}, line {at.line}, too."
                diagnostics.add("HW804", case.position, message, "Give it another name.")
            else:
                found.append(case)
    return LoadedCases(tuple(found), files.sources)


def _cases(source: SourceFile, variables: AbstractMapping[str, Any], diagnostics: Diagnostics) -> Iterator[Case]:
    node = read_yaml(source, diagnostics)
    if node is None:
        return
    document = validate(render(node, variables, diagnostics, None), "tests", diagnostics)
    entries = document.get("tests") if isinstance(document, Mapping) else None
    for entry in entries if isinstance(entries, Sequence) else ():
        if (case := _case(entry)) is not None:
            yield case


def _case(node: Node) -> Case | None:
    if not isinstance(node, Mapping):
        return None
    name, topology, variables = node.get("test"), node.get("topology"), node.get("vars")
    if not isinstance(name, Scalar) or not isinstance(topology, Scalar) or name.broken or topology.broken:
        return None
    given = variables if isinstance(variables, Mapping) else None
    return Case(
        name,
        topology,
        _entries(node.get("given")),
        _entries(node.get("expect")),
        given.to_python() if given is not None else {},
        given,
    )


def _entries(node: Node | None) -> tuple[Mapping, ...]:
    return tuple(entry for entry in node if isinstance(entry, Mapping)) if isinstance(node, Sequence) else ()
