"""What a log has come to, measured from outside: bytes, files, and what a start, a read and a query of it cost."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState

from .common import seconds


@dataclass(frozen=True)
class LogFigures:
    """`commits`: made so far. `state_bytes`: of the Python objects of the application's committed state, which its
    driver holds. `load_seconds`: for loading it, as each start does; the median of three, as of the other seconds.
    """

    commits: int
    files: int
    segment_files: int
    commit_files: int
    bytes: int
    snapshot_bytes: int
    state_bytes: int
    load_seconds: float
    read_seconds: float
    query_seconds: float


def measured(
    root: Path, application: str, commits: int, read: Callable[[], object], query: Callable[[], object]
) -> LogFigures:
    """The figures of now; a driver may be at work. `root`: of the log."""
    sizes: dict[Path, int] = {}
    for path in root.rglob("*"):
        try:
            if path.is_file():
                sizes[path] = path.stat().st_size
        except FileNotFoundError:
            continue  # removed since the folder was listed
    tracemalloc.start()
    state = LogState.load(EmbeddedLog(root).commits(application))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del state
    return LogFigures(
        commits=commits,
        files=len(sizes),
        segment_files=sum(path.suffix == ".seg" for path in sizes),
        commit_files=sum(path.suffix == ".json" and "commits" in path.parts for path in sizes),
        bytes=sum(sizes.values()),
        snapshot_bytes=max((size for path, size in sizes.items() if path.suffix == ".snapshot"), default=0),
        state_bytes=taken,
        load_seconds=_seconds(lambda: LogState.load(EmbeddedLog(root).commits(application))),
        read_seconds=_seconds(read),
        query_seconds=_seconds(query),
    )


def _seconds(work: Callable[[], object]) -> float:
    return round(median(seconds(work) for _ in range(3)), 5)
