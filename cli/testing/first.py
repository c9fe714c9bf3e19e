"""Runs the tests of a project before something else is done with it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...api.project import Project
    from ...api.testing.results import CaseResult


def tested(project: Project) -> None:
    """Run the tests, and show those that fail. Raises TestsFailedError."""
    from .told import tell_case, tell_passed

    def told(case: CaseResult) -> None:
        if case.status != "passed":
            tell_case(case, os.path.relpath(project.root))

    results = project.test(progress=told)
    results.check()
    tell_passed(results)
