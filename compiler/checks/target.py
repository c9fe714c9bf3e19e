"""Checks of a target: its directories and settings of Spark; and `start` of flows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...runtime.ir.topology import parse_start
from ...runtime.pinned_settings import refused_settings, setting_name, setting_text
from ...suggestions import did_you_mean
from ..diagnostics import Diagnostics, Position
from ..model.project import FlowModel, TopologyModel
from ..reading.load import LoadedProject
from ..reading.source import MappingNode, Node, ScalarNode
from ..target_settings import DEFAULT_LOG, DEFAULT_STATE

# Directories of a target. A command must not delete what another one needs.

_TARGET = "target"
"""The folder of generated files, which `headwater clean` removes."""


_HINT = f"Give them separate folders, such as '{DEFAULT_LOG}' and '{DEFAULT_STATE}'."


@dataclass(frozen=True)
class _Folder:
    """A folder as written and as resolved. `position`: None for the default."""

    written: str
    path: Path
    position: Position | None


def check_folders(loaded: LoadedProject, diagnostics: Diagnostics) -> None:
    """Report a state directory that overlaps with the project or the log, and data in `target/`."""
    if loaded.target is None:
        return
    state = _folder(loaded.root, loaded.target.get("state_dir"), DEFAULT_STATE)
    log = _log(loaded.root, loaded.target.get("log"))
    if state is not None:
        overlap = _overlap(loaded.root, state, log)
        if overlap is not None:
            at = state.position or (log and log.position) or loaded.target.position
            diagnostics.add("HW028", at, f"The state_dir '{state.written}' {overlap}.", _HINT)
    generated = _resolved(loaded.root / _TARGET)
    for key, folder in (("state_dir", state), ("log", log)):
        relation = None if folder is None or generated is None else _relation(folder.path, generated)
        if folder is not None and relation in ("is", "is in"):
            message = (
                f"The {key} '{folder.written}' {relation} the folder '{_TARGET}', which `headwater clean` removes."
            )
            diagnostics.add("HW029", folder.position or loaded.target.position, message, _HINT)


def _overlap(root: Path, state: _Folder, log: _Folder | None) -> str | None:
    """How the state directory overlaps with the project or the log; None if it does not."""
    project = _resolved(root)
    relation = None if project is None else _relation(state.path, project)
    if relation in ("is", "contains"):
        return f"{relation} the project's folder"
    relation = None if log is None else _relation(state.path, log.path)
    return None if log is None or relation is None else f"{relation} the log, '{log.written}'"


def _relation(one: Path, other: Path) -> str | None:
    if one == other:
        return "is"
    if other.is_relative_to(one):
        return "contains"
    return "is in" if one.is_relative_to(other) else None


def _log(root: Path, log: Node | None) -> _Folder | None:
    """The folder of a log, if it has one."""
    if isinstance(log, MappingNode) and "name" in log:
        log = log.get("options")
        return _folder(root, log.get("path"), "") if isinstance(log, MappingNode) else None
    if isinstance(log, MappingNode) and "uri" in log:
        return None
    return _folder(root, log.get("path") if isinstance(log, MappingNode) else None, DEFAULT_LOG)


def _folder(root: Path, written: Node | None, default: str) -> _Folder | None:
    """The folder; None if the value is not a folder of this machine."""
    if written is None:
        text, position = default, None
    elif isinstance(written, ScalarNode) and isinstance(written.value, str):
        text, position = written.value, written.position
    else:
        return None
    path = _resolved(root / text) if text and "://" not in text else None
    return None if path is None else _Folder(text, path, position)


def _resolved(path: Path) -> Path | None:
    """The path without symbolic links and `..`; None if it is invalid or links form a cycle, which `debug` reports."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return None


# The `spark:` section of a profile: values with which Spark or its JVM would fail at the start of a run.
#
# Sources of the rules: Spark 4's `SparkContext` (masters), `JavaUtils.byteStringAs` (sizes), and
# `SparkSubmitCommandBuilder`, which passes `spark.driver.memory` unchanged to the JVM's -Xmx.

MASTERS = ("local", "local[2]", "local[*]", "yarn", "spark://host:7077", "k8s://https://host:443")
"""An example of each kind of master."""

