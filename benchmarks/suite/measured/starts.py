"""From the start of a process to its first commit, and the first epoch beside later ones."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..bench import Bench
from ..measurement import Measurement, rounded
from ..other_work import OtherWork
from ..sides.process import Side
from ..workloads import WORKLOADS
from .beside_spark import Start, our_side, peer_side

LATER = 6
"""Epochs behind the first one. It stands beside the fastest of these: they are not warm yet."""

WANTED_TIMES = 2


@dataclass(frozen=True)
class Begun:
    """Of one start: seconds until the first commit; the seconds of its epoch, and of the epochs behind it."""

    until_commit: float
    first: float
    later: Sequence[float]

    @property
    def times(self) -> float:
        """The first epoch by the fastest of the later ones."""
        return self.first / min(self.later)


def first_epochs(bench: Bench) -> Iterator[Measurement]:
    """Both sides and a bare session of Spark start in turn, `measured` times."""
    workload, size = WORKLOADS["keyed_count"], bench.size
    ours, peer, bare = list[Begun](), list[Begun](), list[float]()
    with OtherWork() as others:
        for number in range(bench.measured):
            attempt = f"-start-{number}"
            epochs = max(1 + LATER, bench.warm_up + bench.measured)
            ours.append(_start(our_side(bench, workload, size, epochs, attempt)))
            peer.append(_start(peer_side(bench, workload, size, epochs, attempt)))
            bare.append(_until_ready(lambda: Side(bench.modules.bare)))
    until = statistics.median(each.until_commit for each in ours)
    of_spark = statistics.median(each.until_commit for each in peer)
    found = Measurement.from_runs(
        "first_epoch",
        "s",
        {"ours": [each.until_commit for each in ours], "peer": [each.until_commit for each in peer]},
        ratio=round(of_spark / until, 2),
        limit=rounded(statistics.median(bare)),
        note="From the start of the process to the first commit, of a million records. The limit is a session of Spark "
        "that has run one job with two Python workers: what is above it is ours, and wanted to be under 1.5 s.",
    )
    yield bench.judged(found, others)
    times = statistics.median(each.times for each in ours)
    found = Measurement.from_runs(
        "first_epoch_size",
        "times",
        {"ours": [each.times for each in ours], "peer": [each.times for each in peer]},
        ratio=round(times, 2),
        target=WANTED_TIMES,
        at_most=True,
        note=f"The first epoch of a million records by the fastest of the {LATER} behind it. The ratio is ours.",
    )
    yield bench.judged(found, others)


def _start(side: Start) -> Begun:
    begun = time.perf_counter()
    with side() as process:
        first = process.take(0)
        until = time.perf_counter() - begun
        later = [process.take(number).seconds for number in range(1, 1 + LATER)]
    return Begun(until, first.seconds, later)


def _until_ready(side: Start) -> float:
    begun = time.perf_counter()
    with side():
        return time.perf_counter() - begun
