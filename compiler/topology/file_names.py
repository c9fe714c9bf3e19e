"""Checks that names fit into the file system of a run: logs, stores and generated code have folders of these names.

The log has a folder for each application and topic, and the state directory one for each application and store. Names
consist of ASCII characters, so that their length is that of a file name in bytes.
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

MOST_BYTES = 255
"""Of a file's name in the file systems of Linux and macOS."""

MOST_OF_APPLICATION = 215
"""Of an application's name: a folder that is removed is called `.<application>~<number>-<32 digits>` meanwhile."""

MOST_OF_STORE = 220
"""Of a store's name: a copy that is being made has a dot before it, and a word and a number behind."""

_LONGEST_OWN = 2 * 200 + len("--repartition")
"""What the name of a topic may add to that of its application: of a flow and of a step."""


def check_lengths(
    model: ProjectModel, resolution: Resolution, whole: Mapping[str, CheckedTopology], diagnostics: Diagnostics
) -> None:
    """Report names that would be too long for a file: of applications, their own topics, and their stores."""
    for topology in model.topologies.values():
        application = f"{model.name}-{topology.name.text}"
        if len(application) > MOST_OF_APPLICATION:
            length = len(application)
            what = f"The topology's application, '<project>-<topology>', would have a name of {length} characters"
            hint = "Give the topology, or the project in headwater.yml, a shorter name."
            _report(topology.name, what, MOST_OF_APPLICATION, hint, diagnostics)
        elif topology.name.text in whole and len(application) + _LONGEST_OWN > MOST_BYTES:
            _check_own(topology, build_graph(model, topology, whole[topology.name.text]), diagnostics)
    for name, letters in resolution.letters.items():
        if len(name) > MOST_BYTES:
            what = f"The topic of dead letters of '{letters.topic}' would have a name of {len(name)} characters"
            hint = "Give the topic or the topology a shorter name."
            _report(model.topologies[letters.topology].name, what, MOST_BYTES, hint, diagnostics)


def _check_own(topology: TopologyModel, graph: TopologyGraph, diagnostics: Diagnostics) -> None:
    for store in graph.stores:
        declared = topology.stores.get(store.name)
        at = topology.name if declared is None else declared.name
        changelog = len(f"{graph.application}-{store.name}-changelog") if store.changelog else 0
        if len(store.name) > MOST_OF_STORE:
            what = f"The store '{store.name}' has a name of {len(store.name)} characters"
            _report(at, what, MOST_OF_STORE, "Give it a shorter name.", diagnostics)
        elif changelog > MOST_BYTES:
            what = f"The changelog of the store '{store.name}' would have a name of {changelog} characters"
            hint = "Give the store, the topology or the project a shorter name."
            _report(at, what, MOST_BYTES, hint, diagnostics)
    for name in graph.repartition_topics:
        if len(name) > MOST_BYTES:
            what = f"The repartition topic '{name}' would have a name of {len(name)} characters"
            hint = "Give the flow, the step, the topology or the project a shorter name."
            _report(topology.name, what, MOST_BYTES, hint, diagnostics)


def _report(at: ScalarNode, what: str, most: int, hint: str, diagnostics: Diagnostics) -> None:
    message = f"{what}; it becomes the name of a folder, which has at most {most}."
    diagnostics.add("HW039", at.position, message, hint)


def check_twins(model: ProjectModel, resolution: Resolution, diagnostics: Diagnostics) -> None:
    """Report names that differ in capitals only: on a file system that does not tell them apart, what one of them
    writes would be the other's.
    """
    written = {name: model.topologies[topology].flows[flow].to for name, (topology, flow) in resolution.written.items()}
    topics = [*(topic.name for topic in model.topics.values()), *(name for name in written.values() if name)]
    _report_twins("topics", topics, diagnostics)
    _report_twins("topologies", (topology.name for topology in model.topologies.values()), diagnostics)
    for topology in model.topologies.values():
        stores = [*(store.name for store in topology.stores.values()), *(t.name for t in topology.tables.values())]
        _report_twins("stores or tables", stores, diagnostics)


def _report_twins(what: str, names: Iterable[ScalarNode], diagnostics: Diagnostics) -> None:
    known: dict[str, ScalarNode] = {}
    for name in names:
        first = known.setdefault(name.text.lower(), name)
        if first.text != name.text:
            message = (
                f"The {what} '{first.text}' and '{name.text}' differ in capitals only, and the file system of this "
                "project does not tell them apart."
            )
            diagnostics.add("HW039", name.position, message, "Rename one of them.")


def tells_capitals(folder: Path) -> bool:
    """Whether the file system of a folder, or of the nearest one above that is there, tells capitals from others."""
    for path in _existing(folder):
        swapped = path.name.swapcase()
        if swapped != path.name:  # unlike that of the root, which is empty
            other = path.with_name(swapped)
            try:
                return other.is_symlink() or not os.path.samefile(path, other)
            except OSError:
                return True
    return True


def _existing(folder: Path) -> Iterator[Path]:
    return (path for path in (folder, *folder.parents) if path.exists())
