"""Which topics have a topic of dead letters, in which topology, as far as the files say it.

Repartition topics have theirs too, which only the graph knows: nobody names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..entries.dead_letters import dead_letter_name
from ..entries.models import TopicModel
from .implicit_stores import joined_tables
from .project import ProjectModel, TopologyModel


@dataclass(frozen=True)
class Letters:
    """A topic of dead letters: the topology that writes it, and the topic whose records it keeps."""

    topology: str
    topic: str


def letters_of(model: ProjectModel) -> dict[str, Letters]:
    """The topics of dead letters of a project, by name."""
    return {
        dead_letter_name(name, topic): Letters(name, topic)
        for name, topology in model.topologies.items()
        for topic in kept_topics(topology, model.topics)
    }


def kept_topics(topology: TopologyModel, topics: Mapping[str, TopicModel]) -> tuple[str, ...]:
    """The topics whose failed records a topology keeps: they say so, or a flow says so that their records may reach."""
    reached = {name: _reached(topology, name) for name in topology.flows}
    tables = [table.topic.text for table in topology.tables.values() if not table.is_global]
    read = dict.fromkeys([*tables, *(topic for found in reached.values() for topic in found)])
    by_flows = {
        topic for name, flow in topology.flows.items() if flow.on_error == "dead_letter" for topic in reached[name]
    }
    return tuple(
        name for name in read if name in by_flows or (name in topics and topics[name].on_error == "dead_letter")
    )


def _reached(topology: TopologyModel, name: str) -> list[str]:
    """The topics whose records may reach a flow, through tables and other flows."""
    made = {
        branch.text: flow
        for flow, entry in topology.flows.items()
        for step in entry.references
        for branch in step.flows
    }
    found: dict[str, None] = {}
    joined = joined_tables(topology)
    seen, todo = {name}, [name]
    while todo:
        reading = todo.pop()
        for source in (*topology.flows[reading].reads, *joined.get(reading, ())):
            flow = made.get(source.text, source.text)
            if source.text in topology.tables:
                found[topology.tables[source.text].topic.text] = None
            elif flow not in topology.flows:
                found[source.text] = None
            elif flow not in seen:
                seen.add(flow)
                todo.append(flow)
    return list(found)
