"""Whether a change is planned as its file says, whether the run does that, and whether the result is what it should be.

`result` of a change:

| result | what is asserted |
|---|---|
| fresh | it equals that of a project that has been so from the start |
| goes on | the records that were there are still the first of their key; those that come are of the changed project |
| seed refused | `seed` refuses it; with `seed --full-refresh` it equals that of a fresh project |
| run, then fresh | the same, but nothing can be appended before a run |
| refused | nothing is committed; with the way out that the plan gives it equals that of a fresh project |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.runtime.log.errors import SeedChangedError
from headwater.tests.projects.changes.deployed import Change, Deployed, Planned

EXIT = {"nothing": 0, "compatible": 0, "replace": 2, "error": 2}


def planned_change(
    change: Change, deployed: Deployed, tmp_path: Path, update_golden: bool = False
) -> tuple[Deployed, Deployed, Planned]:
    """A copy of the project before the change, one that has it, and its plan, which is as it should be."""
    before = deployed
    for number, earlier in enumerate(change.earlier):
        before = earlier.done(before.copy(tmp_path / f"before-{number}"))
        assert {each.status for each in before.run()} == {"caught_up"}
    changed = change.done(before.copy(tmp_path / "changed"))
    planned = changed.plan()
    if update_golden:
        change.keep(planned.text)
    else:
        assert planned.text == change.plan
    assert (planned.plan["verdict"], planned.exit_code) == (change.verdict, EXIT[change.verdict]), planned.text
    return before, changed, planned


def judged(change: Change, deployed: Deployed, tmp_path: Path) -> None:
    """Plan and run the change on a copy of the project."""
    before, changed, planned = planned_change(change, deployed, tmp_path)
    if change.result == "seed refused":
        with pytest.raises(SeedChangedError):
            changed.seed()
        changed.project.seed(full_refresh=True, keep_unchanged=True)
        changed.append("after")
    elif change.result != "refused":
        if change.result == "run, then fresh":
            assert {each.status for each in changed.run()} == {"caught_up"}
        changed.seed()
        changed.append("after")
    commits = changed.commits(planned.refused)
    for each in changed.run():
        refused = each.application.partition("-")[2] in planned.refused
        expected = ("failed", True) if refused else ("caught_up", False)
        assert (each.status, each.error is not None) == expected, each.error
    match change.result:
        case "fresh" | "run, then fresh" | "seed refused":
            assert_equal(changed.result(), changed.fresh(tmp_path / "fresh").result())
        case "goes on":
            kept = replace(before, select=tuple(change.select)).result(whole=True)
            assert_begins_with(changed.result(whole=True), kept)
        case unknown:
            assert unknown == "refused"
            assert changed.commits(planned.refused) == commits
            given_up = any("--drop-appended" in each for each in planned.commands)
            follow(changed, planned.commands)
            changed.append("after")
            assert {each.status for each in changed.run()} == {"caught_up"}
            fed = {**changed.fed, "before": {}} if given_up else changed.fed
            assert_equal(changed.result(), replace(changed, fed=fed).fresh(tmp_path / "fresh").result())


def follow(changed: Deployed, commands: Sequence[str]) -> None:
    """Take the way out that the plan gives: to seed again, or else to start again."""
    seeds = [each.split() for each in commands if each.startswith("headwater seed ")]
    if seeds:
        given_up = any("--drop-appended" in words for words in seeds)
        changed.project.seed([words[2] for words in seeds], full_refresh=True, drop_appended=given_up)
    else:
        assert any(each.startswith("headwater run --full-refresh ") for each in commands), commands
        changed.project.full_refresh()


def assert_equal(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, rows in expected.items():
        assert found[name] == rows, name


def assert_begins_with(found: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Each topic has the records of before, maybe with more columns, then others."""
    for name, rows in before.items():
        if name.startswith("store ") or name not in found:
            continue
        for key, records in rows.items():
            now = [
                (time, value and {c: value[c] for c in was})
                for (time, value), (_, was) in zip(found[name][key], records, strict=False)
            ]
            assert now == records, (name, json.loads(key))
