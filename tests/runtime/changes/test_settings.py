"""Each thing that a topology is made of is compared, or said here to follow from something that is."""

from __future__ import annotations

from dataclasses import fields

import pytest

from headwater.compiler.topology.graph import SubtopologyGraph, TopologyGraph
from headwater.runtime.engine.operators import operators
from headwater.runtime.engine.sql_step import SqlStep
from headwater.runtime.ir.topology import Agg, Assignment, GlobalTable, Store, Topic
from headwater.runtime.ir.windows import JoinWindow, Window

COMPARED: dict[type, set[str]] = {
    TopologyGraph: {"topics", "stores", "global_tables", "subtopologies", "assignment", "restore", "was"},
    SubtopologyGraph: {"name", "partitions", "sources", "sinks", "stores", "global_tables", "stages", "step_policies"},
    Topic: {
        *("name", "partitions", "key", "value", "windowed", "writer"),
        *("cleanup", "retention_ms", "on_error", "timestamp"),
    },
    Store: {
        *("name", "partitions", "key", "value", "type", "window", "retention_ms", "aggregates"),
        *("backend", "options", "changelog", "cleanup"),
    },
    Window: {"size_ms", "advance_ms", "grace_ms"},
    JoinWindow: {"before_ms", "after_ms", "grace_ms"},
    Agg: {"name", "function", "column", "of", "options", "written"},
    GlobalTable: {"name", "topic", "store"},
    Assignment: {each.name for each in fields(Assignment)},
    SqlStep: {"kind", "flows", "condition", "columns", "branches"},
}
"""In `comparison`, `facets`, `steps` or `settings`."""

FOLLOWS: dict[type, set[str]] = {
    # What people read, and what does not count: places, numbers, names in code and in drawings.
    TopologyGraph: {"description", "file", "notes", "global_nodes", "repartition_topics", "project", "name", "version"},
    SubtopologyGraph: {"number", "function", "nodes"},
    Topic: {"readers", "kafka"},  # the latter is the name of its topic
    Agg: {"type"},  # the store's column has it
    SqlStep: {"types", "into", "keep", "table", "null_values", "at"},
}
"""Of what is compared, or of other topologies."""

OPERATORS: dict[str, set[str]] = {
    "Source": {"topic", "start", "dead_letter"},
    "Table": {"flow", "store", "emit"},
    "Select": {"flow", "columns"},
    "KeyBy": {"flow", "key"},
    "StreamTableJoin": {"flow", "table", "how", "values"},
    "TableTableJoin": {"flow", "table", "how", "values", "emit"},
    "StreamJoin": {"flow", "other", "how", "values", "this_store", "other_store", "unmatched"},
    "GlobalJoin": {"flow", "table", "how", "by", "values"},
    "Subscribe": {"flow", "how", "key"},
    "Answer": {"flow", "table", "rows", "key", "values"},
    "ForeignKeyJoin": {"table", "how", "asks_by"},  # the last is the `key` of `Subscribe`
    "Forget": set(),
    "Aggregate": {"flow", "store", "emit"},
    "AggregateSessions": {"flow", "store", "emit"},
    "AggregateSliding": {"flow", "store", "emit"},
    "FinalResults": {"flow", "store"},
    "AggregateWith": {"flow", "store", "function", "emit"},
    "Reduce": {"flow", "store", "function", "emit"},
    "Materialize": {"store"},
    "Process": {"flow", "function", "stores", "options", "into", "named", "sources", "name"},
    "Call": {"flow", "column", "udf", "arguments", "null_values"},  # the last two follow from the column, and its step
    "Suppress": {"flow", "store", "wait_ms", "max_records", "when_full"},
    "Settle": set(),
    "ToStream": {"flow"},
    "Fork": set(),
    "Merge": {"flows", "into"},
    "Sink": {"flow", "topic"},
    "RoutedSink": {"flow", "by", "topics"},
    "Decode": {"flow", "source", "topic", "key", "value"},
    "Produce": {"flow", "topic", "kafka", "key", "value", "recomputed"},
}
"""Operator -> its fields that are compared. `keep`, `old`, `of`, `mode` and the like follow from the wiring."""

WIRING = {
    "at",
    "other_store",
    "made_of",
    "this_made_of",
    "other_made_of",
    "into",
    "columns",
    "keep",
    "old",
    "of",
    "mode",
    "keep_null_keys",
    "flow",
    "store",
    "headers",
    "by_itself",
    "turn",
    "expired",
    "ended",
}


@pytest.mark.parametrize("kind", COMPARED, ids=lambda kind: kind.__name__)
def test_each_field_of_a_topology_is_compared_or_follows_from_one_that_is(kind: type) -> None:
    known = COMPARED[kind] | FOLLOWS.get(kind, set())
    assert {each.name for each in fields(kind)} == known, "compare it in `runtime/changes`, or say here why not"


@pytest.mark.parametrize("kind", operators().values(), ids=lambda kind: kind.__name__)
def test_each_field_of_an_operator_is_compared_or_follows_from_the_wiring(kind: type) -> None:
    assert {each.name for each in fields(kind)} - WIRING <= OPERATORS[kind.__name__], "compare it, or say why not"
