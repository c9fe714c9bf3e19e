"""Removes what dead processes have left in an embedded log: half-dropped applications, files that were never linked."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

GRACE_S = 24 * 3600
"""A temporary file exists for a moment until it is linked. After a day it is certain that its writer is dead."""

_DROPPED = re.compile(r"\..+-[0-9a-f]{32}")
_TEMPORARY = "*.tmp"


def remove_leftovers(root: Path, now: float | None = None) -> None:
    """Remove leftovers, as far as permissions allow. `now`: seconds since 1970, by default the clock's.

    A dropped application's folder was renamed, and nothing reads it under the new name, so it may go at any time.
    """
    now = time.time() if now is None else now
    for kind in ("commits", "segments", "snapshots"):
        for folder in (root / kind).glob(".*-*"):
            if _DROPPED.fullmatch(folder.name):
                shutil.rmtree(folder, ignore_errors=True)
    for path in (*root.glob(f".{_TEMPORARY}"), *(root / "status").glob(f".{_TEMPORARY}"), *_of_commits(root)):
        try:
            if path.stat().st_mtime < now - GRACE_S:
                path.unlink()
        except OSError:  # another process has removed it, or we lack the right to
            continue


def _of_commits(root: Path) -> Iterator[Path]:
    return (root / "commits").glob(f"*/.{_TEMPORARY}")
