"""Headwater: declarative topologies of stateful stream processing, compiled to and run on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .project import Project

__all__ = ["Project", "__version__"]


def __getattr__(name: str) -> Any:
    """`headwater.Project`, imported when it is asked for: it brings the compiler along."""
    if name == "Project":
        from .project import Project

        return Project
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
