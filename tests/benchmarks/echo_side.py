"""A side that answers with the sum of what it is told, prints of its own accord, and ends at a negative number."""

from __future__ import annotations

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
    serve(Echo)
