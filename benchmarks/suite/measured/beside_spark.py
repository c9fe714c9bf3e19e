"""Epochs of a workload, ours and the peer's in turn: so what else the machine does meets both."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ... import bare_loop
from ..bench import Bench
from ..measurement import Measurement
from ..other_work import OtherWork
from ..sides.process import Side, Turn
from ..sides.project import link_log, write_project
from ..sizes import Size
from ..workloads import Workload


@dataclass(frozen=True)
class Turns:
    """The measured epochs of both sides, and how many cores other processes used meanwhile."""

    ours: Sequence[Turn]
    peer: Sequence[Turn]
    others: OtherWork


Start = Callable[[], Side]
"""Starts a side. What it takes is prepared already."""


def our_side(bench: Bench, workload: Workload, size: Size, epochs: int, attempt: str = "") -> Start:
    """Our side, with so many epochs to take. `attempt`: another one has folders of its own."""
    log = bench.log(workload.kind, size, epochs)
    folder = bench.folder(f"ours-{workload.name}-{size.name}{attempt}")
    write_project(folder, workload, size, bench.engine)
    link_log(log, folder)
    arguments = (str(folder), workload.kind, str(workload.epochs), size.to_json())
    return lambda: Side(bench.modules.ours, *arguments)


def peer_side(bench: Bench, workload: Workload, size: Size, epochs: int, attempt: str = "") -> Start:
    """The peer, likewise."""
    files = bench.files(workload.kind, size, epochs)
    folder = bench.folder(f"peer-{workload.name}-{size.name}{attempt}")
    arguments = (str(folder), workload.name, str(files), size.to_json())
    return lambda: Side(bench.modules.peer, *arguments)


def take_turns(bench: Bench, workload: Workload, size: Size) -> Turns:
    """Warm both up, then measure. Raises SideError."""
    epochs = bench.warm_up + bench.measured
    start_ours, start_peer = our_side(bench, workload, size, epochs), peer_side(bench, workload, size, epochs)
    with start_ours() as ours, start_peer() as peer:
        for number in range(bench.warm_up):
            ours.take(number)
            peer.take(number)
        with OtherWork() as others:
            pairs = [(ours.take(number), peer.take(number)) for number in range(bench.warm_up, epochs)]
    return Turns([ours for ours, _ in pairs], [peer for _, peer in pairs], others)


def records_a_second(bench: Bench, workload: Workload, size: Size) -> Measurement:
    """How many records of an epoch each side takes in a second, from planning to commit."""
    turns = take_turns(bench, workload, size)
    limit = rounded(size.records / bare_loop.seconds_an_epoch(workload.name, size, bench.measured))
    return compared(bench, workload, turns, "records/s", limit, lambda turn: size.records / turn.seconds)


def records_without_peer(bench: Bench, workload: Workload, size: Size) -> Measurement:
    """How many records of an epoch our side takes in a second, beside the bare loop alone. Raises SideError."""
    epochs = bench.warm_up + bench.measured
    with our_side(bench, workload, size, epochs)() as ours:
        for number in range(bench.warm_up):
            ours.take(number)
        with OtherWork() as others:
            turns = [ours.take(number) for number in range(bench.warm_up, epochs)]
    runs = [rounded(size.records / turn.seconds) for turn in turns]
    found = Measurement(
        workload.name,
        "records/s",
        rounded(statistics.median(runs)),
        runs={"ours": runs},
        cpu={"ours": round(statistics.median(turn.cpu for turn in turns), 3)},
        limit=rounded(size.records / bare_loop.seconds_an_epoch(workload.name, size, bench.measured)),
        note=workload.compared,
    )
    return bench.judged(found, others)


def seconds_an_epoch(bench: Bench, workload: Workload, size: Size) -> Measurement:
    """How long each side takes for an epoch."""
    turns = take_turns(bench, workload, size)
    limit = rounded(bare_loop.seconds_an_epoch(workload.name, size, bench.measured))
    return compared(bench, workload, turns, "s", limit, lambda turn: turn.seconds)


def compared(
    bench: Bench, workload: Workload, turns: Turns, unit: str, limit: float, figure: Callable[[Turn], float]
) -> Measurement:
    """The medians, and how many times as fast we are."""
    ours, peer = [figure(each) for each in turns.ours], [figure(each) for each in turns.peer]
    faster = statistics.median(each.seconds for each in turns.peer) / statistics.median(
        each.seconds for each in turns.ours
    )
    found = Measurement(
        workload.name,
        unit,
        rounded(statistics.median(ours)),
        rounded(statistics.median(peer)),
        round(faster, 2),
        workload.target,
        {"ours": [rounded(each) for each in ours], "peer": [rounded(each) for each in peer]},
        cpu={
            side: round(statistics.median(each.cpu for each in of_side), 3)
            for side, of_side in (("ours", turns.ours), ("peer", turns.peer))
        },
        limit=limit,
        note=workload.compared,
    )
    return bench.judged(found, turns.others)


def rounded(figure: float) -> float:
    """Three digits and a bit: more would say nothing."""
    return float(f"{figure:.4g}")
