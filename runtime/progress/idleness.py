"""Which writers may still write. A reader waits for a lane that has run out only if its writer may.

A writing task is idle when it has consumed all committed input and every writer of its inputs is idle. Topics fed
from outside have no writer to wait for. Subtopologies that read one another in a circle do not wait for each other,
because each would wait for the other's clock for ever.

A task that has stopped at a record that fails is not idle: that record is unread. Those who read what it writes wait
where it stands. If they went on, its records would come too late once the step is corrected: closed windows would leave
them out, and joins would find other rows.

Answers come back to those who have asked. They close a circle, too, but they lead to no new questions: so nobody waits
for them within it, and whoever is asked waits for those who ask. Others, who read what is made of the answers, wait for
whoever answers, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ..log.commit.descriptions import SubtopologyDescription
from ..task_id import TaskKey

Node = tuple[str, str]
"""Application and subtopology."""


class Network:
    """Who writes what, over all applications that a run knows of."""

    def __init__(self, parts: Mapping[Node, SubtopologyDescription]) -> None:
        self._parts = dict(parts)
        self._writers = {topic: node for node, part in self._parts.items() for topic in part.sinks}
        self._upstream = {node: self._reachable(node) for node in self._parts}

    def writer(self, topic: str) -> Node | None:
        """The subtopology that writes `topic`; None for a topic fed from outside or one that was never written."""
        return self._writers.get(topic)

    def part(self, node: Node) -> SubtopologyDescription:
        """The description of `node`: what it reads and writes."""
        return self._parts[node]

    def waited_for(self, node: Node) -> tuple[str, ...]:
        """What `node` reads, without answers."""
        part = self._parts[node]
        return tuple(topic for topic in part.sources if topic not in part.answers)

    def writers(self, task: TaskKey) -> Iterator[TaskKey]:
        """The tasks that write what `task` waits for."""
        node = task.application, task.subtopology
        for topic in self.waited_for(node):
            writer = self._writers.get(topic)
            if writer is not None and not self.in_a_circle(node, writer):
                yield from (TaskKey(*writer, partition) for partition in range(self._parts[writer].partitions))

    def answering(self, writer: Node, reader: Node) -> tuple[Node, ...]:
        """Who answers what `writer` asks for, if `reader` has no part in it."""
        found = (self._writers.get(topic) for topic in self._parts[writer].answers)
        answering = tuple(dict.fromkeys(node for node in found if node is not None))
        inside = any(reader == node or self.in_a_circle(reader, node) for node in answering)
        return () if inside else answering

    def in_a_circle(self, reader: Node, writer: Node) -> bool:
        """Whether `writer` reads, directly or through others, what `reader` writes."""
        return reader in self._upstream.get(writer, frozenset())

    def _reachable(self, start: Node) -> frozenset[Node]:
        seen: set[Node] = set()
        todo = [start]
        while todo:
            for topic in self.waited_for(todo.pop()):
                writer = self._writers.get(topic)
                if writer is not None and writer not in seen:
                    seen.add(writer)
                    todo.append(writer)
        return frozenset(seen)


def idle_tasks(
    network: Network,
    tasks: Iterable[TaskKey],
    consumed_all: Callable[[TaskKey], bool],
    known: dict[TaskKey, bool] | None = None,
) -> dict[TaskKey, bool]:
    """For each of `tasks`, and of the tasks upstream of them, whether it is idle.

    `consumed_all` says whether a task has consumed everything committed to its inputs. `known`: what this has returned
    before, at the same moment; it is added to.
    """
    idle: dict[TaskKey, bool] = {} if known is None else known

    def visit(task: TaskKey) -> bool:
        if task in idle:
            return idle[task]
        idle[task] = True  # until its own upstream is known: a circle does not wait for itself
        idle[task] = consumed_all(task) and all(map(visit, network.writers(task)))
        return idle[task]

    for task in tasks:
        visit(task)
    return idle


def unfinished(
    network: Network, tasks: Iterable[TaskKey], consumed_all: Callable[[TaskKey], bool]
) -> tuple[TaskKey, ...]:
    """Why `tasks` are not idle: those of them, or the next ones upstream, that have not consumed all."""
    found: set[TaskKey] = set()
    seen: set[TaskKey] = set()
    todo = [*tasks]
    while todo:
        task = todo.pop()
        if task in seen:
            continue
        seen.add(task)
        if consumed_all(task):
            todo += network.writers(task)
        else:
            found.add(task)
    return tuple(sorted(found))
