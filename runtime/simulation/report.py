"""The result of a simulation: rounds, measures and JSON."""

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
    """An active task that moved to another client. `records`: restored for it in this round. `down_ms`: downtime so
    far.
    """

    task: TaskId
    source: str | None
    target: str
    records: float
    down_ms: float


@dataclass(frozen=True, repr=False)
class Round:
    """One assignment and the time until the next one.

    `event`: the number of the event (0: the start), `event_text`: its text. `cause`: of this round. `restoring`: client
    and task of all restores after the assignment. `followup_ms`: the requested time of another round. `settled`:
    whether it was the last round of its step.
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
        """The longest uninterrupted downtime of a task at the end of the round."""
        return max(self.restored.down.values(), default=0.0)

    @property
    def loads(self) -> dict[str, float]:
        """Client -> tasks per thread, with standbys."""
        return {
            client.name: (len(placed.active) + len(placed.standby)) / client.threads
            for client in self.clients
            for placed in (self.placements[client.name],)
        }

    @property
    def spread(self) -> float:
        """The difference between the most and the fewest tasks per thread of all clients."""
        return max(self.loads.values()) - min(self.loads.values())


@dataclass(frozen=True, repr=False)
class Simulation:
    """All rounds of one application."""

    application: Application
    assumptions: Assumptions
    rounds: tuple[Round, ...]

    def __repr__(self) -> str:
        moved, tasks = sum(len(round_.moves) for round_ in self.rounds), len(self.application.tasks)
        return f"<Simulation of {self.application.name}: tasks {tasks}, rounds {len(self.rounds)}, moved {moved}>"

    def events(self) -> Iterator[tuple[Round, ...]]:
        """The rounds of each event, with the start as the first event."""
        for _, rounds in groupby(self.rounds, lambda round_: round_.event):
            yield tuple(rounds)

    def unassigned(self, round_: Round) -> tuple[TaskId, ...]:
        """The tasks without a client, sorted."""
        placed = {task for placement in round_.placements.values() for task in placement.active}
        return tuple(sorted(task.info.id for task in self.application.tasks if task.info.id not in placed))

    def doubts(self) -> list[str]:
        """A sentence for each event that did not settle or has unassigned tasks. Its measures are too small."""
        doubts = []
        for rounds in self.events():
            event = f"{self.application.name}: '{rounds[-1].event_text}'"
            if not rounds[-1].settled:
                doubts.append(f"{event} has not settled after {len(rounds)} rounds")
            if tasks := self.unassigned(rounds[-1]):
                number = f"{len(tasks)} task{'s' if len(tasks) != 1 else ''}"
                first = " ".join(map(str, tasks[:_SHOWN])) + (" ..." if len(tasks) > _SHOWN else "")
                doubts.append(f"{event} leaves {number} unassigned: {first}")
        return doubts

    def cross_rack(self, round_: Round) -> int | None:
        """The number of partitions read from another rack: sources of active tasks, and changelogs of standbys.

        None if racks are unknown.
        """
        racks = {client.name: client.rack for client in round_.clients}
        if None in racks.values():
            return None
        infos = {task.info.id: task.info for task in self.application.tasks}
        count = 0
        for name, placed in round_.placements.items():
            read = [p for task in placed.active for p in infos[task].topic_partitions if p.is_source]
            read += [p for task in placed.standby for p in infos[task].topic_partitions if p.is_changelog]
            count += sum(partition.racks is not None and racks[name] not in partition.racks for partition in read)
        return count


# The measures of a simulation, and assertions of their limits.


@dataclass(frozen=True)
class Measure:
    """A measure. `worst`: its worst value, and the event of that; None: it does not apply.

    `read`: parses a limit. `shown`: formats a value. `sentence`: the message about an event.
    """

    worst: Callable[[Simulation], tuple[float, str] | None]
    read: Callable[[str], float]
    shown: Callable[[float], str]
    sentence: str

    def worst_value(self, simulation: Simulation) -> float | None:
        """The worst value, or None."""
        worst = self.worst(simulation)
        return None if worst is None else round(worst[0], 3)


@dataclass(frozen=True)
class Assertion:
    """A limit such as `max_moved=5` for one simulation. `value`: None if it is unknown; then the assertion fails."""

    name: str
    limit: float
    value: float | None
    sentence: str

    @property
    def holds(self) -> bool:
        """Whether the value is within the limit."""
        return self.value is not None and self.value <= self.limit


def check(simulation: Simulation, name: str, limit: float) -> Assertion:
    """Check a simulation against a limit. `name`: of a measure in MEASURES."""
    measure, worst = MEASURES[name], MEASURES[name].worst(simulation)
    topology = simulation.application.name
    if worst is None:
        return Assertion(name, limit, None, f"{topology}: {name} needs racks")
    value, event = worst
    sentence = measure.sentence.format(value=measure.shown(value), event=event)
    # Doubts make values too small, so an exceeded limit is certain.
    if value <= limit and (doubts := simulation.doubts()):
        return Assertion(name, limit, None, f"{doubts[0]}, so {name} is unknown")
    return Assertion(name, limit, value, f"{topology}: {sentence}; {name} is {measure.shown(limit)}")


def _worst_event(value: Callable[[tuple[Round, ...]], float]) -> Callable[[Simulation], tuple[float, str]]:
    """The first event with the largest value of its rounds."""

    def worst(simulation: Simulation) -> tuple[float, str]:
        values = ((value(rounds), rounds[0].event_text) for rounds in simulation.events())
        return max(values, key=lambda value_and_event: value_and_event[0])

    return worst


def _cross_rack(simulation: Simulation) -> tuple[float, str] | None:
    counts = [(simulation.cross_rack(rounds[-1]), rounds[-1].event_text) for rounds in simulation.events()]
    values = [(float(count), event) for count, event in counts if count is not None]
    return max(values, key=lambda value_and_event: value_and_event[0]) if len(values) == len(counts) else None


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
    without_unit = text.isascii() and text.replace(".", "", 1).isdigit()
    return float(duration_ms(f"{text}s" if without_unit else text))


def _plain(value: float) -> str:
    return f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


MEASURES: Mapping[str, Measure] = {
    "max_moved": Measure(
        _worst_event(lambda rounds: sum(len(round_.moves) for round_ in rounds)),
        _count,
        _plain,
        "tasks moved in '{event}': {value}",
    ),
    "max_downtime": Measure(
        _worst_event(lambda rounds: max(round_.down_ms for round_ in rounds)),
        _duration,
        shown_duration,
        "longest downtime of a task in '{event}': {value}",
    ),
    "max_restored": Measure(
        _worst_event(lambda rounds: sum(round_.restored.bytes for round_ in rounds)),
        size_bytes,
        shown_size,
        "restored in '{event}': {value}",
    ),
    "max_rounds": Measure(
        _worst_event(len),
        _count,
        _plain,
        "rounds of '{event}': {value}",
    ),
    "max_spread": Measure(
        _worst_event(lambda rounds: rounds[-1].spread),
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


# A simulation as JSON, for `headwater simulate --format json`.


def to_json(simulation: Simulation) -> dict[str, Any]:
    """All rounds and measures as plain data. Times are in ms, sizes in bytes and records."""
    assumptions, application = simulation.assumptions, simulation.application
    return {
        "topology": application.name,
        "assignor": application.assignor,
        "tasks": len(application.tasks),
        "measured": application.measured,
        "assumptions": {
            "restore_records_per_second": assumptions.restore.records,
            "restore_bytes_per_second": assumptions.restore.bytes,
            "task_records": assumptions.size.records,
            "task_bytes": assumptions.size.bytes,
            "updates_per_second": assumptions.updates,
            "replication": assumptions.replication,
        },
        "rounds": [_round_json(simulation, round_) for round_ in simulation.rounds],
        "results": {name: measure.worst_value(simulation) for name, measure in MEASURES.items()},
    }


def _round_json(simulation: Simulation, round_: Round) -> dict[str, Any]:
    return {
        "round": round_.number,
        "event": round_.event_text,
        "cause": round_.cause,
        "at_ms": round_.at_ms,
        "until_ms": round_.until_ms,
        "settled": round_.settled,
        "followup_ms": round_.followup_ms,
        "clients": {
            client.name: {
                "threads": client.threads,
                "rack": client.rack,
                "active": [str(task) for task in round_.placements[client.name].active],
                "standby": [str(task) for task in round_.placements[client.name].standby],
                "restoring": [str(task) for name, task in sorted(round_.restoring) if name == client.name],
            }
            for client in round_.clients
        },
        "moves": [
            {"task": str(move.task), "from": move.source, "to": move.target, "down_ms": round(move.down_ms)}
            for move in round_.moves
        ],
        "unassigned": [str(task) for task in simulation.unassigned(round_)],
        "new_standbys": round_.new_standbys,
        "down_ms": {str(task): round(ms) for task, ms in sorted(round_.restored.down.items())},
        "restored_records": round(round_.restored.records),
        "restored_bytes": round(round_.restored.bytes),
        "spread": round(round_.spread, 3),
        "cross_rack": simulation.cross_rack(round_),
    }
