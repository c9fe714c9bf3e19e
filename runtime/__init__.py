"""The names that generated code imports: declarations, operators, the pipe of a subtopology, and the entry of runners.

Names are imported on first use. So a declaration needs no Spark, and `job.py` loads only what it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .durations import parse_duration
    from .environment import duration, env_var, whole_number
    from .generated_code import topology_beside
    from .operators.aggregate import Aggregate
    from .operators.calling.call import Call
    from .operators.closing.final_results import FinalResults
    from .operators.columns import KeyBy, Select
    from .operators.declarations import Flow
    from .operators.edges import Fork, Merge, Settle, ToStream
    from .operators.folding.aggregate_with import AggregateWith
    from .operators.folding.reduce import Reduce
    from .operators.joins.foreign_key.answer import Answer
    from .operators.joins.foreign_key.forget import Forget
    from .operators.joins.foreign_key.respond import ForeignKeyJoin
    from .operators.joins.foreign_key.subscribe import Subscribe
    from .operators.joins.lookups import GlobalJoin, StreamTableJoin
    from .operators.joins.streams.join import StreamJoin
    from .operators.joins.tables import TableTableJoin
    from .operators.materialize import Materialize
    from .operators.processing.process import Process
    from .operators.sessions.aggregate_sessions import AggregateSessions
    from .operators.sink import Sink
    from .operators.sliding.aggregate_sliding import AggregateSliding
    from .operators.source import Source
    from .operators.suppress.suppress import Suppress
    from .operators.table import Table
    from .python_functions.code import PythonCode, PythonFunction
    from .python_functions.udf import Udf
    from .spark.runner import main
    from .stages.building import Pipe, subtopology
    from .topology import Agg, Assignment, GlobalTable, PluginRef, Settings, Store, Subtopology, Topic, Topology
    from .windows import JoinWindow, SessionWindow, SlidingWindow, Window

_HOMES = {
    "spark.runner": ("main",),
    "stages.building": ("Pipe", "subtopology"),
    "durations": ("parse_duration",),
    "environment": ("duration", "env_var", "whole_number"),
    "generated_code": ("topology_beside",),
    "operators.aggregate": ("Aggregate",),
    "operators.calling.call": ("Call",),
    "operators.sessions.aggregate_sessions": ("AggregateSessions",),
    "operators.columns": ("KeyBy", "Select"),
    "operators.closing.final_results": ("FinalResults",),
    "operators.declarations": ("Flow",),
    "operators.folding.aggregate_with": ("AggregateWith",),
    "operators.folding.reduce": ("Reduce",),
    "operators.edges": ("Fork", "Merge", "Settle", "ToStream"),
    "operators.joins.foreign_key.answer": ("Answer",),
    "operators.joins.foreign_key.forget": ("Forget",),
    "operators.joins.foreign_key.respond": ("ForeignKeyJoin",),
    "operators.joins.foreign_key.subscribe": ("Subscribe",),
    "operators.joins.lookups": ("GlobalJoin", "StreamTableJoin"),
    "operators.joins.tables": ("TableTableJoin",),
    "operators.joins.streams.join": ("StreamJoin",),
    "operators.materialize": ("Materialize",),
    "operators.processing.process": ("Process",),
    "operators.sink": ("Sink",),
    "operators.sliding.aggregate_sliding": ("AggregateSliding",),
    "operators.source": ("Source",),
    "operators.suppress.suppress": ("Suppress",),
    "operators.table": ("Table",),
    "python_functions.code": ("PythonCode", "PythonFunction"),
    "python_functions.udf": ("Udf",),
    "windows": ("JoinWindow", "SessionWindow", "SlidingWindow", "Window"),
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
