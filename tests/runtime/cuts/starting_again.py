"""A reset of topologies that follow one another, as something that may be cut."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from headwater.runtime.log.inspection.verification import Verification
from headwater.runtime.progress.resets import plan_application_removal, remove
from headwater.tests.runtime.local.recomputed_project import RecomputedProject

APPLICATIONS = ("test-late", "test-sums")


def begin(path: Path) -> None:
    """All three have their results."""
    project = RecomputedProject(path)
    project.append(range(20))
    project.went_well(max_records=50)


def run(path: Path) -> dict[str, Any]:
    """What `headwater reset sums+` does: the reader and what it reads start again, the first topology stays."""
    project = RecomputedProject(path)
    begun = set(project.placed.applications())
    planned = [plan_application_removal(project.placed, name) for name in APPLICATIONS if name in begun]
    remove(project.placed, path / "state", planned)
    return {}


def look(path: Path) -> dict[str, Any]:
    """The same once more, as a user does it after a kill; then a run, and what there is after it."""
    run(path)
    project = RecomputedProject(path)
    left = project.placed.applications()
    results = project.run(max_records=50)
    found = Verification(project.placed).run()
    return {
        "left": left,
        "ended": [[each.application, each.status, each.error, each.records] for each in results.applications],
        "result": repr(project.result()),
        "damages": [damage.what for each in found for damage in each.damages],
    }


def restored(path: Path) -> dict[str, Any]:
    """A run right after the kill, where nobody resets again: it has all results, with stores that are restored."""
    shutil.rmtree(path / "state")
    project = RecomputedProject(path)
    results = project.run(max_records=50)
    found = Verification(project.placed).run()
    return {
        "ended": [[each.application, each.status, each.error] for each in results.applications],
        "result": repr(project.result()),
        "damages": [damage.what for each in found for damage in each.damages],
    }
