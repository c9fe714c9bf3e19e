"""Runs in which every other block of epochs goes without measuring: the peer of `benchmarks.metrics_overhead`.

`install` is called in the driver, and in each of Spark's workers by a `sitecustomize` that the benchmark puts on their
path. Both know the number of the epoch they work on, and it says on which side the epoch is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from headwater.runtime.engine import stage, stopwatch
from headwater.runtime.tasks.measured import Measured, Volume

BLOCK = 2
"""Epochs that follow one another on the same side."""


class Side:
    """Which side is worked on. One task or one commit at a time in a process."""

    measured = True

    def at(self, epoch: int) -> None:
        self.measured = is_measured(epoch)


side = Side()


def is_measured(epoch: int) -> bool:
    return (epoch // BLOCK) % 2 == 0


class NoStopwatch:
    """Measures nothing."""

    volume = Volume()

    def tracing(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def phase(self, _phase: str) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def opened(self, _name: str, opening: Callable[[], Any]) -> Any:
        return opening()

    def added_to(self, before: Measured) -> Measured:
        return before


def install() -> None:
    """Have stages measure only on their side."""
    done = stage.Stage._done

    def with_side(self: Any, task: Any, arrived: Any, worker: Any, *waited: float) -> Any:
        side.at(worker.plan.epoch)
        return done(self, task, arrived, worker, *waited)

    def chosen(waited: float = 0.0, **options: Any) -> Any:
        return stopwatch.Stopwatch(waited, **options) if side.measured else NoStopwatch()

    def bytes_taken(*arguments: Any) -> int:
        return stopwatch.bytes_taken(*arguments) if side.measured else 0

    patched: Any = stage
    patched.Stage._done = with_side
    patched.Stopwatch = chosen
    patched.bytes_taken = bytes_taken
