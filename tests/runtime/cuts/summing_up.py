"""A run of two subtopologies, on a log that is cleaned, as something that may be cut."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwater.runtime.ir.topology import PluginRef, Settings
from headwater.runtime.log.inspection.verification import Verification
from headwater.runtime.log.state import LogState
from headwater.tests.runtime.local.local_application import LocalApplication
from headwater.tests.runtime.local.summing import PARTITIONS, RECORDS, SUMS, WORDS, fed, summed_by_text

EPOCH = 12
"""Records of an epoch."""


def application(path: Path) -> LocalApplication:
    """Two subtopologies with a repartition topic between them, a store that is copied, and a log that is cleaned."""
    app = LocalApplication(path, summed_by_text(), clean=True)
    app.topology = replace(app.topology, restore=PluginRef("snapshot", {"every_epochs": 2}))
    return app


def settings(app: LocalApplication) -> Settings:
    """Replaced files go as soon as they may."""
    return replace(app.settings(max_records=EPOCH), file_delete_delay_ms=0)


def begin(path: Path) -> None:
    """A log with input, and nothing that has run on it."""
    fed(application(path))


def feed_once(app: LocalApplication) -> None:
    """One more record, unless it is there already."""
    seeds = LogState.load(app.log.commits("test-seed"))
    if seeds.end(WORDS.name, 0) == RECORDS:
        app.append(WORDS, [(("k0",), (RECORDS,), RECORDS)], 0, name=f"s-{uuid.uuid4().hex}")


def run(path: Path) -> dict[str, Any]:
    """Until it is caught up."""
    app = application(path)
    feed_once(app)
    result = app.attempt(settings(app))
    return {"error": result.error, "status": result.status}


def look(path: Path) -> dict[str, Any]:
    """What there is after a run: results, and what `headwater log verify` says."""
    app = application(path)
    feed_once(app)
    result = app.attempt(settings(app))
    sums: dict[str, list[list[int]]] = {}
    for row in app.read(SUMS):
        sums.setdefault(row["key.k"], []).append([row["value.n"], row["value.s"]])
    found = Verification(app.log).run()
    return {
        "error": result.error,
        "status": result.status,
        "sums": sums,
        "damages": [damage.what for each in found for damage in each.damages],
    }


def restored(path: Path) -> dict[str, Any]:
    """The same after more records, with stores that are restored from the log."""
    app = application(path)
    for partition in range(PARTITIONS):
        app.append(WORDS, [((f"k{partition}",), (0,), RECORDS + 1)], partition)
    shutil.rmtree(path / "state")
    return look(path)
