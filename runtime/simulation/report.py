"""The result of a simulation: its rounds and their totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from ..task_id import TaskId
from .fleet import Restored
from .model import Application, Assumptions, Member

_SHOWN = 5
"""The most tasks that a sentence names."""


@dataclass(frozen=True)
class Placement:
    """The tasks of a client, sorted."""

    active: tuple[TaskId, ...]
    standby: tuple[TaskId, ...]


@dataclass(frozen=True)
class Move:
    """An active task that moved to another client.

    `records`: restored for it in this round. `down_ms`: downtime so far.
    """

    task: TaskId
    source: str | None
    target: str
    records: float
    down_ms: float


@dataclass(frozen=True, repr=False)
class Round:
    """One assignment and the time until the next. `restoring`: client and task of everything that had to be restored.

    `event`: the number of the event (0: the start), `event_text` its text. `cause`: what caused this round in
    particular. `followup_ms`: when the assignor asked for another round. `settled`: whether it was the last round of
    its step.
    """

    number: int
    event: int
    event_text: str
    cause: str
    at_ms: int
    until_ms: int
    clients: tuple[Member, ...]
    placements: Mapping[str, Placement]
    moves: tuple[Move, ...]
    new_standbys: int
    restoring: frozenset[tuple[str, TaskId]]
    restored: Restored
    followup_ms: int | None
    settled: bool

    def __repr__(self) -> str:
        return f"<Round {self.number}, {self.cause}: {len(self.moves)} moved, down {self.down_ms / 1000:.1f} s>"

    @property
    def down_ms(self) -> float:
        """The longest time for which a task has been down without a break, at the end of the round."""
        return max(self.restored.down.values(), default=0.0)

    @property
    def loads(self) -> dict[str, float]:
        """Client -> tasks for each of its threads, including standbys."""
        return {
            client.name: (len(placed.active) + len(placed.standby)) / client.threads
            for client in self.clients
            for placed in (self.placements[client.name],)
        }

    @property
    def spread(self) -> float:
        """The difference between the clients with the most and the fewest tasks for each thread."""
        return max(self.loads.values()) - min(self.loads.values())


@dataclass(frozen=True, repr=False)
class Simulation:
    """All rounds of one application."""

    application: Application
    assumptions: Assumptions
    rounds: tuple[Round, ...]

    def __repr__(self) -> str:
        moved, tasks = sum(len(each.moves) for each in self.rounds), len(self.application.tasks)
        return f"<Simulation of {self.application.name}: tasks {tasks}, rounds {len(self.rounds)}, moved {moved}>"

    def events(self) -> Iterator[tuple[Round, ...]]:
        """The rounds of each event, starting with those of the start."""
        for _, rounds in groupby(self.rounds, lambda each: each.event):
            yield tuple(rounds)

    def unassigned(self, of: Round) -> tuple[TaskId, ...]:
        """The tasks that no client runs, sorted."""
        placed = {task for each in of.placements.values() for task in each.active}
        return tuple(sorted(task.info.id for task in self.application.tasks if task.info.id not in placed))

    def doubts(self) -> list[str]:
        """A sentence for each event that did not settle or left tasks unassigned. Its figures are too small."""
        found = []
        for rounds in self.events():
            event = f"{self.application.name}: '{rounds[-1].event_text}'"
            if not rounds[-1].settled:
                found.append(f"{event} has not settled after {len(rounds)} rounds")
            if tasks := self.unassigned(rounds[-1]):
                number = f"{len(tasks)} task{'s' if len(tasks) != 1 else ''}"
                some = " ".join(map(str, tasks[:_SHOWN])) + (" ..." if len(tasks) > _SHOWN else "")
                found.append(f"{event} leaves {number} to nobody: {some}")
        return found

    def cross_rack(self, of: Round) -> int | None:
        """How many partitions clients read from another rack: inputs of actives, and changelogs of standbys.

        None if racks are unknown.
        """
        racks = {client.name: client.rack for client in of.clients}
        if None in racks.values():
            return None
        infos = {task.info.id: task.info for task in self.application.tasks}
        count = 0
        for name, placed in of.placements.items():
            read = [each for task in placed.active for each in infos[task].topic_partitions if each.is_source]
            read += [each for task in placed.standby for each in infos[task].topic_partitions if each.is_changelog]
            count += sum(each.racks is not None and racks[name] not in each.racks for each in read)
        return count
