"""Imports generated code from its files, so that several topologies, each with a `job.py`, fit into one process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from .topology import Settings, Topology

_JOB = "job"


@dataclass(frozen=True)
class Runner:
    """What a generated `runner.py` declares."""

    topology: Topology
    settings: Settings


def load_runner(path: Path) -> Runner:
    """Import a `runner.py`, with the `job.py` beside it, anew from their files. Raises whatever they raise."""
    name = f"headwater_target_{path.parent.name}"
    spec = spec_from_file_location(f"{name}_runner", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python module", path=str(path))
    module = module_from_spec(spec)
    with _first_on_path(path.parent):
        spec.loader.exec_module(module)
    return Runner(module.TOPOLOGY, module.settings() if hasattr(module, "settings") else module.SETTINGS)


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    """`import job` finds the one in `folder`, as when its runner is a program; afterwards it is as before."""
    before = sys.modules.pop(_JOB, None)
    writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.dont_write_bytecode = writes_bytecode
        sys.modules.pop(_JOB, None)
        if before is not None:
            sys.modules[_JOB] = before
