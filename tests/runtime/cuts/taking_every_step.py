"""A run of a project with each step that keeps rows in a form of its own, as something that may be cut."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwater.runtime.log.inspection.verification import Verification
from headwater.tests.runtime.local import every_step

MOMENTS = 20
EPOCH = 15
"""Records of a task in an epoch."""


def begin(path: Path) -> None:
    """Stores have rows, and there are records that nobody has taken."""
    every_step.copied(path)
    every_step.feed(path, MOMENTS)
    run(path)
    every_step.feed(path, MOMENTS, MOMENTS)


def run(path: Path) -> dict[str, Any]:
    """Until it is caught up, on a log that is cleaned all the time."""
    app = every_step.application(path)
    app.clean = True
    result = app.attempt(replace(app.settings(EPOCH), file_delete_delay_ms=0))
    return {"error": result.error, "status": result.status}


def look(path: Path) -> dict[str, Any]:
    """What there is after a run: results, and what `headwater log verify` says."""
    ended = run(path)
    found = Verification(every_step.application(path).log).run()
    return {**ended, **every_step.results(path), "damages": [damage.what for each in found for damage in each.damages]}


def restored(path: Path) -> dict[str, Any]:
    """The same after more records, with stores that are restored from the log."""
    shutil.rmtree(path / "state")
    every_step.feed(path, 8, 2 * MOMENTS)
    return look(path)
