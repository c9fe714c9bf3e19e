"""A join by a foreign key, of which each answer to a change of a row is several files, as something that may be cut."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwater.runtime.engine.execution.joins import foreign_key as answer
from headwater.runtime.engine.execution.joins import foreign_key_stores as subscriptions
from headwater.runtime.ir.topology import Settings
from headwater.runtime.log.inspection.verification import Verification
from headwater.runtime.log.state import LogState
from headwater.tests.runtime.local.foreign_keys import CUSTOMERS, ORDERS, OUT, feed, parts
from headwater.tests.runtime.local.local_application import APPLICATION, LocalApplication

ORDERED = 8
"""Orders of one customer."""

NAMES = 6
"""How often that customer is named anew."""

EPOCH = 4
"""Records of an epoch."""

TOGETHER = 4
"""Answers of a file."""


def application(path: Path) -> LocalApplication:
    """On a log that is cleaned, with a file for a few answers each."""
    answer.MOST_TOGETHER, subscriptions._TOGETHER = TOGETHER, TOGETHER // 2
    return LocalApplication(path, parts("inner"), clean=True)


def settings(app: LocalApplication) -> Settings:
    """Replaced files go as soon as they may."""
    return replace(app.settings(max_records=EPOCH), file_delete_delay_ms=0)


def begin(path: Path) -> None:
    """All orders are joined, and the customer has new names that they lack."""
    app = application(path)
    feed(app, CUSTOMERS, [(("a",), ("name",), 1)])
    feed(app, ORDERS, [((order,), ("a", 0), 1) for order in range(ORDERED)])
    app.run()
    feed(app, CUSTOMERS, [(("a",), (f"name {number}",), 10 + number) for number in range(NAMES)])


def run(path: Path) -> dict[str, Any]:
    """Until it is caught up."""
    app = application(path)
    result = app.attempt(settings(app))
    return {"error": result.error, "status": result.status}


def look(path: Path) -> dict[str, Any]:
    """What there is after a run: results, what `headwater log verify` says, and files that no commit lists."""
    app = application(path)
    result = app.attempt(settings(app))
    joined: dict[int, list[Any]] = {}
    for row in app.read(OUT):
        joined.setdefault(row["key.o"], []).append([row["value.name"], row["_timestamp"]])
    state = LogState.load(app.log.commits(APPLICATION))
    found = Verification(app.log).run()
    return {
        "error": result.error,
        "status": result.status,
        "joined": sorted(joined.items()),
        "damages": [damage.what for each in found for damage in each.damages],
        "unlisted": sorted({file.path for file in app.log.files(APPLICATION)} - state.paths()),
    }


def restored(path: Path) -> dict[str, Any]:
    """The same after one more name, with stores that are restored from the log."""
    feed(application(path), CUSTOMERS, [(("a",), ("last name",), 100)])
    shutil.rmtree(path / "state")
    return look(path)
