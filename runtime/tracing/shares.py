"""The parts of epochs with what they took, added up over a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..driver.reports.counters import EPOCH_PHASES
from ..driver.reports.epoch_trace import EpochTrace, TaskTrace
from ..tasks.measured import PHASES
from ..timed_parts import Span
from .slices import aligned

Path = tuple[str, ...]
"""A phase of an epoch, a part of it, a part of that, and so on."""


@dataclass(frozen=True)
class Share:
    """A part of all epochs. `part`: with those that it is a part of before it. `share`: of their time, 0 to 1."""

    part: Path
    seconds: float
    share: float


class Shares:
    """Adds up epochs. As in `EpochTimes`, what is between planning and commit is that of an epoch's slowest thread."""

    def __init__(self) -> None:
        self.epochs = 0
        self._alone: defaultdict[Path, float] = defaultdict(float)

    def add(self, trace: EpochTrace) -> None:
        """Count an epoch."""
        self.epochs += 1
        for path, seconds in _of_epoch(trace):
            self._alone[path] += seconds

    def rows(self) -> tuple[Share, ...]:
        """All parts, each before its own. These add up to it, together with a rest that has no name.

        Phases are in their order, parts of one in falling order.
        """
        whole: defaultdict[Path, float] = defaultdict(float)
        for path, seconds in self._alone.items():
            for depth in range(1, len(path) + 1):
                whole[path[:depth]] += seconds
        total = sum(self._alone.values())
        return tuple(Share(path, whole[path], whole[path] / total if total else 0.0) for path in _below((), whole))


def _below(path: Path, whole: Mapping[Path, float]) -> Iterator[Path]:
    parts = [each for each in whole if each[:-1] == path]
    parts.sort(key=lambda each: -whole[each] if path else EPOCH_PHASES.index(each[0]))
    for each in parts:
        yield each
        yield from _below(each, whole)


def _of_epoch(trace: EpochTrace) -> Iterator[tuple[Path, float]]:
    """Seconds by part, without those of its parts. They add up to the epoch's, unless stages of one thread have worked
    at the same time.
    """
    slowest = max(map(_Thread, aligned(trace)), key=lambda each: each.seconds, default=_Thread(()))
    yield from slowest.alone
    yield ("planning",), trace.planned - trace.started
    yield from _alone((Span("commit", trace.begun, trace.ended), *trace.committing))
    rest = max(0.0, trace.begun - trace.planned - slowest.seconds)
    if slowest.spans:
        start = min(rest, min(span.start for span in slowest.spans) - trace.planned)
        answers = min(rest - start, trace.begun - max(span.end for span in slowest.spans))
        yield ("scheduling", "start"), start
        yield ("scheduling", "answers"), answers
        rest -= start + answers
    yield ("scheduling",), rest


class _Thread:
    """The tasks of a thread of a client. `alone`: the seconds of its parts without those of their parts."""

    def __init__(self, tasks: Sequence[TaskTrace]) -> None:
        stages = [stage for task in tasks for stage in task.stages]
        self.spans = [span for stage in stages for span in stage]
        self.alone = [each for stage in stages for each in _alone(stage)]
        self.seconds = sum(seconds for _, seconds in self.alone)


def _alone(spans: Iterable[Span]) -> Iterator[tuple[Path, float]]:
    """Seconds by part, less those of the spans within it. `spans`: one before those within it.

    A phase within another one interrupts that, and is no part of it.
    """
    around: list[tuple[Span, Path]] = []
    for span in spans:
        while around and around[-1][0].end <= span.start:
            around.pop()
        above = around[-1][1] if around else ()
        path = (span.part,) if span.part in PHASES else (*above, span.part)
        yield path, span.seconds
        if around:
            yield above, -span.seconds
        around.append((span, path))
