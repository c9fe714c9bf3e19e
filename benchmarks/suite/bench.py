"""What measurements need of a run of the benchmarks: how often, with what, and inputs that are made once."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from . import inputs
from .measurement import Measurement
from .other_work import OtherWork
from .sides import project
from .sizes import Size


@dataclass(frozen=True)
class Modules:
    """The processes of both sides, and of a bare session of Spark."""

    ours: str = "benchmarks.suite.sides.ours"
    peer: str = "benchmarks.suite.sides.peer"
    bare: str = "benchmarks.suite.sides.bare_spark"


@dataclass(frozen=True)
class Bench:
    """`scratch`: a folder for all that is written. `warm_up`, `measured`: epochs. `even_if_busy`: give ratios also
    where other processes were at work. `quick_growth`: plots have fewer points. `engine`: of our expressions. `size`:
    of most epochs.
    """

    scratch: Path
    warm_up: int = 20
    measured: int = 5
    even_if_busy: bool = False
    quick_growth: bool = False
    engine: str = "task"
    size: Size = field(default_factory=Size)
    modules: Modules = field(default_factory=Modules)

    def folder(self, name: str) -> Path:
        """A new folder for what a side writes."""
        found = self.scratch / "work" / name
        found.mkdir(parents=True)
        return found

    def judged(self, found: Measurement, others: OtherWork) -> Measurement:
        """The figure, if the machine was idle enough; otherwise one that says so, and has no ratio."""
        if not others.too_many:
            return found
        return replace(found, busy=round(others.cores, 2), ratio=found.ratio if self.even_if_busy else None)

    def clear(self) -> None:
        """Remove what sides have written. Inputs stay."""
        shutil.rmtree(self.scratch / "work", ignore_errors=True)

    def files(self, kind: str, size: Size, epochs: int) -> Path:
        """Parquet files of so many epochs, see `inputs.write_files`."""
        return self._made(f"files-{kind}-{size.name}-{epochs}", lambda at: inputs.write_files(kind, at, epochs, size))

    def log(self, kind: str, size: Size, epochs: int) -> Path:
        """A log of so many epochs, see `project.write_log`."""
        return self._made(f"log-{kind}-{size.name}-{epochs}", lambda at: project.write_log(kind, at, epochs, size))

    def _made(self, name: str, make: Callable[[Path], None]) -> Path:
        found = self.scratch / "inputs" / name
        if not found.exists():
            make(found)
        return found


def machine() -> str:
    """What a figure was measured on."""
    memory = psutil.virtual_memory().total / 2**30
    cores, python = psutil.cpu_count(), platform.python_version()
    return f"{_processor()}, {cores} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}, Python {python}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
