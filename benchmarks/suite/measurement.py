"""A figure of `make bench`: one line of JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self


@dataclass(frozen=True)
class Measurement:
    """`unit`: of `ours`, `peer`, `limit` and `runs`. `ours`, `peer`: medians; None where there is no such figure.

    `ratio`: how many times as good as the peer; where there is no peer, what the target is about. None on a `busy`
    machine. `target`: the ratio that is wanted, `at_most` if it is a bound from above. `runs`: side -> each figure.
    `limit`: the same work as a bare loop over Arrow and LMDB. `cpu`: side -> median of the seconds of processor time.
    `busy`: cores that other processes used meanwhile, where these were too many. `points`: of a plot, side ->
    abscissa -> figure. `note`: what a reader has to know.
    """

    name: str
    unit: str
    ours: float | None
    peer: float | None = None
    ratio: float | None = None
    target: float | None = None
    runs: Mapping[str, Sequence[float]] = field(default_factory=dict)
    at_most: bool = False
    limit: float | None = None
    cpu: Mapping[str, float] = field(default_factory=dict)
    busy: float | None = None
    points: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    machine: str = ""
    command: str = ""
    note: str = ""

    @classmethod
    def from_runs(cls, name: str, unit: str, runs: Mapping[str, Sequence[float]], **more: Any) -> Self:
        """The medians of `ours` and, if there is one, of `peer`."""
        medians = {side: rounded(statistics.median(figures)) for side, figures in runs.items()}
        shown = {side: [rounded(figure) for figure in figures] for side, figures in runs.items()}
        return cls(name, unit, medians["ours"], medians.get("peer"), runs=shown, **more)

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None where nobody knows."""
        if self.ratio is None or self.target is None:
            return None
        return self.ratio <= self.target if self.at_most else self.ratio >= self.target

    def to_json(self) -> str:
        """One line. What has no meaning for this figure is left out, but for what each line has."""
        always = ("name", "unit", "ours", "peer", "target", "runs")
        found = {
            name: value for name, value in asdict(self).items() if name in always or value not in (None, "", {}, False)
        }
        if self.busy is None:
            found["ratio"] = self.ratio
        return json.dumps({name: found[name] for name in asdict(self) if name in found})

    @classmethod
    def from_json(cls, line: str) -> Self:
        """The figure of a line."""
        values: dict[str, Any] = json.loads(line)
        return cls(**values)


def rounded(figure: float) -> float:
    """Three digits and a bit: more would say nothing."""
    return float(f"{figure:.4g}")
