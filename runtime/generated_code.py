"""Loads generated code from its files, so that one process can load several topologies, each with its own `job.py`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from ..errors import HeadwaterError
from .ir.topology import Settings, Topology


class OtherVersionError(HeadwaterError):
    """Generated code uses names that this version does not have. `path`: the file. `cause`: Python's error."""

    def __init__(self, path: Path, cause: Exception) -> None:
        super().__init__(
            f"{path} was not made by this version of Headwater ({cause}): compile the project again with "
            "`headwater compile`"
        )
        self.path = path
        self.cause = cause


@dataclass(frozen=True)
class Runner:
    """A topology of `target/` and its settings."""

    topology: Topology
    settings: Settings


def load_runner(path: Path) -> Runner:
    """The settings of a `runner.py` and the topology of the `job.py` next to it. Raises their errors."""
    runner = _load(path)
    return Runner(topology_beside(path), runner.settings() if hasattr(runner, "settings") else runner.SETTINGS)


def topology_beside(runner: str | Path) -> Topology:
    """The topology in the `job.py` next to a `runner.py`."""
    topology: Topology = _load(Path(runner).with_name("job.py")).TOPOLOGY
    return topology


def _load(path: Path) -> ModuleType:
    """Run a file as a module outside of `sys.modules`, because every topology has a module `job`.

    The source is compiled each time. Python identifies cached bytecode by the size and the modification second of the
    source file. Both may stay the same when a topology is generated again. Raises OtherVersionError.
    """
    module = ModuleType(f"headwater_target.{path.parent.name}.{path.stem}")
    module.__file__ = str(path)
    try:
        exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), module.__dict__)
    except (ImportError, AttributeError, TypeError) as error:
        raise OtherVersionError(path, error) from error
    return module
