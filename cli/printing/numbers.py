"""The numbers of runs and tasks as cells of tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ...runtime.driver.reports.event_texts import counted
from .cells import size_text

if TYPE_CHECKING:
    from ...runtime.driver.reports.results import ApplicationResult
    from ...runtime.driver.reports.status import RunStatus, StoreStatus
    from ...runtime.tracing.shares import Share

RUN_HEADER = ("application", "records/s", "epoch time", "most of it")
RUN_RIGHT = (1, 2)

TASK_HEADER = ("task", "consumed", "", "written", "", "dropped", "time", "most of it", "stores")
TASK_RIGHT = (1, 2, 3, 4, 5, 6)

SHARE_HEADER = ("part", "seconds", "share")
SHARE_RIGHT = (1, 2)

_WORTH_A_ROW = 0.005
"""The share of the time from which on a part of a phase is shown; phases always are, so that they add up."""

_WORTH_A_WORD = 0.05
"""The share of the time from which on a phase is shown: all are in `run_results.json`."""

_MOST_OF_A_RUN, _MOST_OF_A_TASK = 3, 2
"""The most phases that are shown: more would not fit into 80 columns."""


def run_cells(result: ApplicationResult) -> list[str] | None:
    """Where the time of an application's epochs went; None without an epoch."""
    if result.metrics is None or not result.metrics.epochs:
        return None
    seconds = result.metrics.seconds
    rate = result.records / result.seconds if result.seconds else 0.0
    time = f"{sum(seconds.values()):,.1f} s"
    return [result.application, f"{rate:,.0f}", time, _spent(seconds, _MOST_OF_A_RUN)]


def share_cells(shares: Sequence[Share]) -> Iterator[list[str]]:
    """The parts of epochs, each below what it is a part of, and all together."""
    for each in shares:
        *above, part = each.part
        if not above or each.share >= _WORTH_A_ROW:
            yield [f"{'  ' * len(above)}{part}", f"{each.seconds:,.3f}", f"{100 * each.share:.1f}%"]
    yield ["all", f"{sum(each.seconds for each in shares if len(each.part) == 1):,.3f}", "100.0%"]


def task_cells(status: RunStatus) -> Iterator[list[str]]:
    """What each task has done since the run began, and how large its stores are; of a standby task only that."""
    from ...runtime.tasks.measured import PHASES

    for client in status.clients:
        for task in client.tasks:
            stores = ", ".join(filter(None, map(_store, task.stores)))
            if task.counts is None:
                yield [f"{task.id} on {client.name}", "", "", "", "", "", "", "", stores]
                continue
            counts, volume = task.counts, task.counts.volume
            seconds = dict(zip(PHASES, counts.seconds.values, strict=True))
            yield [
                task.id,
                f"{counts.records:,}",
                size_text(volume.read_bytes),
                f"{volume.written_records + volume.changed_records:,}",
                size_text(volume.written_bytes + volume.changed_bytes),
                f"{sum(counts.dropped.values()):,}",
                f"{counts.seconds.total:,.1f} s",
                _spent(seconds, _MOST_OF_A_TASK),
                stores,
            ]


def _spent(seconds: Mapping[str, float], most: int) -> str:
    """`sql 45%, read 30%`: the phases that took most, in falling order."""
    total = sum(seconds.values())
    shares = {phase: each / total for phase, each in seconds.items()} if total else {}
    first = sorted(shares.items(), key=lambda each: -each[1])[:most]
    return ", ".join(f"{phase} {100 * share:.0f}%" for phase, share in first if share >= _WORTH_A_WORD)


def _store(store: StoreStatus) -> str:
    if store.size is None:
        return ""
    rows = "" if store.size.rows is None else f"{counted(store.size.rows, 'row')}, "
    return f"{store.name} {rows}{size_text(store.size.bytes)}"
