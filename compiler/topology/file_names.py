"""Checks that names fit into a file system, because logs, stores and generated code have folders of these names.

The log has a folder per application and topic, and the state directory a folder per application and store. Names are
ASCII, so a character of a name is a byte of a file name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ..diagnostics import Diagnostics
from ..model.project import ProjectModel, TopologyModel
from ..model.resolve import Resolution
from ..operations.base.context import CheckedTopology
from ..reading.source import ScalarNode
from .graph import TopologyGraph
from .subtopologies import build_graph

MAX_BYTES = 255
"""The maximal length of a file's name on Linux and macOS."""

MAX_APPLICATION_BYTES = 215
"""The maximal length of an application's name. A folder under removal is `.<application>~<number>-<32 digits>`."""

MAX_STORE_BYTES = 220
"""The maximal length of a store's name. An unfinished copy has a dot before it, and a word and a number behind."""

_MAX_TOPIC_SUFFIX = 2 * 200 + len("--repartition")
"""The maximal length of the part of a repartition topic's name behind the application: of flow and step."""


def check_lengths(
    model: ProjectModel, resolution: Resolution, whole: Mapping[str, CheckedTopology], diagnostics: Diagnostics
) -> None:
    """Report names that are too long for a file: of applications, their repartition topics, changelogs and stores."""
    for topology in model.topologies.values():
        application = f"{model.name}-{topology.name.text}"
        if len(application) > MAX_APPLICATION_BYTES:
            length = len(application)
            what = f"The name of the topology's application, '<project>-<topology>', has {length} characters"
            hint = "Give the topology, or the project in headwater.yml, a shorter name."
            _report(topology.name, what, MAX_APPLICATION_BYTES, hint, diagnostics)
        elif topology.name.text in whole and len(application) + _MAX_TOPIC_SUFFIX > MAX_BYTES:
            _check_own(topology, build_graph(model, topology, whole[topology.name.text]), diagnostics)
    for name, letters in resolution.letters.items():
        if len(name) > MAX_BYTES:
            what = f"The name of the topic of dead letters of '{letters.topic}' has {len(name)} characters"
            hint = "Give the topic or the topology a shorter name."
            owner = model.topologies.get(letters.topology) or model.topics[letters.topic]
            _report(owner.name, what, MAX_BYTES, hint, diagnostics)


def _check_own(topology: TopologyModel, graph: TopologyGraph, diagnostics: Diagnostics) -> None:
    for store in graph.stores:
        declared = topology.stores.get(store.name)
        at = topology.name if declared is None else declared.name
        changelog = len(f"{graph.application}-{store.name}-changelog") if store.changelog else 0
        if len(store.name) > MAX_STORE_BYTES:
            what = f"The name of the store '{store.name}' has {len(store.name)} characters"
            _report(at, what, MAX_STORE_BYTES, "Give it a shorter name.", diagnostics)
        elif changelog > MAX_BYTES:
            what = f"The name of the changelog of the store '{store.name}' has {changelog} characters"
            hint = "Give the store, the topology or the project a shorter name."
            _report(at, what, MAX_BYTES, hint, diagnostics)
    for name in graph.repartition_topics:
        if len(name) > MAX_BYTES:
            what = f"The name of the repartition topic '{name}' has {len(name)} characters"
            hint = "Give the flow, the step, the topology or the project a shorter name."
            _report(topology.name, what, MAX_BYTES, hint, diagnostics)


def _report(at: ScalarNode, what: str, limit: int, hint: str, diagnostics: Diagnostics) -> None:
    message = f"{what}; it becomes the name of a folder, which may have at most {limit}."
    diagnostics.add("HW039", at.position, message, hint)


def check_case_conflicts(model: ProjectModel, diagnostics: Diagnostics) -> None:
    """Report names that differ only in case. In a case-insensitive file system they would have the same folder."""
    topics = [topic.name for topic in model.topics.values()]
    topics += [to for topology in model.topologies.values() for flow in topology.flows.values() for to in flow.to]
    _report_case_conflicts("topics", topics, diagnostics)
    _report_case_conflicts("topologies", (topology.name for topology in model.topologies.values()), diagnostics)
    for topology in model.topologies.values():
        stores = [*(store.name for store in topology.stores.values()), *(t.name for t in topology.tables.values())]
        _report_case_conflicts("stores or tables", stores, diagnostics)


def _report_case_conflicts(what: str, names: Iterable[ScalarNode], diagnostics: Diagnostics) -> None:
    firsts: dict[str, ScalarNode] = {}
    for name in names:
        first = firsts.setdefault(name.text.lower(), name)
        if first.text != name.text:
            message = (
                f"The {what} '{first.text}' and '{name.text}' differ only in case, and the file system of this "
                "project is not case-sensitive."
            )
            diagnostics.add("HW039", name.position, message, "Rename one of them.")


def is_case_sensitive(folder: Path) -> bool:
    """Whether the file system of a folder, or of its nearest existing parent, is case-sensitive."""
    for path in _existing(folder):
        swapped = path.name.swapcase()
        if swapped != path.name:  # the root has an empty name
            other = path.with_name(swapped)
            try:
                return other.is_symlink() or not os.path.samefile(path, other)
            except OSError:
                return True
    return True


def _existing(folder: Path) -> Iterator[Path]:
    return (path for path in (folder, *folder.parents) if path.exists())
