"""A run that computes results again, beside those that are there, as something that may be cut."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwater.runtime.log.inspection.verification import Verification
from headwater.tests.runtime.local.recomputed_project import MAX, Definition, RecomputedProject

CHANGED = replace(Definition(), aggregates=(*Definition().aggregates, MAX))
EPOCH = 20
"""Records of an epoch."""


def begin(path: Path) -> None:
    """A result that was computed as the project was before, and records that it lacks."""
    project = RecomputedProject(path)
    project.append(range(20))
    project.went_well()
    project.append(range(20, 40))


def run(path: Path) -> dict[str, Any]:
    """Until the new result has taken the place of the old one. What is given up goes in the next run."""
    project = RecomputedProject(path, defined=CHANGED)
    results = project.run(max_records=EPOCH)
    return {"ended": [[each.status, each.error] for each in results.applications]}


def look(path: Path) -> dict[str, Any]:
    """The next run, with what there is after it: results, places, and what `headwater log verify` says."""
    project = RecomputedProject(path, defined=CHANGED)
    results = project.run(max_records=EPOCH, delay_ms=0)
    found = Verification(project.placed).run()
    places = project.placed.places()
    return {
        "ended": [[each.status, each.error] for each in results.applications],
        "result": repr(project.result()),
        "damages": [damage.what for each in found for damage in each.damages],
        "computed": [*places.recomputed],
        "beside": [str(each.relative_to(path)) for each in (path / "state" / "~beside").glob("*/*")],
    }


def restored(path: Path) -> dict[str, Any]:
    """The same with stores that are restored from the log."""
    shutil.rmtree(path / "state")
    return look(path)
