"""Epochs of a workload, ours and the peer's in turn: so what else the machine does meets both."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from ... import bare_loop
from ..bench import Bench
from ..measurement import Measurement, rounded
from ..other_work import OtherWork
from ..sides.process import Side, Turn
from ..sides.project import link_log, write_project
from ..sizes import Size
from ..workloads import Workload


@dataclass(frozen=True)
class Turns:
    """The measured epochs of both sides, and how many cores other processes used meanwhile. `peer`: empty if alone."""

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


def take_turns(bench: Bench, workload: Workload, size: Size, alone: bool = False) -> Turns:
    """Warm both sides up, then measure; `alone`: our side only. Raises SideError."""
    epochs = bench.warm_up + bench.measured
    starts = [our_side(bench, workload, size, epochs), *([] if alone else [peer_side(bench, workload, size, epochs)])]
    with ExitStack() as stack:
        sides = [stack.enter_context(start()) for start in starts]
        for number in range(bench.warm_up):
            for side in sides:
                side.take(number)
        with OtherWork() as others:
            rounds = [[side.take(number) for side in sides] for number in range(bench.warm_up, epochs)]
    ours, *peer = zip(*rounds, strict=True)
    return Turns(ours, peer[0] if peer else (), others)


def records_a_second(bench: Bench, workload: Workload, size: Size, alone: bool = False) -> Measurement:
    """How many records of an epoch each side takes in a second, from planning to commit. Raises SideError."""
    turns = take_turns(bench, workload, size, alone)
    limit = rounded(size.records / bare_loop.seconds_an_epoch(workload.name, size, bench.measured))
    return compared(bench, workload, turns, "records/s", limit, lambda turn: size.records / turn.seconds)


def seconds_an_epoch(bench: Bench, workload: Workload, size: Size) -> Measurement:
    """How long each side takes for an epoch."""
    turns = take_turns(bench, workload, size)
    limit = rounded(bare_loop.seconds_an_epoch(workload.name, size, bench.measured))
    return compared(bench, workload, turns, "s", limit, lambda turn: turn.seconds)


def compared(
    bench: Bench, workload: Workload, turns: Turns, unit: str, limit: float, figure: Callable[[Turn], float]
) -> Measurement:
    """The medians, and how many times as fast we are."""
    sides = {"ours": turns.ours, "peer": turns.peer} if turns.peer else {"ours": turns.ours}
    seconds = {side: statistics.median(each.seconds for each in of_side) for side, of_side in sides.items()}
    found = Measurement.from_runs(
        workload.name,
        unit,
        {side: [figure(each) for each in of_side] for side, of_side in sides.items()},
        ratio=round(seconds["peer"] / seconds["ours"], 2) if turns.peer else None,
        target=workload.target if turns.peer else None,
        cpu={side: round(statistics.median(each.cpu for each in of_side), 3) for side, of_side in sides.items()},
        limit=limit,
        note=workload.compared,
    )
    return bench.judged(found, turns.others)
