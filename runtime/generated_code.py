"""Loads generated code from its files, so that several topologies, each with a `job.py`, fit into one process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from .topology import Settings, Topology


@dataclass(frozen=True)
class Runner:
    """A topology of `target/`, and where it runs."""

    topology: Topology
    settings: Settings


def load_runner(path: Path) -> Runner:
    """What a `runner.py` and the `job.py` beside it declare. Raises whatever they raise."""
    runner = _load(path)
    return Runner(topology_beside(path), runner.settings() if hasattr(runner, "settings") else runner.SETTINGS)


def topology_beside(runner: str | Path) -> Topology:
    """The topology that the `job.py` beside a `runner.py` declares."""
    topology: Topology = _load(Path(runner).with_name("job.py")).TOPOLOGY
    return topology


def _load(path: Path) -> ModuleType:
    """Run a file as a module that nobody can import: two topologies have a `job` each.

    Its text is compiled each time. Bytecode that Python keeps goes by the second and the size of a file, and one that
    is compiled again may have the same.
    """
    module = ModuleType(f"headwater_target.{path.parent.name}.{path.stem}")
    module.__file__ = str(path)
    exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), module.__dict__)
    return module
