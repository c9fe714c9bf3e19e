"""The table of all kinds of change (`docs/changing.md`): each names its tests, and says what they show."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest
from projects.changes.deployed import Change

PAGE = Path(__file__).parents[3] / "docs" / "changing.md"
FILES = Path(__file__).with_name("flights")
TABLE = PAGE.read_text("utf-8").partition("## Kinds of change\n")[2].partition("\n## ")[0]
KINDS = dict(re.findall(r"^\| (.+?) \| (.+) \|$", TABLE.partition("|---|")[2], re.MULTILINE))
"""A kind of change -> the other cells of its row."""

LINK = re.compile(r'\[\d+\]\((\S+?)(?: "(\w+)")?\)')
SAID = {"nothing": "nothing", "compatible": "compatible", "evolves": "evolves", "refuses": "refuse"}


def named_by(kind: str) -> list[tuple[Path, str]]:
    """The files that its last cell names, each with the test in it; the file of a change has none."""
    return [(Path(PAGE.parent, path).resolve(), test) for path, test in LINK.findall(KINDS[kind].rpartition("|")[2])]


def verdicts(change: Change) -> set[str]:
    """Those of the topologies and of the whole; a run takes a new topology as it takes any change that goes on."""
    shown = re.findall(r"^[├└]── \w+  (goes on|evolves|refuses|no change|new)\b", change.plan, re.MULTILINE)
    words = {"goes on": "compatible", "new": "compatible", "no change": "nothing"}
    return {change.verdict, *(words.get(each, each) for each in shown)}


@pytest.mark.parametrize("kind", KINDS)
def test_kind_of_change_names_tests_that_show_its_verdict(kind: str) -> None:
    named = named_by(kind)
    assert named
    for path, test in named:
        if test:
            assert f"def {test}(" in path.read_text()
        else:
            verdict = KINDS[kind].partition("|")[0]
            assert any(SAID[each] in verdict for each in verdicts(Change.read(path))), path.stem


def test_each_change_is_of_a_kind() -> None:
    named = {path for path, _ in chain.from_iterable(map(named_by, KINDS))}
    assert [path.name for path in sorted(FILES.iterdir()) if path not in named] == []
