"""What a command has found out about the files of seeds, so that it reads none twice for the same question."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

_Mark = tuple[int, ...]

_SETTLED_NS = 2_000_000_000
"""A file that has changed more recently may change again and still have the same times, as clocks of file systems are
coarse: it is read again.
"""


class SeedFiles:
    """Answers count for as long as a file is the same one, and has the same size and times."""

    def __init__(self) -> None:
        self._known: dict[tuple[Path, _Mark, str], str] = {}

    def once(self, path: Path, question: str, answer: Callable[[], str]) -> str:
        """What `answer` says of a file, which is asked once for each state of it. Raises what `answer` raises."""
        before = _mark(path)
        if before is not None and (path, before, question) in self._known:
            return self._known[path, before, question]
        found = answer()
        if before is not None and before == _mark(path):
            self._known[path, before, question] = found
        return found


def _mark(path: Path) -> _Mark | None:
    """By what a state of a file is known; None if it could not be told from the next one, or there is no file."""
    now = time.time_ns()
    try:
        found = path.stat()
    except OSError:
        return None
    if now - found.st_mtime_ns < _SETTLED_NS:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
