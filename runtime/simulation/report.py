"""What a simulation found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ..task_id import TaskId
from .fleet import Restored
from .model import Application, Assumptions, Member, duration_ms, shown_duration, shown_size, size_bytes

# The result of a simulation: its rounds and their totals.

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


# The measures of a simulation for which a limit can be asserted, and the check of a limit.


@dataclass(frozen=True)
class Measure:
    """A measure. `worst`: its worst value and the event of that value; None: it does not apply.

    `read`: parses a limit; `shown`: prints a value; `sentence`: the message about an event.
    """

    worst: Callable[[Simulation], tuple[float, str] | None]
    read: Callable[[str], float]
    shown: Callable[[float], str]
    sentence: str

    def of(self, simulation: Simulation) -> float | None:
        """The worst value."""
        found = self.worst(simulation)
        return None if found is None else round(found[0], 3)


@dataclass(frozen=True)
class Assertion:
    """`max_moved=5` for one simulation. `value`: None if it is unknown; then the assertion fails."""

    name: str
    limit: float
    value: float | None
    sentence: str

    @property
    def holds(self) -> bool:
        """Whether the limit is kept."""
        return self.value is not None and self.value <= self.limit


def check(simulation: Simulation, name: str, limit: float) -> Assertion:
    """Check a simulation against a limit of MEASURES."""
    measure, found = MEASURES[name], MEASURES[name].worst(simulation)
    topology = simulation.application.name
    if found is None:
        return Assertion(name, limit, None, f"{topology}: {name} needs racks")
    value, event = found
    said = measure.sentence.format(value=measure.shown(value), event=event)
    # A limit that is exceeded is exceeded whatever the doubts are.
    if value <= limit and (doubts := simulation.doubts()):
        return Assertion(name, limit, None, f"{doubts[0]}, so that {name} cannot be told")
    return Assertion(name, limit, value, f"{topology}: {said}; {name} is {measure.shown(limit)}")


def _each_event(value: Callable[[tuple[Round, ...]], float]) -> Callable[[Simulation], tuple[float, str]]:
    """The worst event by the value of its rounds; the first of equals."""

    def worst(simulation: Simulation) -> tuple[float, str]:
        return max(((value(rounds), rounds[0].event_text) for rounds in simulation.events()), key=lambda each: each[0])

    return worst


def _cross_rack(simulation: Simulation) -> tuple[float, str] | None:
    found = [(simulation.cross_rack(rounds[-1]), rounds[-1].event_text) for rounds in simulation.events()]
    known = [(float(count), event) for count, event in found if count is not None]
    return max(known, key=lambda each: each[0]) if len(known) == len(found) else None


def _count(text: str) -> float:
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"{text!r} is not a whole number")
    return float(text)


def _number(text: str) -> float:
    if not text.isascii() or not text.replace(".", "", 1).isdigit():
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def _duration(text: str) -> float:
    """A duration in ms. A number without a unit is in seconds."""
    bare = text.isascii() and text.replace(".", "", 1).isdigit()
    return float(duration_ms(f"{text}s" if bare else text))


def _plain(value: float) -> str:
    return f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


MEASURES: Mapping[str, Measure] = {
    "max_moved": Measure(
        _each_event(lambda rounds: sum(len(each.moves) for each in rounds)),
        _count,
        _plain,
        "tasks moved in '{event}': {value}",
    ),
    "max_downtime": Measure(
        _each_event(lambda rounds: max(each.down_ms for each in rounds)),
        _duration,
        shown_duration,
        "longest downtime of a task in '{event}': {value}",
    ),
    "max_restored": Measure(
        _each_event(lambda rounds: sum(each.restored.bytes for each in rounds)),
        size_bytes,
        shown_size,
        "restored in '{event}': {value}",
    ),
    "max_rounds": Measure(
        _each_event(len),
        _count,
        _plain,
        "rounds of '{event}': {value}",
    ),
    "max_spread": Measure(
        _each_event(lambda rounds: rounds[-1].spread),
        _number,
        _plain,
        "difference between clients after '{event}', in tasks for each thread: {value}",
    ),
    "max_cross_rack": Measure(
        _cross_rack,
        _count,
        _plain,
        "partitions read from another rack after '{event}': {value}",
    ),
}
"""The measures by name."""


# A simulation as plain data, which `headwater simulate --format json` prints.


def to_json(simulation: Simulation) -> dict[str, Any]:
    """All rounds and results. Times are ms, sizes bytes and records."""
    assumed, application = simulation.assumptions, simulation.application
    return {
        "topology": application.name,
        "assignor": application.assignor,
        "tasks": len(application.tasks),
        "measured": application.measured,
        "assumptions": {
            "restore_records_per_second": assumed.restore.records,
            "restore_bytes_per_second": assumed.restore.bytes,
            "task_records": assumed.size.records,
            "task_bytes": assumed.size.bytes,
            "updates_per_second": assumed.updates,
            "replication": assumed.replication,
        },
        "rounds": [_round(simulation, each) for each in simulation.rounds],
        "results": {name: measure.of(simulation) for name, measure in MEASURES.items()},
    }


def _round(simulation: Simulation, of: Round) -> dict[str, Any]:
    return {
        "round": of.number,
        "event": of.event_text,
        "cause": of.cause,
        "at_ms": of.at_ms,
        "until_ms": of.until_ms,
        "settled": of.settled,
        "followup_ms": of.followup_ms,
        "clients": {
            client.name: {
                "threads": client.threads,
                "rack": client.rack,
                "active": [str(task) for task in of.placements[client.name].active],
                "standby": [str(task) for task in of.placements[client.name].standby],
                "restoring": [str(task) for name, task in sorted(of.restoring) if name == client.name],
            }
            for client in of.clients
        },
        "moves": [
            {"task": str(move.task), "from": move.source, "to": move.target, "down_ms": round(move.down_ms)}
            for move in of.moves
        ],
        "unassigned": [str(task) for task in simulation.unassigned(of)],
        "new_standbys": of.new_standbys,
        "down_ms": {str(task): round(ms) for task, ms in sorted(of.restored.down.items())},
        "restored_records": round(of.restored.records),
        "restored_bytes": round(of.restored.bytes),
        "spread": round(of.spread, 3),
        "cross_rack": simulation.cross_rack(of),
    }
