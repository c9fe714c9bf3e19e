"""How long assignors take for thousands of tasks: `benchmarks.assignors`, as lines."""

from __future__ import annotations

from collections.abc import Iterator

from ... import assignors
from ..bench import Bench
from ..measurement import Measurement, rounded
from ..other_work import OtherWork

LARGEST = "10,000 tasks, 200 clients"
NAMES = ("high_availability", "sticky")


def assignments(bench: Bench) -> Iterator[Measurement]:
    """Seconds of the first assignment, without standbys."""
    points: dict[str, dict[str, float]] = {}
    with OtherWork() as others:
        for name in NAMES:
            ours, kafka = {}, {}
            for size, (tasks, clients) in enumerate(assignors.SIZES):
                at = f"{tasks:,} tasks, {clients} clients"
                assignor = assignors.ASSIGNORS[name]
                cold, _, _ = assignors.measure(assignor, tasks, clients, 0, (1,), bench.measured)
                ours[at], kafka[at] = rounded(cold), assignors.KAFKA[name][size]
            points[name], points[f"Kafka Streams, {name}"] = ours, kafka
    found = Measurement(
        "assignors",
        "s",
        points[NAMES[0]][LARGEST],
        points=points,
        note=f"`{NAMES[0]}` of {LARGEST}, where nobody has anything. Kafka Streams' 4.1.0 are given figures, of "
        "another machine of this kind: a size, not a ratio.",
    )
    yield bench.judged(found, others)
