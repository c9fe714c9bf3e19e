"""Generates `target/manifest.json`: the compiled project as data, by the schema `schemas/manifest.json`.

It depends on the project alone, not on the machine or the time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from ...runtime.dataclass_json import to_plain
from ...runtime.ir.topology import Agg, Store, Topic
from ...runtime.log.commit.descriptions import TopologyDescription
from ...runtime.records.types import split_columns
from ...version import MANIFEST_SCHEMA, __version__
from ..reading.load import LoadedProject
from ..reading.source import NOTES
from ..resources import Resource, Resources
from ..topology.graph import ProcessorNode, SubtopologyGraph, TopologyGraph
from .calls import declared_topology
from .template import content_hash


def manifest(loaded: LoadedProject, resources: Resources, graphs: Iterable[TopologyGraph]) -> dict[str, Any]:
    """The manifest of a project and its compiled topologies."""
    compiled = list(graphs)
    hashes = "".join(content_hash(graph) for graph in compiled)
    project = {
        "name": loaded.name,
        "version": loaded.version,
        "content_hash": hashlib.sha256(hashes.encode()).hexdigest(),
    }
    topics = {topic.name: (topic, graph) for graph in reversed(compiled) for topic in graph.topics}
    notes = {definition.name.text: definition.node.to_python() for definition in loaded.topics}
    return {
        "schema": MANIFEST_SCHEMA,
        "headwater": __version__,
        "project": project | _notes(loaded.project.to_python()),
        "topics": [
            _topic(topic, resources.by_id.get(f"topic.{name}"), graph) | _notes(notes.get(name, {}))
            for name, (topic, graph) in sorted(topics.items())
        ],
        "topologies": [_topology(graph, loaded) for graph in compiled],
    }


def as_json(content: Mapping[str, Any]) -> str:
    """The manifest's text."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _topic(topic: Topic, resource: Resource | None, graph: TopologyGraph) -> dict[str, Any]:
    kind = "repartition" if topic.name in graph.repartition_topics else "output" if topic.kafka is None else "kafka"
    at = {}
    if resource is not None and resource.line is not None:
        kind, at = "declared", {"at": f"{resource.file}:{resource.line}"}
    return {
        "name": topic.name,
        "partitions": topic.partitions,
        "key": _columns(topic.key),
        "value": _columns(topic.value),
        "windowed": topic.windowed,
        "writer": topic.writer,
        "kind": kind,
    } | at


def _topology(graph: TopologyGraph, loaded: LoadedProject) -> dict[str, Any]:
    definitions = (topology for topology in loaded.topologies if topology.name.text == graph.name)
    notes = next((definition.node.to_python() for definition in definitions), {})
    return {
        "name": graph.name,
        "application": graph.application,
        "file": graph.file,
        "content_hash": content_hash(graph),
        "subtopologies": [_subtopology(part) for part in graph.subtopologies],
        "topics": [topic.name for topic in graph.topics],
        "stores": [_store(store, graph) for store in graph.stores],
        "committed": to_plain(TopologyDescription.from_topology(declared_topology(graph))),
        "assignment": asdict(graph.assignment),
        "restore": asdict(graph.restore),
        "job": f"{graph.name}/job.py",
        "runner": f"{graph.name}/runner.py",
    } | _notes(notes)


def _subtopology(part: SubtopologyGraph) -> dict[str, Any]:
    return {
        "number": part.number,
        "name": part.name,
        "partitions": part.partitions,
        "tasks": [f"{part.number}_{partition}" for partition in range(part.partitions)],
        "sources": [topic.name for topic in part.sources],
        "sinks": [topic.name for topic in part.sinks],
        "stores": [store.name for store in part.stores],
        "global_tables": [table.name for table in part.global_tables],
        "nodes": [_node(node) for node in part.nodes],
    }


def _node(node: ProcessorNode) -> dict[str, Any]:
    return {
        "name": node.name,
        "kind": node.kind,
        "topics": list(node.topics),
        "stores": list(node.stores),
        "from": list(node.predecessors),
        "to": list(node.successors),
    }


def _store(store: Store, graph: TopologyGraph) -> dict[str, Any]:
    return {
        "name": store.name,
        "type": store.type,
        "backend": store.backend,
        "partitions": store.partitions,
        "key": _columns(store.key),
        "value": _columns(store.value),
        "window": None if store.window is None else asdict(store.window),
        "retention_ms": store.kept_ms,
        "aggregates": [_aggregate(aggregate) for aggregate in store.aggregates],
        "changelog": f"{graph.application}-{store.name}-changelog" if store.changelog else None,
    }


def _columns(ddl: str) -> dict[str, str]:
    return dict(split_columns(ddl))


def _notes(written: Mapping[str, Any]) -> dict[str, Any]:
    return {key: written[key] for key in NOTES if written.get(key)}


def _aggregate(aggregate: Agg) -> dict[str, Any]:
    fields = asdict(aggregate)
    return fields if aggregate.written else {key: value for key, value in fields.items() if key != "written"}
