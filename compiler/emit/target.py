"""Writes a compiled project to `target/`: job.py and runner.py for each topology, manifest.json for all."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...private_files import make_folder, opener
from ...runtime.topology import Settings
from ..topology.graph import TopologyGraph
from ..whole_files import PARTIAL, write_whole
from . import manifest as manifests
from .job import render_job
from .runner import render_runner

MANIFEST = "manifest.json"

_LOCK = ".lock"
_CACHE = ".cache"


@dataclass(frozen=True)
class Emitted:
    """The generated files of one topology. `changed`: whether any of them differs from what was there."""

    topology: str
    job: Path
    runner: Path
    changed: bool


def emit(
    target: Path, graphs: Iterable[TopologyGraph], settings: Settings, manifest: Mapping[str, Any]
) -> tuple[Emitted, ...]:
    """Write the code of `graphs`, and the manifest, of the whole project, below the folder `target`.

    A file whose content would not change is left alone. Code of topologies that the last manifest has and this one
    has not is removed. Of several who do this at the same time, one comes after the other, so that job, runner and
    manifest are of one of them.
    """
    with _alone(target):
        _remove_stale(target, manifest)
        emitted = tuple(_emit(target, graph, settings) for graph in graphs)
        _write(target / MANIFEST, manifests.as_json(manifest))
    return emitted


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Keep others from writing code. Files that were left half written are removed.

    The operating system releases the lock when a process dies.
    """
    make_folder(target)
    with open(target / _LOCK, "a", opener=opener) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for left in (*target.glob(PARTIAL), *target.glob(f"*/{PARTIAL}")):
            if left.parent.name != _CACHE:  # which is written without the lock
                left.unlink(missing_ok=True)
        yield


def _emit(target: Path, graph: TopologyGraph, settings: Settings) -> Emitted:
    job, runner = target / graph.name / "job.py", target / graph.name / "runner.py"
    changed = [_write(job, render_job(graph)), _write(runner, render_runner(graph, settings))]
    return Emitted(graph.name, job, runner, any(changed))


def _remove_stale(target: Path, manifest: Mapping[str, Any]) -> None:
    path = target / MANIFEST
    try:
        last = json.loads(path.read_text("utf-8"))
        before = [(each["job"], each["runner"]) for each in last["topologies"]]
    except (OSError, ValueError, KeyError, TypeError):
        return
    now = {each["job"] for each in manifest["topologies"]}
    for job, runner in before:
        if job not in now and not Path(job).is_absolute() and ".." not in Path(job).parts:
            for name in (job, runner):
                (target / name).unlink(missing_ok=True)


def _write(path: Path, text: str) -> bool:
    """Write a file whole, unless it says this already."""
    content = text.encode("utf-8")
    if path.is_file() and path.read_bytes() == content:
        return False
    write_whole(path, content)
    return True
