"""The names that generated code imports: operators and other declarations, `Pipe`, and the `main` of runners.

Names are imported on first use, so that a topology can be loaded without Spark. Operators are looked up in their
package, so a new operator needs no entry here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cluster.spark.runner import main as main
    from .engine.building import Pipe as Pipe
    from .engine.building import subtopology as subtopology
    from .engine.operators.aggregations import *
    from .engine.operators.foreign_keys import *
    from .engine.operators.joins import *
    from .engine.operators.kafka import *
    from .engine.operators.operator import Flow as Flow
    from .engine.operators.process import *
    from .engine.operators.stateless import *
    from .engine.operators.tables import *
    from .engine.operators.topics import *

_HOMES = {
    "cluster.spark.runner": ("main",),
    "engine.building": ("Pipe", "subtopology"),
    "engine.operators.operator": ("Flow",),
    "environment": ("parse_duration", "duration", "env_var", "pem_text", "whole_number"),
    "generated_code": ("topology_beside",),
    "ir.functions": ("PythonCode", "PythonFunction", "Udf"),
    "ir.topology": (
        *("Agg", "Assignment", "GlobalTable", "KafkaCluster", "KafkaTopic", "PluginRef", "SchemaRegistry"),
        *("Settings", "Store", "Subtopology", "Topic", "Topology", "raw_topic"),
    ),
    "ir.windows": ("JoinWindow", "SessionWindow", "SlidingWindow", "Window"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{home}", __name__), name)
    if name[:1].isupper():  # Python also looks up names of submodules here, which begin with lower case
        from .engine.operators import operators

        if name in operators():
            return operators()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
