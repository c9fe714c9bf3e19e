"""Writes `docs/benchmarks.md` and its pictures from the figures that are kept: `python -m benchmarks.suite.report`."""

from __future__ import annotations

from pathlib import Path

from ..results import kept
from .page import PICTURES, page, pictures

DOCS = Path(__file__).parents[3] / "docs"


def main(docs: Path = DOCS) -> None:
    """Write them."""
    found = {each.name: each for each in kept()}
    (docs / "benchmarks.md").write_text(page(found))
    for name, picture in pictures(found).items():
        (docs / PICTURES / name).write_text(picture)


if __name__ == "__main__":
    main()
