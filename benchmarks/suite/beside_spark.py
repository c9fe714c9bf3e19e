"""Epochs of a workload, ours and the peer's in turn: so what else the machine does meets both."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .bench import Bench
from .measurement import Measurement
from .other_work import OtherWork
from .project import link_log, write_project
from .sides import Side, Turn
from .sizes import Size
from .workloads import Workload


@dataclass(frozen=True)
class Turns:
    """The measured epochs of both sides, and how many cores other processes used meanwhile."""

    ours: Sequence[Turn]
    peer: Sequence[Turn]
    others: OtherWork


def take_turns(bench: Bench, workload: Workload, size: Size) -> Turns:
    """Warm both up, then measure. Raises SideError."""
    epochs = bench.warm_up + bench.measured
    files, log = bench.files(workload.kind, size, epochs), bench.log(workload.kind, size, epochs)
    folder = bench.folder(f"{workload.name}-{size.records}-{size.keys}-{size.partitions}-{size.segments}")
    write_project(folder / "ours", workload, size, bench.engine)
    link_log(log, folder / "ours")
    of_ours = (str(folder / "ours"), workload.kind, str(workload.epochs), size.to_json())
    of_peer = (str(folder / "peer"), workload.name, str(files), size.to_json())
    with (
        Side("benchmarks.suite.ours", *of_ours) as ours,
        Side("benchmarks.suite.peer", *of_peer) as peer,
    ):
        for number in range(bench.warm_up):
            ours.take(number)
            peer.take(number)
        with OtherWork() as others:
            pairs = [(ours.take(number), peer.take(number)) for number in range(bench.warm_up, epochs)]
    return Turns([ours for ours, _ in pairs], [peer for _, peer in pairs], others)


def records_a_second(bench: Bench, workload: Workload, size: Size) -> Measurement:
    """How many records of an epoch each side takes in a second, from planning to commit."""
    turns = take_turns(bench, workload, size)
    return compared(bench, workload, turns, "records/s", lambda turn: size.records / turn.seconds)


def seconds_an_epoch(bench: Bench, workload: Workload, size: Size) -> Measurement:
    """How long each side takes for an epoch."""
    turns = take_turns(bench, workload, size)
    return compared(bench, workload, turns, "s", lambda turn: turn.seconds)


def compared(bench: Bench, workload: Workload, turns: Turns, unit: str, figure: Callable[[Turn], float]) -> Measurement:
    """The medians, and how many times as fast we are."""
    ours, peer = [figure(each) for each in turns.ours], [figure(each) for each in turns.peer]
    faster = statistics.median(each.seconds for each in turns.peer) / statistics.median(
        each.seconds for each in turns.ours
    )
    busy = turns.others.too_many
    return Measurement(
        workload.name,
        unit,
        rounded(statistics.median(ours)),
        rounded(statistics.median(peer)),
        None if busy and not bench.even_if_busy else round(faster, 2),
        workload.target,
        {"ours": [rounded(each) for each in ours], "peer": [rounded(each) for each in peer]},
        cpu={
            side: round(statistics.median(each.cpu for each in of_side), 3)
            for side, of_side in (("ours", turns.ours), ("peer", turns.peer))
        },
        busy=round(turns.others.cores, 2) if busy else None,
    )


def rounded(figure: float) -> float:
    """Three digits and a bit: more would say nothing."""
    return float(f"{figure:.4g}")
