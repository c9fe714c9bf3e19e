"""A run of an example project as something that may be cut: see `runtime/cuts/program.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwater.tests.projects.in_process import built

FEW = 40
"""Records of a task in an epoch, so that there are many epochs."""


def run(path: Path) -> dict[str, Any]:
    """Until it has caught up."""
    built(path, FEW)
    return {}
