"""The names that generated code imports: declarations, operators, the pipe of a subtopology, and the entry of runners.

Names are imported on first use. So a declaration needs no Spark, and `job.py` loads only what it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cluster.spark.runner import main
    from .engine.building import Pipe, subtopology
    from .engine.operators.aggregate import Aggregate
    from .engine.operators.aggregate_sessions import AggregateSessions
    from .engine.operators.aggregate_with import AggregateWith, Reduce
    from .engine.operators.call import Call
    from .engine.operators.columns import Fork, KeyBy, Merge, Select, Settle, ToStream
    from .engine.operators.final_results import FinalResults
    from .engine.operators.joins.foreign_key import Answer, ForeignKeyJoin, Forget, Subscribe
    from .engine.operators.joins.lookups import GlobalJoin, StreamTableJoin
    from .engine.operators.joins.streams import StreamJoin
    from .engine.operators.joins.tables import TableTableJoin
    from .engine.operators.processing.process import Process
    from .engine.operators.sliding.aggregate_sliding import AggregateSliding
    from .engine.operators.source import Sink, Source
    from .engine.operators.suppress import Suppress
    from .engine.operators.table import Materialize, Table
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
    "engine.operators.aggregate": ("Aggregate",),
    "engine.operators.aggregate_sessions": ("AggregateSessions",),
    "engine.operators.aggregate_with": (
        "AggregateWith",
        "Reduce",
    ),
    "engine.operators.call": ("Call",),
    "engine.operators.columns": (
        "KeyBy",
        "Select",
        "Fork",
        "Merge",
        "Settle",
        "ToStream",
    ),
    "engine.operators.final_results": ("FinalResults",),
    "engine.operators.joins.foreign_key": (
        "Answer",
        "Forget",
        "ForeignKeyJoin",
        "Subscribe",
    ),
    "engine.operators.joins.lookups": (
        "GlobalJoin",
        "StreamTableJoin",
    ),
    "engine.operators.joins.streams": ("StreamJoin",),
    "engine.operators.joins.tables": ("TableTableJoin",),
    "engine.operators.processing.process": ("Process",),
    "engine.operators.sliding.aggregate_sliding": ("AggregateSliding",),
    "engine.operators.source": (
        "Sink",
        "Source",
    ),
    "engine.operators.suppress": ("Suppress",),
    "engine.operators.table": (
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
