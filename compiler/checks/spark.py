"""Checks the `spark:` section of a profile for values that would make Spark or its JVM fail only at the start of a run.

Sources of the rules: Spark 4's `SparkContext` (masters), `JavaUtils.byteStringAs` (sizes), and
`SparkSubmitCommandBuilder`, which passes `spark.driver.memory` unchanged to the JVM's -Xmx.
"""

from __future__ import annotations

import re

from ...runtime.pinned_settings import refused_settings, setting_name, setting_text
from ...suggestions import did_you_mean
from ..diagnostics import Diagnostics
from ..reading.nodes import Mapping, Scalar

MASTERS = ("local", "local[2]", "local[*]", "yarn", "spark://host:7077", "k8s://https://host:443")
"""An example of each kind of master that a project may name."""

_LOCAL = re.compile(
    r"local(\[\s*([1-9][0-9]*|\*)\s*(,\s*[1-9][0-9]*\s*)?\]|-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\])?"
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://\S+")
"""The address of a cluster. Any scheme is accepted, because packages of clusters can add their own."""

_SIZE = re.compile(r"[0-9]+\s*([kmgtp]?b?)", re.IGNORECASE)
_HEAP = re.compile(r"[0-9]+[kmgt]|[0-9]{9,}", re.IGNORECASE)
"""A size without a unit is in bytes; a JVM needs hundreds of millions."""
_COUNT = re.compile(r"[1-9][0-9]*")

_SIZES = frozenset(
    {
        "spark.executor.memory",
        "spark.driver.memoryOverhead",
        "spark.executor.memoryOverhead",
        "spark.executor.pyspark.memory",
        "spark.driver.maxResultSize",
        "spark.memory.offHeap.size",
    }
)
_COUNTS = frozenset(
    {"spark.executor.cores", "spark.executor.instances", "spark.driver.cores", "spark.cores.max", "spark.task.cpus"}
)


def check_spark(target: Mapping | None, diagnostics: Diagnostics) -> bool:
    """Check the settings of a target that fit the schema. Returns whether Spark can start with them."""
    section = target.get("spark") if target is not None else None
    if not isinstance(section, Mapping):
        return True
    before = len(tuple(diagnostics))
    found = {
        setting_name(key): node
        for key, node in section.items()
        if isinstance(node, Scalar) and not node.broken and node.value is not None
    }
    for name, node in found.items():
        _check(name, node, diagnostics)
    for name, needed in refused_settings({name: setting_text(node.value) for name, node in found.items()}):
        node = found[name]
        message = f"{name} is {setting_text(node.value)!r}, and Headwater {needed}."
        diagnostics.add("HW036", node.position, message, "Remove it from the `spark:` section.")
    return len(tuple(diagnostics)) == before


def _check(name: str, node: Scalar, diagnostics: Diagnostics) -> None:
    text = node.text.strip()
    wanted = None
    if name == "spark.master":
        _check_master(text, node, diagnostics)
    elif name == "spark.remote":
        _report_connect(node, diagnostics)
    elif name == "spark.driver.memory" and not _HEAP.fullmatch(text):
        wanted = "a number with k, m, g or t, such as 2g"
    elif name in _SIZES and not _SIZE.fullmatch(text):
        wanted = "a number with a unit, such as 512m or 2g"
    elif name in _COUNTS and not _COUNT.fullmatch(text):
        wanted = "a number from 1"
    elif name == "spark.submit.deployMode" and text != "client":
        wanted = "client: `headwater` itself is the driver; `spark-submit` takes a generated runner.py to a cluster"
    if wanted is not None:
        diagnostics.add("HW034", node.position, f"'{text}' is nothing that {name} can be.", f"Write {wanted}.")


def _check_master(text: str, node: Scalar, diagnostics: Diagnostics) -> None:
    if text.startswith("sc://"):
        _report_connect(node, diagnostics)
        return
    if text == "yarn" or _LOCAL.fullmatch(text) or _ADDRESS.fullmatch(text):
        return
    hint = did_you_mean(text, MASTERS) or f"Masters look like {', '.join(MASTERS)}."
    diagnostics.add("HW033", node.position, f"'{text}' is no master that Spark knows.", hint)


def _report_connect(node: Scalar, diagnostics: Diagnostics) -> None:
    message = "This is a server of Spark Connect, and Headwater places tasks on executors, which Connect cannot do."
    hint = "Write the address of the cluster itself as `master`, such as yarn or spark://host:7077."
    diagnostics.add("HW036", node.position, message, hint)
