"""The names that generated code imports: declarations, operators, the pipe of a subtopology, and the entry of runners.

Names are imported on first use. So a declaration needs no Spark, and `job.py` loads only what it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cluster.spark.runner import main
    from .engine.building import Pipe, subtopology
    from .engine.execution.aggregate import Aggregate
    from .engine.execution.aggregate_sessions import AggregateSessions
    from .engine.execution.aggregate_with import AggregateWith, Reduce
    from .engine.execution.call import Call
    from .engine.execution.columns import Fork, KeyBy, Merge, Select, Settle, ToStream
    from .engine.execution.final_results import FinalResults
    from .engine.execution.joins.foreign_key import Answer, ForeignKeyJoin, Forget, Subscribe
    from .engine.execution.joins.lookups import GlobalJoin, StreamTableJoin
    from .engine.execution.joins.streams import StreamJoin
    from .engine.execution.joins.tables import TableTableJoin
    from .engine.execution.processing.process import Process
    from .engine.execution.sliding.aggregate_sliding import AggregateSliding
    from .engine.execution.source import Sink, Source
    from .engine.execution.suppress import Suppress
    from .engine.execution.table import Materialize, Table
    from .environment import duration, env_var, parse_duration, whole_number
    from .generated_code import topology_beside
    from .ir.declarations import Flow
    from .ir.functions import PythonCode, PythonFunction, Udf
    from .ir.topology import Agg, Assignment, GlobalTable, PluginRef, Settings, Store, Subtopology, Topic, Topology
    from .ir.windows import JoinWindow, SessionWindow, SlidingWindow, Window

_HOMES = {
    "cluster.spark.runner": ("main",),
    "engine.building": (
        "Pipe",
        "subtopology",
    ),
    "engine.execution.aggregate": ("Aggregate",),
    "engine.execution.aggregate_sessions": ("AggregateSessions",),
    "engine.execution.aggregate_with": (
        "AggregateWith",
        "Reduce",
    ),
    "engine.execution.call": ("Call",),
    "engine.execution.columns": (
        "KeyBy",
        "Select",
        "Fork",
        "Merge",
        "Settle",
        "ToStream",
    ),
    "engine.execution.final_results": ("FinalResults",),
    "engine.execution.joins.foreign_key": (
        "Answer",
        "Forget",
        "ForeignKeyJoin",
        "Subscribe",
    ),
    "engine.execution.joins.lookups": (
        "GlobalJoin",
        "StreamTableJoin",
    ),
    "engine.execution.joins.streams": ("StreamJoin",),
    "engine.execution.joins.tables": ("TableTableJoin",),
    "engine.execution.processing.process": ("Process",),
    "engine.execution.sliding.aggregate_sliding": ("AggregateSliding",),
    "engine.execution.source": (
        "Sink",
        "Source",
    ),
    "engine.execution.suppress": ("Suppress",),
    "engine.execution.table": (
        "Materialize",
        "Table",
    ),
    "environment": (
        "parse_duration",
        "duration",
        "env_var",
        "whole_number",
    ),
    "generated_code": ("topology_beside",),
    "ir.declarations": ("Flow",),
    "ir.functions": (
        "PythonCode",
        "PythonFunction",
        "Udf",
    ),
    "ir.topology": (
        "Agg",
        "Assignment",
        "GlobalTable",
        "PluginRef",
        "Settings",
        "Store",
        "Subtopology",
        "Topic",
        "Topology",
    ),
    "ir.windows": (
        "JoinWindow",
        "SessionWindow",
        "SlidingWindow",
        "Window",
    ),
}

__all__ = [
    "Agg",
    "Aggregate",
    "AggregateSessions",
    "AggregateSliding",
    "AggregateWith",
    "Answer",
    "Assignment",
    "Call",
    "FinalResults",
    "Flow",
    "ForeignKeyJoin",
    "Forget",
    "Fork",
    "GlobalJoin",
    "GlobalTable",
    "JoinWindow",
    "KeyBy",
    "Materialize",
    "Merge",
    "Pipe",
    "PluginRef",
    "Process",
    "PythonCode",
    "PythonFunction",
    "Reduce",
    "Select",
    "SessionWindow",
    "Settings",
    "Settle",
    "Sink",
    "SlidingWindow",
    "Source",
    "Store",
    "StreamJoin",
    "StreamTableJoin",
    "Subscribe",
    "Subtopology",
    "Suppress",
    "Table",
    "TableTableJoin",
    "ToStream",
    "Topic",
    "Topology",
    "Udf",
    "Window",
    "duration",
    "env_var",
    "main",
    "parse_duration",
    "subtopology",
    "topology_beside",
    "whole_number",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{home}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