_LOCAL = re.compile(
    r"local(\[\s*([1-9][0-9]*|\*)\s*(,\s*[1-9][0-9]*\s*)?\]|-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\])?"
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://\S+")
"""The address of a cluster, with any scheme, because packages can add cluster managers."""

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


def check_spark(target: MappingNode | None, diagnostics: Diagnostics) -> bool:
    """Check the settings of a target that are valid by the schema. Returns whether Spark can start with them."""
    section = target.get("spark") if target is not None else None
    if not isinstance(section, MappingNode):
        return True
    before = len(tuple(diagnostics))
    settings = {
        setting_name(key): node
        for key, node in section.items()
        if isinstance(node, ScalarNode) and not node.broken and node.value is not None
    }
    for name, node in settings.items():
        _check(name, node, diagnostics)
    for name, needed in refused_settings({name: setting_text(node.value) for name, node in settings.items()}):
        node = settings[name]
        message = f"{name} is {setting_text(node.value)!r}, and Headwater {needed}."
        diagnostics.add("HW036", node.position, message, "Remove it from the `spark:` section.")
    return len(tuple(diagnostics)) == before


def _check(name: str, node: ScalarNode, diagnostics: Diagnostics) -> None:
    text = node.text.strip()
    expected = None
    if name == "spark.master":
        _check_master(text, node, diagnostics)
    elif name == "spark.remote":
        _report_connect(node, diagnostics)
    elif name == "spark.driver.memory" and not _HEAP.fullmatch(text):
        expected = "a number with k, m, g or t, such as 2g"
    elif name in _SIZES and not _SIZE.fullmatch(text):
        expected = "a number with a unit, such as 512m or 2g"
    elif name in _COUNTS and not _COUNT.fullmatch(text):
        expected = "a number from 1"
    elif name == "spark.submit.deployMode" and text != "client":
        expected = "client: `headwater` itself is the driver; `spark-submit` runs a generated runner.py on a cluster"
    if expected is not None:
        diagnostics.add("HW034", node.position, f"'{text}' is not a value of {name}.", f"Write {expected}.")


def _check_master(text: str, node: ScalarNode, diagnostics: Diagnostics) -> None:
    if text.startswith("sc://"):
        _report_connect(node, diagnostics)
        return
    if text == "yarn" or _LOCAL.fullmatch(text) or _ADDRESS.fullmatch(text):
        return
    hint = did_you_mean(text, MASTERS) or f"Masters look like {', '.join(MASTERS)}."
    diagnostics.add("HW033", node.position, f"'{text}' is not a master of Spark.", hint)


def _report_connect(node: ScalarNode, diagnostics: Diagnostics) -> None:
    message = "This is a server of Spark Connect. Headwater assigns tasks to executors, which Connect does not support."
    hint = "Write the address of the cluster itself as `master`, such as yarn or spark://host:7077."
    diagnostics.add("HW036", node.position, message, hint)


# `start` of flows: where a new reader of a topic starts.

Sources = Mapping[str, Sequence[tuple[str, str]] | None]
"""Flow -> its sources as (kind, name); None if they are unknown."""


def check_starts(topology: TopologyModel, sources: Sources, diagnostics: Diagnostics) -> None:
    """Report a `start` that is invalid, of other sources than topics, or of topics that a table reads, too."""
    read: dict[str, FlowModel] = {}
    tables = {table.topic.text: table for table in topology.tables.values() if not table.is_global}
    own = {topic.text for flow in topology.flows.values() for topic in flow.to}
    for flow in topology.flows.values():
        start = flow.start
        for name in _topics(flow, sources):
            other = read.setdefault(name, flow)
            if _start(other) != _start(flow):
                _report_other(name, flow, other, diagnostics)
        if start is None or not check_start(start, diagnostics):
            continue
        for kind, name in sources.get(flow.name.text) or ():
            if kind != "topic" or name in own:
                what = "is written by this topology" if kind == "topic" else f"is a {kind}"
                message = f"`start` is for topics from outside of the topology; '{name}' {what}."
                diagnostics.add("HW760", start.position, message, "Put `start` into the flow that reads the topic.")
            elif name in tables:
                table = tables[name].name.text
                message = f"The table '{table}' reads '{name}', too, and would miss the rows of earlier records."
                diagnostics.add("HW761", start.position, message, "Remove `start`, or give the table its own topic.")


def check_start(start: ScalarNode, diagnostics: Diagnostics) -> bool:
    """Report a `start` that is no position in a topic. Returns whether it is one."""
    try:
        parse_start(start.text)
    except ValueError:
        message = f"'{start.text}' is not a position in a topic."
        hint = 'Write `earliest`, `latest`, or a time since 1970 in quotes, such as `"2024-05-01T08:00:00Z"`.'
        diagnostics.add("HW763", start.position, message, hint)
        return False
    return True


def _topics(flow: FlowModel, sources: Sources) -> Iterator[str]:
    return (name for kind, name in sources.get(flow.name.text) or () if kind == "topic")


def _start(flow: FlowModel) -> str:
    return "earliest" if flow.start is None else flow.start.text


def _report_other(topic: str, flow: FlowModel, other: FlowModel, diagnostics: Diagnostics) -> None:
    at, first, second = (flow.start, flow, other) if flow.start is not None else (other.start, other, flow)
    assert at is not None
    message = (
        f"'{first.name.text}' starts at {_start(first)} in '{topic}', '{second.name.text}' at {_start(second)}. "
        "A topology has only one position in a topic."
    )
    diagnostics.add("HW762", at.position, message, "Give both the same `start`, or put them into two topologies.")
