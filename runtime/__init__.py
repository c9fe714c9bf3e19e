"""What generated code imports: declarations, operators, the SQL steps of a pipe, and the way to run it all.

Names are loaded when they are used, so that a declaration needs no Spark and `job.py` needs only what it names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .environment import duration, env_var, whole_number
    from .operators.aggregate import Aggregate
    from .operators.declarations import Flow
    from .operators.edges import Fork, Merge, Settle, ToStream
    from .operators.joins import GlobalJoin, StreamTableJoin
    from .operators.materialize import Materialize
    from .operators.project import Project
    from .operators.sink import Sink
    from .operators.source import Source
    from .operators.table import Table
    from .spark.runner import main
    from .spark.sql_steps import branch, explode, fork, key_by, merge, select, where, with_columns
    from .spark.worker import process
    from .topology import (
        Agg,
        Assignment,
        GlobalTable,
        PluginRef,
        Settings,
        Store,
        Subtopology,
        Topic,
        Topology,
        Window,
    )

_HOMES = {
    "spark.runner": ("main",),
    "spark.sql_steps": ("branch", "explode", "fork", "key_by", "merge", "select", "where", "with_columns"),
    "spark.worker": ("process",),
    "environment": ("duration", "env_var", "whole_number"),
    "operators.aggregate": ("Aggregate",),
    "operators.declarations": ("Flow",),
    "operators.edges": ("Fork", "Merge", "Settle", "ToStream"),
    "operators.joins": ("GlobalJoin", "StreamTableJoin"),
    "operators.materialize": ("Materialize",),
    "operators.project": ("Project",),
    "operators.sink": ("Sink",),
    "operators.source": ("Source",),
    "operators.table": ("Table",),
    "topology": (
        "Agg",
        "Assignment",
        "GlobalTable",
        "PluginRef",
        "Settings",
        "Store",
        "Subtopology",
        "Topic",
        "Topology",
        "Window",
    ),
}

__all__ = [
    "Agg",
    "Aggregate",
    "Assignment",
    "Flow",
    "Fork",
    "GlobalJoin",
    "GlobalTable",
    "Materialize",
    "Merge",
    "PluginRef",
    "Project",
    "Settings",
    "Settle",
    "Sink",
    "Source",
    "Store",
    "StreamTableJoin",
    "Subtopology",
    "Table",
    "ToStream",
    "Topic",
    "Topology",
    "Window",
    "branch",
    "duration",
    "env_var",
    "explode",
    "fork",
    "key_by",
    "main",
    "merge",
    "process",
    "select",
    "where",
    "whole_number",
    "with_columns",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{home}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
