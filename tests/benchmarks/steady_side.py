"""A side that takes every epoch in a tenth of a second, or so it says; of `peer`, in four tenths."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from headwater.benchmarks.suite.sides.process import serve


class Steady:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def take(self, epochs: Sequence[int]) -> float:
        return self._seconds * len(epochs)

    def close(self) -> None:
        """Nothing is open."""


if __name__ == "__main__":
    # Only the peer is told which query it has: the name of a workload, behind its folder.
    serve(lambda: Steady(0.4 if "peer-" in "".join(sys.argv[1:2]) else 0.1))
