"""An epoch as slices on tracks: what viewers of traces draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..driver.reports.epoch_trace import EpochTrace, TaskTrace
from ..timed_parts import Span

Threads = tuple[tuple[TaskTrace, ...], ...]


class Track(NamedTuple):
    """A line of a viewer: of a thread, among those of a process. Its slices are nested or apart."""

    process: str
    thread: str


@dataclass(frozen=True)
class Slice:
    """Something that took from `start` to `end`, in seconds of the driver's clock. `facts`: shown when it is chosen."""

    track: Track
    name: str
    start: float
    end: float
    facts: Mapping[str, str | int] = field(default_factory=dict)


def slices(application: str, trace: EpochTrace) -> Iterator[Slice]:
    """The slices of an epoch, track by track: the loop's thread, the epoch, the stages of each thread of the client.

    On each track in the order of starts, a slice before those within it.
    """
    for span in trace.driver:
        yield Slice(Track(application, "driver"), *span)
    threads = aligned(trace)
    yield from _epoch(application, trace, threads)
    for number, tasks in enumerate(threads, 1):
        for stage in range(max((len(task.stages) for task in tasks), default=0)):
            where = f"{trace.subtopology}, thread {number}, Python stage {stage + 1}"
            track = Track(f"{application} on {trace.client}", where)
            for task in tasks:
                if len(task.stages) > stage:
                    yield from _task(track, trace.epoch, task, task.stages[stage])


def aligned(trace: EpochTrace) -> Threads:
    """The threads with the times of the driver's clock.

    A machine has one clock for all its processes, so nothing is to be done for workers on the driver's. That of another
    machine has another beginning: what its workers did is laid to the end of the job, as the answers come at once,
    while it takes long to start.
    """
    ends = [
        (span.start, span.end) for tasks in trace.threads for task in tasks for stage in task.stages for span in stage
    ]
    if not ends:
        return trace.threads
    first, last = min(start for start, _ in ends), max(end for _, end in ends)
    if trace.planned <= first and last <= trace.begun:
        return trace.threads
    off = trace.begun - last

    def moved(span: Span) -> Span:
        # Clocks of two machines may go at different paces: what does not fit is cut.
        return Span(span.part, max(trace.planned, span.start + off), max(trace.planned, span.end + off))

    return tuple(
        tuple(
            TaskTrace(task.task, task.records, tuple(tuple(map(moved, stage)) for stage in task.stages))
            for task in tasks
        )
        for tasks in trace.threads
    )


def _epoch(application: str, trace: EpochTrace, threads: Threads) -> Iterator[Slice]:
    track = Track(application, f"epochs of {trace.subtopology} on {trace.client}")
    tasks = [task for thread in threads for task in thread]
    facts = {"tasks": len(tasks), "records": sum(task.records for task in tasks)}
    yield Slice(track, f"epoch {trace.epoch}", trace.started, trace.ended, facts)
    yield Slice(track, "planning", trace.started, trace.planned)
    yield Slice(track, "job", trace.planned, trace.begun)
    worked = [span for task in tasks for stage in task.stages for span in stage]
    if worked:
        first, last = min(span.start for span in worked), max(span.end for span in worked)
        yield Slice(track, "start", trace.planned, first)
        yield Slice(track, "tasks", first, last)
        yield Slice(track, "answers", last, trace.begun)
    yield Slice(track, "commit", trace.begun, trace.ended)
    for span in trace.committing:
        yield Slice(track, *span)


def _task(track: Track, epoch: int, task: TaskTrace, stage: tuple[Span, ...]) -> Iterator[Slice]:
    facts = {"epoch": epoch, "records": task.records}
    yield Slice(track, f"task {task.task}", stage[0].start, max(span.end for span in stage), facts)
    for span in stage:
        yield Slice(track, *span)
