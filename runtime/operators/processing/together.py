"""Processors that share a store: each sees what the others have stored for the records before.

Operators work through an epoch one after another. These take turns instead, record by record, in the order in which the
task takes them; what one forwards to another is processed before its `forward` returns, as in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from ...timed_parts import timed
from ..declarations import Place
from ..edges import Fork
from ..node import Edges, Node, step_name
from ..rows import Rows, path_order
from ..task_epoch import TaskEpoch
from .moment import Moment
from .process import Process, columns_of
from .punctuation import Position
from .running import Given, Running
from .stores.opened import OpenedStores


def together(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The operators of a stage; those processors as one that share a store, which stand next to one another."""
    found: list[Node] = []
    rest = list(nodes)
    while rest:
        end = _end(rest)
        group = [node for node in rest[:end] if isinstance(node, Process | Fork)]
        if end > len(group) > 0:
            raise ValueError(f"another operator stands between processors that share a store: {rest[:end]}")
        found.append(ProcessTogether(tuple(group)) if end > 1 else rest[0])
        del rest[:end]
    return tuple(found)


def _end(nodes: Sequence[Node]) -> int:
    """How many of the operators the first one belongs together with, and itself."""
    end, place = 1, 0
    while place < end:
        names = _stores(nodes[place])
        end = max([end, *(other + 1 for other, node in enumerate(nodes) if names & _stores(node))])
        place += 1
    return end


def _stores(node: Node) -> set[str]:
    return {store.name for store in node.stores} if isinstance(node, Process) else set()


@dataclass(frozen=True)
class ProcessTogether:
    """Processors, and the forks between them, in the order of the stage."""

    nodes: tuple[Process | Fork, ...]

    @property
    def at(self) -> Place:
        """The place of the first one."""
        return self.nodes[0].at

    @property
    def reads(self) -> tuple[str, ...]:
        """The edges that come from outside."""
        made: set[str] = set()
        read = []
        for node in self.nodes:
            if node.flow not in made:
                read.append(node.flow)
            made.discard(node.flow)
            made.update(_made_by(node))
        return tuple(read)

    @property
    def makes(self) -> tuple[str, ...]:
        """The edges that go on from here."""
        made: dict[str, None] = {}
        for node in self.nodes:
            made.pop(node.flow, None)
            made.update(dict.fromkeys(_made_by(node)))
        return tuple(made)

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`. Raises RowFailedError, FunctionError."""
        with timed("python"):
            _Group(self.nodes, edges, epoch, step_name(self)).run()


def _made_by(node: Process | Fork) -> tuple[str, ...]:
    return node.into if isinstance(node, Fork) else tuple(node.into) or (node.flow,)


class _Group:
    """The processors of a task's epoch."""

    def __init__(self, nodes: Sequence[Process | Fork], edges: Edges, epoch: TaskEpoch, name: str) -> None:
        """`name`: of the step that counts what is dropped."""
        assert epoch.origins is not None
        self._edges = edges
        self._epoch = epoch
        self._name = name
        self._moment = Moment.at_start(epoch.origins.before)
        stores = [store for node in nodes if isinstance(node, Process) for store in node.stores]
        self._stores = OpenedStores(stores, epoch, epoch.origins, self._moment)
        self._members: list[Running] = []
        self._outer: list[tuple[Running, Rows]] = []
        """The processors whose records come from outside, with these."""
        self._inner: list[Running | Fork] = []
        """All that is left to be done once the records are processed: what was forwarded becomes rows."""
        self._forwarding: dict[str, _Way] = {}
        self._readers: list[tuple[_Way, Running]] = []
        for node in nodes:
            if isinstance(node, Fork):
                self._fork(node)
            else:
                self._processor(node)
        for way, running in sorted(self._readers, key=lambda reader: reader[0].places):
            way.source.forwarded.behind.setdefault(way.name, []).append(running.take)

    def run(self) -> None:
        """Process all, and put what goes on from here on the edges."""
        for running in self._members:
            running.begin()
        self._stores.sweep()
        for _, rows in self._outer:
            self._stores.expect(rows)
        for running, given in self._records():
            if any(each.schedules.next_record <= given[1][0] for each in self._members):
                self._punctuate(given[1])
            running.give(given)
        self._punctuate(None)
        for running in self._members:
            running.end()
        self._stores.flush(self._name)
        for part in self._inner:
            if isinstance(part, Fork):
                part.run(self._edges, self._epoch)
            else:
                self._edges.update(part.edges(self._edges.pop(part.step.flow)))

    def _fork(self, node: Fork) -> None:
        way = self._forwarding.pop(node.flow, None)
        if way is None:
            node.run(self._edges, self._epoch)
            return
        self._inner.append(node)
        for place, name in enumerate(node.into):
            self._forwarding[name] = replace(way, places=(*way.places, place))

    def _processor(self, node: Process) -> None:
        stores = {store.name: self._stores.by_name[store.name] for store in node.stores}
        way = self._forwarding.pop(node.flow, None)
        came = columns_of(self._edges[node.flow]) if way is None else way.source.into[way.name]
        running = Running(node, came, self._epoch, stores, self._moment)
        if way is None:
            self._outer.append((running, self._edges[node.flow]))
        else:
            self._readers.append((way, running))
        self._members.append(running)
        self._inner.append(running)
        self._forwarding.update({name: _Way(running, name) for name in running.into})

    def _records(self) -> Iterator[tuple[Running, Given]]:
        """The records that come from outside, in the order in which the task takes them."""
        parts = [rows for _, rows in self._outer]
        given = [running.records(rows) for running, rows in self._outer]
        ends = np.cumsum([len(rows) for rows in parts])
        for number in np.searchsorted(ends, path_order(parts), side="right").tolist():
            yield self._outer[number][0], next(given[number])

    def _punctuate(self, until: Position | None) -> None:
        """Run the punctuations that are due before something; None: all of the epoch."""
        while True:
            queued = [(at, each) for each in self._members if (at := each.schedules.next_at()) is not None]
            if not queued:
                return
            at, running = min(queued, key=itemgetter(0))
            if until is not None and at >= until:
                return
            due = running.schedules.take()
            running.run(due)
            running.schedules.ran(due)


@dataclass(frozen=True)
class _Way:
    """How records come to an edge: who forwards them, to which of its edges, and the places among readers of forks."""

    source: Running
    name: str
    places: tuple[int, ...] = ()
