"""Draws what a log has come to over its commits: the output of `real_epochs` or `longevity`, of two versions.

python -m benchmarks.growth_plot BEFORE.jsonl AFTER.jsonl PICTURE.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

PANELS = {
    "bytes": ("bytes of the log (MB)", 1e6),
    "files": ("files", 1),
    "snapshot_bytes": ("a snapshot of the log's state (MB)", 1e6),
    "state_bytes": ("the driver's memory for it (MB)", 1e6),
    "load_seconds": ("seconds to load it at a start", 1),
    "read_seconds": ("seconds to read the output topic", 1),
}


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines that have figures."""
    return [row for line in path.read_text().splitlines() if "commits" in (row := json.loads(line))]


def draw(before: Path, after: Path, picture: Path) -> None:
    """One panel a figure, with a line of each version."""
    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "growth", "font.size": 8})
    figure, axes = pyplot.subplots(2, 3, figsize=(9, 4.6), layout="constrained")
    for panel, (name, (title, unit)) in zip(axes.flat, PANELS.items(), strict=True):
        for label, path, colour in (("before", before, "#b04a3a"), ("with cleaning", after, "#2a6f97")):
            found = rows(path)
            panel.plot(
                [row["commits"] for row in found], [row[name] / unit for row in found], color=colour, label=label
            )
        panel.set_title(title, fontsize=9)
        panel.set_ylim(bottom=0)
        panel.spines[["top", "right"]].set_visible(False)
    axes[0, 0].legend(frameon=False)
    for panel in axes[1]:
        panel.set_xlabel("commits")
    figure.savefig(picture, metadata={"Date": None})


if __name__ == "__main__":
    draw(*map(Path, sys.argv[1:4]))
