"""Headwater: declarative topologies of stateful stream processing, compiled to and run on Spark."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .api.project import Project
    from .api.project_tests import TestsFailedError
    from .api.topology_test_driver import TopologyTestDriver
    from .compiler.outcomes import InvalidProjectError, UnknownNameError
    from .errors import HeadwaterError
    from .runtime.driver.results import RunFailedError
    from .runtime.engine.execution.processing.batches import Record

__all__ = [
    "HeadwaterError",
    "InvalidProjectError",
    "Project",
    "Record",
    "RunFailedError",
    "TestsFailedError",
    "TopologyTestDriver",
    "UnknownNameError",
    "__version__",
]

_HOMES = {
    "HeadwaterError": ".errors",
    "InvalidProjectError": ".compiler.outcomes",
    "Project": ".api.project",
    "Record": ".runtime.engine.execution.processing.batches",
    "RunFailedError": ".runtime.driver.results",
    "TestsFailedError": ".api.project_tests",
    "TopologyTestDriver": ".api.topology_test_driver",
    "UnknownNameError": ".compiler.outcomes",
}


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first used: `headwater.Project` loads the compiler."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)
