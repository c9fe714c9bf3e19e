"""A side that answers with the sum of what it is told, prints of its own accord, and ends at a negative number.

A `silent` one never says anything.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from headwater.benchmarks.suite.sides.process import serve


class Echo:
    def take(self, epochs: Sequence[int]) -> float:
        print("something that a library prints")
        if min(epochs) < 0:
            raise SystemExit(3)
        return float(sum(epochs))

    def close(self) -> None:
        """Nothing is open."""


if __name__ == "__main__":
    if "silent" in sys.argv:
        sys.stdin.read()
    serve(Echo)
