"""The measures of a simulation for which a limit can be asserted, and the check of a limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .quantities import duration_ms, shown_duration, shown_size, size_bytes
from .report import Round, Simulation


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
