"""All files of `target/`."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ... import schemas
from ...private_files import make_folder, opener, write_whole
from ...runtime.dataclass_json import parsed
from ...runtime.engine.operators.operator import Operator
from ...runtime.ir.functions import FOLDER, PythonCode, PythonFunction
from ...runtime.ir.topology import Settings
from ..topology.graph import PythonStage, TopologyGraph
from . import manifest as manifests
from .job import render_job
from .runner import render_runner

# Python functions of the project, copied beside the generated code of a topology.


def code_of(graph: TopologyGraph) -> PythonCode:
    """The files of `functions/` that the functions of a topology depend on."""
    return PythonCode(tuple(sorted({file for function in _functions(graph) for file in function.code.files})))


def write_code(folder: Path, graph: TopologyGraph, write: Callable[[Path, str], bool]) -> bool:
    """Write the Python files to the `folder` of the generated code, and remove stale ones. Returns whether any changed.

    `write`: writes a file unless it has this text already, and returns whether it was written.
    """
    texts = code_of(graph).texts
    stale = [path for path in folder.joinpath(FOLDER).rglob("*.py") if path.relative_to(folder).as_posix() not in texts]
    for path in stale:
        path.unlink()
    written = [write(folder / path, text) for path, text in texts.items()]
    return any(written) or bool(stale)


def _functions(graph: TopologyGraph) -> Iterator[PythonFunction]:
    stages = (stage for part in graph.subtopologies for stage in part.stages if isinstance(stage, PythonStage))
    nodes = (node for stage in stages for node in stage.nodes if isinstance(node, Operator))
    return (function for node in nodes for function in node.functions)


# Schemas of a project's files for editors, which see the files before Jinja is rendered.
#
# `schemas/*.json` describe rendered files. For editors, a value may also be a text with Jinja. The schemas are written
# to `target/`, and the first line of a project's file names its schema.

FILES = ("project", "profiles", "topics", "topology", "tests")
"""The schemas of files written by users."""

SCHEMAS_FOLDER = ".schemas"
"""The folder of the schemas in `target/`. No topology has this name."""

_JINJA = {"type": "string", "pattern": r"\{[{%]"}
_SHOWN = ("title", "description")


def editor_schema(name: str) -> dict[str, Any]:
    """The schema of a kind of file, with Jinja allowed in values, not in keys."""
    content = json.loads(resources.files(schemas).joinpath(f"{name}.json").read_text(encoding="utf-8"))
    with_jinja: dict[str, Any] = _within(content)
    return with_jinja | {"definitions": with_jinja["definitions"] | {"jinja": _JINJA}}


def editor_schemas() -> dict[str, str]:
    """The texts of the schemas, by file name."""
    return {f"{name}.json": json.dumps(editor_schema(name), indent=2) + "\n" for name in FILES}


def write_editor_schemas(target: Path) -> None:
    """Write the schemas below the folder of generated files, unless they are unchanged."""
    folder = target / SCHEMAS_FOLDER
    make_folder(target)
    make_folder(folder)
    for name, text in editor_schemas().items():
        if not (folder / name).is_file() or (folder / name).read_text("utf-8") != text:
            (folder / name).write_text(text, "utf-8")


def _within(schema: Any) -> Any:
    """A schema with Jinja allowed in the values that it contains."""
    if not isinstance(schema, dict):
        return schema
    result = dict(schema)
    for key, part in schema.items():
        match key:
            case "properties":
                result[key] = {name: _value(value) for name, value in part.items()}
            case "additionalProperties" | "items":
                result[key] = _value(part)
            case "definitions":
                result[key] = {name: _within(definition) for name, definition in part.items()}
            case "then" | "else":
                result[key] = _within(part)
    return result


def _value(schema: Any) -> Any:
    """The schema of a value with Jinja allowed."""
    if not isinstance(schema, dict):
        return schema
    shown = {key: schema[key] for key in _SHOWN if key in schema}
    return {**shown, "if": {"$ref": "#/definitions/jinja"}, "then": {}, "else": _within(schema)}


# The files of `target/`: job.py and runner.py per topology, manifest.json, and schemas.

MANIFEST = "manifest.json"

_LOCK = ".lock"
_CACHE = ".cache"


@dataclass(frozen=True)
class Emitted:
    """The generated files of one topology. `changed`: some of them have new content."""

    topology: str
    job: Path
    runner: Path
    changed: bool


def emit(
    target: Path, graphs: Iterable[TopologyGraph], settings: Settings, manifest: Mapping[str, Any]
) -> tuple[Emitted, ...]:
    """Write the code of `graphs`, the manifest of the whole project, and schemas for editors to the folder `target`.

    Unchanged files are not written. The code of topologies of the previous manifest that are not in the new one is
    removed. Concurrent calls wait for each other, so job, runner and manifest are of the same call.
    """
    with _locked(target):
        _remove_stale(target, manifest)
        emitted = tuple(_emit(target, graph, settings) for graph in graphs)
        write_editor_schemas(target)
        _write(target / MANIFEST, manifests.as_json(manifest))
    return emitted


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Lock the folder against other processes that write code, and remove unfinished files.

    The operating system releases the lock when a process ends.
    """
    make_folder(target)
    with open(target / _LOCK, "a", opener=opener) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for left in (*target.glob(".*.partial"), *target.glob("*/.*.partial")):
            if left.parent.name != _CACHE:  # the cache is written without the lock
                left.unlink(missing_ok=True)
        yield


def _emit(target: Path, graph: TopologyGraph, settings: Settings) -> Emitted:
    job, runner = target / graph.name / "job.py", target / graph.name / "runner.py"
    changed = [
        write_code(job.parent, graph, _write),
        _write(job, render_job(graph)),
        _write(runner, render_runner(graph, settings)),
    ]
    return Emitted(graph.name, job, runner, any(changed))


def _remove_stale(target: Path, manifest: Mapping[str, Any]) -> None:
    path = target / MANIFEST
    try:
        last = parsed(path.read_text("utf-8"))
        before = [(topology["job"], topology["runner"]) for topology in last["topologies"]]
    except (OSError, ValueError, KeyError, TypeError):
        return
    jobs = {topology["job"] for topology in manifest["topologies"]}
    for job, runner in before:
        # The manifest may have been edited by hand: only files below `target` are removed.
        if job not in jobs and not Path(job).is_absolute() and ".." not in Path(job).parts:
            code = [path.relative_to(target) for path in (target / job).parent.joinpath(FOLDER).rglob("*.py")]
            for name in (job, runner, *code):
                (target / name).unlink(missing_ok=True)


def _write(path: Path, text: str) -> bool:
    """Write a file atomically, unless it has this content already. Returns whether it was written."""
    content = text.encode("utf-8")
    if path.is_file() and path.read_bytes() == content:
        return False
    write_whole(path, content)
    return True
