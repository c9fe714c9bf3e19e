"""Numbers that are noted in a file, and must be what is counted now."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

HEADER = """\
# What one epoch does, counted by `{test}`: no seconds, so any machine comes to the same.
# Bytes are those of files and plans; in plans and commits each number is one byte long, as checksums differ each time.
# Written by `pytest tests/performance --update-golden`. A commit that changes a number says why.
"""


def hold_to_noted(file: Path, what: str, found: Mapping[str, int], update: bool) -> None:
    """Fail if something was counted that is not what the file says of it; or write it there (`update`)."""
    noted = (yaml.safe_load(file.read_text()) if file.exists() else None) or {}
    if update:
        header = HEADER.format(test=file.with_suffix(".py").name)
        file.write_text(header + yaml.safe_dump({**noted, what: dict(found)}, sort_keys=False, width=200))
    elif found != noted.get(what):
        pytest.fail(_told(file, what, noted.get(what, {}), found), pytrace=False)


def _told(file: Path, what: str, noted: Mapping[str, int], found: Mapping[str, int]) -> str:
    """What has moved, each kind of work first as a whole."""
    lines = [f"{what}: its work is not what {file.name} says"]
    names = sorted({*noted, *found})
    for kind in sorted({*map(_kind, names)}):
        changed = [each for each in names if _kind(each) == kind and noted.get(each) != found.get(each)]
        if not changed:
            continue
        lines.append(f"  {_moved(f'{kind}, in all', [each for each in names if _kind(each) == kind], noted, found)}")
        lines += [f"    {_moved(each, [each], noted, found)}" for each in changed]
    lines.append("What is more than before slows every epoch down: find what does it.")
    lines.append(
        "Where it has to be, or is less: `pytest tests/performance --update-golden`, and say why in the commit."
    )
    return "\n".join(lines)


def _kind(name: str) -> str:
    """`fsync log/commits/*.json` -> `fsync`"""
    return name.partition(" log/")[0].partition(" state/")[0]


def _moved(title: str, names: list[str], noted: Mapping[str, int], found: Mapping[str, int]) -> str:
    before, now = (sum(of.get(each, 0) for each in names) for of in (noted, found))
    return f"{title}: {before} -> {now} ({now - before:+})"
