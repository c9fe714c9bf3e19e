"""Throughput of a keyed count as its input grows: more partitions, more keys, more segments behind; beside the peer's.

Both sides take turns, as for other figures, but with fewer epochs, because large ones take long.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ... import bare_loop
from ..bench import Bench
from ..measurement import Measurement, rounded
from ..sides.process import Turn
from ..sizes import Size
from ..workloads import WORKLOADS
from .beside_spark import take_turns
from .driver import costs_of_a_driver

WARM_UP, MEASURED = 4, 3
TITLES = {
    "partitions": "partitions, of a million records an epoch",
    "keys": "keys, of a million records an epoch",
    "segments": "segments in an epoch of 100,000 records; Spark: files in a batch",
}
TENTH = 10
"""The part of an epoch's records that there are where segments are counted: a thousand of a hundred each, at most."""


def sizes(what: str, base: Size, quick: bool) -> Sequence[Size]:
    """The sizes along which one thing grows; of a quick run, fewer of them."""
    if what == "partitions":
        found = [replace(base, partitions=each) for each in (1, 2, 4, 16, 64, 256)]
        return found[::2] + found[-1:] if quick else found
    if what == "keys":
        return [replace(base, keys=each) for each in (10_000, 100_000, 1_000_000, 10_000_000)][: 3 if quick else 4]
    behind = replace(base, records=base.records // TENTH)
    return [replace(behind, segments=each) for each in (1, 10, 100, 1000)][: 3 if quick else 4]


def growth(bench: Bench) -> Iterator[Measurement]:
    """A line for each thing that grows, with all of its points; the figure is that of the largest."""
    for what in TITLES:
        yield grown(what, bench)
    yield from costs_of_a_driver(bench)


def grown(what: str, bench: Bench) -> Measurement:
    """All points of one thing that grows."""
    workload = WORKLOADS["keyed_count"]
    shorter = replace(bench, warm_up=min(WARM_UP, bench.warm_up), measured=min(MEASURED, bench.measured))
    points: dict[str, dict[str, float]] = {"ours": {}, "peer": {}, "limit": {}}
    busiest, ratio = None, 0.0
    for size in sizes(what, bench.size, bench.quick_growth):
        turns = take_turns(shorter, workload, size)
        seconds = {
            "ours": _seconds(turns.ours),
            "peer": _seconds(turns.peer),
            "limit": bare_loop.seconds_an_epoch(workload.name, size, shorter.measured),
        }
        at = str(getattr(size, what))
        for side, each in seconds.items():
            points[side][at] = rounded(size.records / each)
        print(f"   {at} {what}: {points['ours'][at]:,g} beside {points['peer'][at]:,g}", file=sys.stderr, flush=True)
        ratio = seconds["peer"] / seconds["ours"]
        if busiest is None or turns.others.cores > busiest.cores:
            busiest = turns.others
        bench.clear()
    assert busiest is not None
    found = Measurement(
        f"growth_{what}",
        "records/s",
        points["ours"][at],
        points["peer"][at],
        round(ratio, 2),
        limit=points["limit"][at],
        points=points,
        note=f"By {TITLES[what]}: medians of {shorter.measured} epochs behind a warm-up of {shorter.warm_up}. The "
        f"figures in the table are those of the largest.",
    )
    return bench.judged(found, busiest)


def _seconds(turns: Sequence[Turn]) -> float:
    return statistics.median(each.seconds for each in turns)
