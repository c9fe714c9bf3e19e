"""Resolves references: the meaning of names, the order in which flows are checked, and the writers of topics.

A reference to a missing part is reported here, once. Parts that depend on it are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from ..diagnostics import Diagnostics, did_you_mean
from ..ordering import topological_order
from ..reading.source import ScalarNode
from .build import Letters, letters_of
from .project import FlowModel, ProjectModel, TopologyModel

FlowId = tuple[str, str]
"""Topology and flow."""

Kind = Literal["topic", "table", "flow"]

_INTERNAL = ("-repartition", "-changelog")
"""Endings of the names of internal topics."""


@dataclass(frozen=True)
class Names:
    """The names of one topology.

    `kinds`: what they are. `branches`: flow of a `branch` -> the flow with the step. `sources`: of flows, as (kind,
    name); None if they are unknown or in a cycle, which was reported.
    """

    kinds: Mapping[str, Kind]
    branches: Mapping[str, str]
    sources: Mapping[str, tuple[tuple[Kind, str], ...] | None]


@dataclass(frozen=True)
class Resolution:
    """The project's references.

    `order`: flows, after the flows that they read. `written`: undeclared topic -> the flow that writes it. `letters`:
    the topics of dead letters. `invalid_sinks`: flows with an invalid `to`, which was reported.
    """

    names: Mapping[str, Names]
    order: tuple[FlowId, ...]
    written: Mapping[str, FlowId]
    invalid_sinks: frozenset[FlowId] = field(default_factory=frozenset)
    letters: Mapping[str, Letters] = field(default_factory=dict)


def resolve(model: ProjectModel, diagnostics: Diagnostics) -> Resolution:
    """Resolve all references between topics, tables, stores and flows."""
    return _Resolver(model, diagnostics).run()


class _Resolver:
    def __init__(self, model: ProjectModel, diagnostics: Diagnostics) -> None:
        self._model = model
        self._diagnostics = diagnostics
        self._letters = letters_of(model)
        self._written: dict[str, FlowId] = {}
        self._invalid_sinks: set[FlowId] = set()

    def run(self) -> Resolution:
        self._internal_topics()
        self._writers()
        names = {topology.name.text: self._names(topology) for topology in self._model.topologies.values()}
        for topology in self._model.topologies.values():
            self._tables(topology)
            self._streams(topology, names[topology.name.text])
            self._stores(topology)
        # A part of a file with errors may use what seems to be unused.
        faulty = {error.position.file for error in self._diagnostics.errors}
        for topology in self._model.topologies.values():
            if topology.file not in faulty:
                self._unused_stores(topology)
                self._unread_flows(topology, names[topology.name.text])
        reads = self._reads(names)
        order, circular = self._order(reads)
        for topology_name, flow in circular:
            sources = dict(names[topology_name].sources)
            sources[flow] = None
            names[topology_name] = replace(names[topology_name], sources=sources)
        return Resolution(names, tuple(order), self._written, frozenset(self._invalid_sinks), self._letters)

    def _flows(self) -> Iterator[tuple[TopologyModel, FlowModel]]:
        for topology in self._model.topologies.values():
            for flow in topology.flows.values():
                yield topology, flow

    def _sinks(self) -> Iterator[tuple[TopologyModel, FlowModel, ScalarNode]]:
        """The topics that flows write."""
        for topology, flow in self._flows():
            for to in flow.to:
                yield topology, flow, to

    def _internal_topics(self) -> None:
        """Report topics with names of repartition topics and changelogs."""
        named = [topic.name for topic in self._model.topics.values()]
        named += [to for _, _, to in self._sinks()]
        for name in named:
            if name.text.startswith(f"{self._model.name}-") and name.text.endswith(_INTERNAL):
                message = f"Names like '{name.text}' are reserved for internal topics of a topology."
                self._diagnostics.add("HW209", name.position, message, "Choose another beginning or end.")

    def _writers(self) -> None:
        writer: dict[str, str] = {
            name: "its seed" for name, topic in self._model.topics.items() if topic.seed is not None
        }
        for name, letters in list(self._letters.items()):
            if name in self._model.topics:
                self._taken_by_letters(self._model.topics[name].name, letters)
                del self._letters[name]
        for topology, flow, to in self._sinks():
            topic, me = to.text, (topology.name.text, flow.name.text)
            if topic in self._letters:
                self._taken_by_letters(to, self._letters[topic])
                self._invalid_sinks.add(me)
                continue
            if topic in writer:
                message = f"The topic '{topic}' is already written by {writer[topic]}."
                seeded = writer[topic] == "its seed"
                way = "remove the seed" if seeded else "merge the flows with `from: [a, b]`"
                hint = f"A topic has one writer: write to another topic, or {way}."
                self._diagnostics.add("HW308", to.position, message, hint)
                self._invalid_sinks.add(me)
                continue
            writer[topic] = f"the flow '{flow.name.text}' of '{topology.name.text}'"
            if topic not in self._model.topics:
                self._written[topic] = me

    def _taken_by_letters(self, name: ScalarNode, letters: Letters) -> None:
        owner, topic = letters.topology, letters.topic
        message = f"'{name.text}' is the topic of dead letters of '{topic}' in '{owner}'."
        self._diagnostics.add("HW721", name.position, message, "Give this topic another name.")

    def _names(self, topology: TopologyModel) -> Names:
        kinds: dict[str, Kind] = dict.fromkeys(self._model.topics, "topic")
        kinds.update(dict.fromkeys([*self._written, *self._letters], "topic"))
        branches: dict[str, str] = {}
        mine: dict[str, str] = {}

        def define(name: ScalarNode, kind: Kind) -> None:
            if name.text in mine:
                message = f"'{name.text}' is already a {mine[name.text]} of this topology."
            elif name.text in self._written:
                where, flow = self._written[name.text]
                message = f"'{name.text}' is already a topic, written by the flow '{flow}' of '{where}'."
            elif name.text in kinds:
                message = f"'{name.text}' is already a topic."
            else:
                mine[name.text] = kind
                kinds[name.text] = kind
                return
            hint = "Topics, tables and flows share one namespace: rename one."
            self._diagnostics.add("HW306", name.position, message, hint)

        for table in topology.tables.values():
            define(table.name, "table")
        for flow in topology.flows.values():
            define(flow.name, "flow")
        for flow in topology.flows.values():
            for branch in (branch for step in flow.references for branch in step.flows):
                define(branch, "flow")
                branches.setdefault(branch.text, flow.name.text)
        sources = {flow.name.text: self._sources(flow, kinds, topology) for flow in topology.flows.values()}
        return Names(kinds, branches, sources)

    def _sources(
        self, flow: FlowModel, kinds: Mapping[str, Kind], topology: TopologyModel
    ) -> tuple[tuple[Kind, str], ...] | None:
        sources: list[tuple[Kind, str]] = []
        complete = bool(flow.sources)
        for source in flow.sources:
            kind = kinds.get(source.text)
            if kind is None and not (self._model.complete and topology.lost.isdisjoint(("tables", "flows"))):
                complete = False  # it may be among what could not be read
                continue
            if kind is None:
                hint = self._elsewhere(source.text) or did_you_mean(source.text, kinds)
                message = f"There is no topic, table or flow '{source.text}'."
                self._diagnostics.add("HW302", source.position, message, hint)
                complete = False
                continue
            if kind == "table" and topology.tables[source.text].is_global:
                message = f"'{source.text}' is a global table. Flows can only join it."
                hint = f"Read its topic: `from: {topology.tables[source.text].topic.text}`."
                self._diagnostics.add("HW517", source.position, message, hint)
                complete = False
                continue
            if (kind, source.text) in sources:
                self._diagnostics.add("HW306", source.position, f"'{source.text}' is read twice.", "Remove one.")
                complete = False
                continue
            sources.append((kind, source.text))
        return tuple(sources) if complete else None

    def _elsewhere(self, name: str) -> str | None:
        for topology, flow in self._flows():
            if flow.name.text == name:
                written = " or ".join(f"'{topic.text}'" for topic in flow.to)
                way = f"read the topic that it writes: {written}" if written else "let it write a topic with `to`"
                return f"'{name}' is a flow of the topology '{topology.name.text}': {way}."
        return None

    def _tables(self, topology: TopologyModel) -> None:
        topics = {*self._model.topics, *self._written, *self._letters}
        for table in topology.tables.values():
            if table.topic.text not in topics and self._model.complete:
                message = f"There is no topic '{table.topic.text}'."
                self._diagnostics.add("HW301", table.topic.position, message, did_you_mean(table.topic.text, topics))

    def _streams(self, topology: TopologyModel, names: Names) -> None:
        """Report missing streams of joins."""
        if not (self._model.complete and topology.lost.isdisjoint(("tables", "flows"))):
            return
        streams = (stream for flow in topology.flows.values() for step in flow.references for stream in step.streams)
        for stream in streams:
            if stream.text not in names.kinds:
                hint = self._elsewhere(stream.text) or did_you_mean(stream.text, names.kinds)
                message = f"There is no topic or flow '{stream.text}' to join."
                self._diagnostics.add("HW302", stream.position, message, hint)

    def _stores(self, topology: TopologyModel) -> None:
        used: dict[str, _StoreUser] = {}
        for user in _store_users(topology):
            name, position = user.name.text, user.name.position
            if name not in topology.stores and "stores" in topology.lost:
                continue
            if name not in topology.stores:
                message = f"There is no store '{name}'."
                hint = did_you_mean(name, topology.stores) or _declared(user)
                self._diagnostics.add("HW304", position, message, hint)
                continue
            other = used.setdefault(name, user)
            if other is user or (user.shares and other.shares and user.step != other.step):
                continue
            hint = "A store belongs to one step: declare another one."
            if user.shares != other.shares:
                hint = (
                    "Only processors share stores. Other steps and tables emit every change of their store, so nothing "
                    "else may write it: declare another one."
                )
            self._diagnostics.add("HW309", position, f"The store '{name}' is already used by {other.what}.", hint)

    def _unused_stores(self, topology: TopologyModel) -> None:
        used = {user.name.text for user in _store_users(topology)}
        for name, store in topology.stores.items():
            if name not in used:
                message = f"No step uses the store '{name}'."
                self._diagnostics.add("HW311", store.name.position, message)

    def _unread_flows(self, topology: TopologyModel, names: Names) -> None:
        read = {name for sources in names.sources.values() for _, name in sources or ()}
        for _, flow in self._flows():
            read.update(source.text for source in flow.reads)
        for flow in topology.flows.values():
            read.update(table.text for step in flow.references for table in step.tables)
        users = [user.name.text for user in _store_users(topology)]
        shared = {name for name in users if users.count(name) > 1}
        for flow in topology.flows.values():
            continues = any(step.flows or shared.intersection(map(_text, step.stores)) for step in flow.references)
            if not flow.to and flow.name.text not in read and not continues:
                self._diagnostics.add("HW310", flow.name.position, f"No flow reads '{flow.name.text}'.")

    def _reads(self, names: Mapping[str, Names]) -> dict[FlowId, list[FlowId]]:
        """Flow -> the flows that must be checked before it."""
        reads: dict[FlowId, list[FlowId]] = {}
        for topology, flow in self._flows():
            me = (topology.name.text, flow.name.text)
            mine = names[topology.name.text]
            needed = [source.text for source in flow.reads]
            needed += [table.text for step in flow.references for table in step.tables]
            reads[me] = []
            for name in needed:
                if name in topology.tables and mine.kinds.get(name) == "table":
                    name = topology.tables[name].topic.text
                if name in self._letters:
                    name = self._letters[name].topic
                if name in self._written:
                    reads[me].append(self._written[name])
                elif mine.kinds.get(name) == "flow":
                    reads[me].append((topology.name.text, mine.branches.get(name, name)))
        return reads

    def _order(self, reads: Mapping[FlowId, list[FlowId]]) -> tuple[list[FlowId], set[FlowId]]:
        circular: set[FlowId] = set()

        def on_cycle(cycle: list[FlowId]) -> None:
            if circular.isdisjoint(cycle):
                self._report_cycle(cycle)
            circular.update(cycle)

        return topological_order(reads, on_cycle), circular

    def _report_cycle(self, cycle: list[FlowId]) -> None:
        topology, name = cycle[0]
        flow = self._model.topologies[topology].flows[name]
        _, following = cycle[1 % len(cycle)]
        position = next((source.position for source in flow.reads if source.text == following), flow.name.position)
        names = [flow if owner == topology else f"{owner}.{flow}" for owner, flow in cycle]
        path = " reads ".join([*names, names[0]])
        self._diagnostics.add("HW307", position, f"Flows read one another in a cycle: {path}.")


def _text(name: ScalarNode) -> str:
    return name.text


@dataclass(frozen=True)
class _StoreUser:
    """A use of a store.

    `name`: the scalar in the file. `what`: the user, for messages. `step`: the number of the step in the topology.
    `shares`: see `References`.
    """

    name: ScalarNode
    what: str
    step: int = -1
    shares: bool = False


def _declared(user: _StoreUser) -> str:
    """The hint for an undeclared store."""
    if user.shares:
        return "Declare it under `stores:`, with its `type`, `key` and `value`."
    return "Declare it under `stores:`; or remove its name here, which uses a store with the defaults."


def _store_users(topology: TopologyModel) -> Iterator[_StoreUser]:
    for table in topology.tables.values():
        if table.store is not None:
            yield _StoreUser(table.store, f"the table '{table.name.text}'")
    steps = ((flow, step) for flow in topology.flows.values() for step in flow.references)
    for number, (flow, step) in enumerate(steps):
        for store in step.stores:
            yield _StoreUser(store, f"a step of the flow '{flow.name.text}'", number, step.shares)
