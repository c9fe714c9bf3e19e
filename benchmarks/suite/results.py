"""The file of figures that is committed: of each measurement the last line of an idle machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from .measurement import Measurement

RESULTS = Path(__file__).parents[1] / "results.jsonl"


def keep(found: Measurement, path: Path = RESULTS) -> bool:
    """Put a figure in the place of the one of its name, at once. One of a busy machine is not kept. Whether it is."""
    if found.busy is not None:
        return False
    lines = {each.name: each for each in kept(path)} | {found.name: found}
    aside = path.with_suffix(".new")
    aside.write_text("".join(f"{lines[name].to_json()}\n" for name in sorted(lines)))
    os.replace(aside, path)
    return True


def kept(path: Path = RESULTS) -> Iterator[Measurement]:
    """All figures of the file, but any of a busy machine."""
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        found = Measurement.from_json(line)
        if found.busy is None:
            yield found
