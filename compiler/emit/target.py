"""Writes a compiled project to `target/`: job.py and runner.py for each topology, a manifest.json, and schemas."""

from __future__ import annotations

import fcntl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...private_files import make_folder, opener
from ...runtime.dataclass_json import parsed
from ...runtime.python_functions.code import FOLDER
from ...runtime.topology import Settings
from ..topology.graph import TopologyGraph
from ..whole_files import PARTIAL, write_whole
from . import manifest as manifests
from .code_files import write_code
from .editor_schemas import write_editor_schemas
from .job import render_job
from .runner import render_runner

MANIFEST = "manifest.json"

_LOCK = ".lock"
_CACHE = ".cache"


@dataclass(frozen=True)
class Emitted:
    """The generated files of one topology. `changed`: whether any of them has new content."""

    topology: str
    job: Path
    runner: Path
    changed: bool


def emit(
    target: Path, graphs: Iterable[TopologyGraph], settings: Settings, manifest: Mapping[str, Any]
) -> tuple[Emitted, ...]:
    """Write the code of `graphs` the manifest of the whole project, and schemas for editors to the folder `target`.

    A file with unchanged content is not written. Code of topologies that are in the previous manifest and not in this
    one is removed. Concurrent calls run one after another, so that job, runner and manifest come from the same call.
    """
    with _alone(target):
        _remove_stale(target, manifest)
        emitted = tuple(_emit(target, graph, settings) for graph in graphs)
        write_editor_schemas(target)
        _write(target / MANIFEST, manifests.as_json(manifest))
    return emitted


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Keep other processes from writing code. Remove files that were left half written.

    The operating system releases the lock when a process dies.
    """
    make_folder(target)
    with open(target / _LOCK, "a", opener=opener) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for left in (*target.glob(PARTIAL), *target.glob(f"*/{PARTIAL}")):
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
        before = [(each["job"], each["runner"]) for each in last["topologies"]]
    except (OSError, ValueError, KeyError, TypeError):
        return
    now = {each["job"] for each in manifest["topologies"]}
    for job, runner in before:
        # The manifest may have been edited: only files below `target` are removed.
        if job not in now and not Path(job).is_absolute() and ".." not in Path(job).parts:
            code = [path.relative_to(target) for path in (target / job).parent.joinpath(FOLDER).rglob("*.py")]
            for name in (job, runner, *code):
                (target / name).unlink(missing_ok=True)


def _write(path: Path, text: str) -> bool:
    """Write a file in one step, unless it has this content already. Returns whether it was written."""
    content = text.encode("utf-8")
    if path.is_file() and path.read_bytes() == content:
        return False
    write_whole(path, content)
    return True
