"""Draws the output of `benchmarks.epoch_profile`: the shares of all cases, and one epoch of the first as its slices.

python -m benchmarks.epoch_profile_plot profile.jsonl docs/pictures/epoch_profile.svg
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

from headwater.runtime.driver.counters import EPOCH_PHASES

COLOURS = dict(
    zip(
        EPOCH_PHASES,
        ("#8d99ae", "#2a6f97", "#61a5c2", "#588157", "#dda15e", "#b04a3a", "#d9d9d9", "#6d597a"),
        strict=True,
    )
)
OTHERS = "#eeeeee"
WORTH_A_NAME = 0.05
"""The part of the picture's width from which on a slice has its name written on it."""


def draw(found: Sequence[Mapping[str, Any]], picture: Path) -> None:
    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "profile", "font.size": 8})
    figure, (bars, slices) = pyplot.subplots(2, 1, figsize=(9, 7.5), height_ratios=(2, 5), layout="constrained")
    names = [f"{each['case']}, {each['records']:,} records\n{1000 * each['seconds']:.0f} ms" for each in found]
    left = [0.0] * len(found)
    for phase, colour in COLOURS.items():
        widths = [100 * each["shares"].get(phase, 0.0) for each in found]
        bars.barh(names, widths, left=left, color=colour, label=phase)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    bars.invert_yaxis()
    bars.set_xlim(0, max(100, *left))
    bars.set_xlabel("% of an epoch, medians")
    bars.spines[["top", "right"]].set_visible(False)
    bars.legend(ncols=len(COLOURS), loc="lower center", bbox_to_anchor=(0.45, 1), frameon=False)
    _epoch(slices, found[0])
    figure.savefig(picture, metadata={"Date": None})


def _epoch(panel: Any, case: Mapping[str, Any]) -> None:
    """A row for each depth of each track, the outermost on top, in milliseconds."""
    tracks: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
    for track, name, start, end in case["slices"]:
        tracks[track].append((name, 1000 * start, 1000 * end))
    whole = max(end for found in tracks.values() for _, _, end in found)
    row = 0.0
    for track, found in tracks.items():
        panel.text(0, row + 0.75, track, fontweight="bold")
        row += 1
        around: list[tuple[float, str]] = []
        deepest = 0
        for name, start, end in found:
            while around and around[-1][0] <= start:
                around.pop()
            colour = COLOURS.get(name) or (COLOURS.get(around[-1][1], OTHERS) if around else OTHERS)
            phase = name if name in COLOURS else around[-1][1] if around else name
            panel.barh(row + len(around), end - start, 1, start, align="edge", color=colour, edgecolor="white", lw=0.4)
            if (end - start) / whole >= WORTH_A_NAME:
                word = name.split(" ")[0] if name[0].isupper() else name
                panel.text(start + whole / 400, row + len(around) + 0.72, word, fontsize=6, clip_on=True)
            around.append((end, phase))
            deepest = max(deepest, len(around))
        row += deepest + 0.5
    panel.set_ylim(row, 0)
    panel.set_xlim(0, whole)
    panel.set_yticks([])
    panel.set_xlabel(f"ms of an epoch of `{case['case']}`")
    panel.spines[["top", "right", "left"]].set_visible(False)


if __name__ == "__main__":
    source, picture = map(Path, sys.argv[1:3])
    draw([json.loads(line) for line in source.read_text().splitlines() if line], picture)
