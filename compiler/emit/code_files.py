"""The Python of a project that a topology runs, as files beside its generated code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

from ...runtime.python_functions.code import FOLDER, PythonCode, PythonFunction
from ...runtime.python_functions.udf import Udf
from ..topology.graph import PythonStage, TopologyGraph


def code_of(graph: TopologyGraph) -> PythonCode:
    """The files of `functions/` on which the functions of a topology depend."""
    return PythonCode(tuple(sorted({file for function in _functions(graph) for file in function.code.files})))


def write_code(folder: Path, graph: TopologyGraph, write: Callable[[Path, str], bool]) -> bool:
    """Write these files to the `folder` of the generated code, and remove those of before. Returns whether any differ.

    `write`: writes a file unless it has this text, and returns whether it was written.
    """
    texts = code_of(graph).texts
    stale = [path for path in folder.joinpath(FOLDER).rglob("*.py") if path.relative_to(folder).as_posix() not in texts]
    for path in stale:
        path.unlink()
    written = [write(folder / path, text) for path, text in texts.items()]
    return any(written) or bool(stale)


def _functions(graph: TopologyGraph) -> Iterator[PythonFunction]:
    stages = (stage for part in graph.subtopologies for stage in part.stages if isinstance(stage, PythonStage))
    for node in (node for stage in stages for node in stage.nodes):
        for field in fields(node):
            value = getattr(node, field.name)
            if isinstance(value, PythonFunction):
                yield value
            elif isinstance(value, Udf):
                yield value.function
