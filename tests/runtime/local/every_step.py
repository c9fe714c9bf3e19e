"""A project with each step that keeps rows in a form of its own, or calls Python: its records, runs and results."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwater import Project
from headwater.runtime.chosen_plugins import ChosenPlugins
from headwater.runtime.generated_code import topology_beside
from headwater.runtime.ir.topology import Topology
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.query.stores import StoreQuery
from headwater.tests.runtime.local.local_application import LocalApplication

PROJECT = Path(__file__).with_name("every_step_project")
VISITORS, CITIES, PAGES = ("ann", "bob", "dan", "fay"), ("here", "there", "rome"), "xyz"
"""Two visitors in each partition, and cities in both."""

EVERY = {"views": 1, "clicks": 2, "visitors": 3, "plans": 4, "cities": 6}
"""Each topic that is fed, and at which of the moments it has a record."""

TABLES = ("accounts", "homes")
"""Topics whose updates depend on where epochs end, with deletions of rows that came and went. The rest does not."""

HIDDEN = re.compile(r", 'record_number': \d+")
"""The number by which a record waits to be joined: it only tells records apart, and depends on epochs."""


def copied(path: Path) -> Path:
    """The project's files in a folder, compiled."""
    shutil.copytree(PROJECT, path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    Project(path).compile()
    return path


def feed(path: Path, moments: int, first: int = 0) -> None:
    """Append records of so many moments, from that one on: in order, late, without a value."""
    draw, project = random.Random(first), Project(path)
    for topic, every in EVERY.items():
        times = (700 * moment for moment in range(first, first + moments, every))
        project.append(topic, [record(topic, time, draw) for time in times])


def record(topic: str, time: int, draw: random.Random) -> dict[str, Any]:
    n, city = draw.randrange(100), draw.choice(CITIES)
    values: Mapping[str, Any] = {
        "views": {"page": draw.choice(PAGES), "n": n},
        "clicks": {"ad": f"ad {n}"},
        "visitors": {"name": f"name {n}", "city": city},
        "plans": {"plan": f"plan {n}"},
        "cities": {"mayor": f"mayor {n}"},
    }
    gone = draw.random() < (0.05 if topic in ("views", "clicks") else 0.2)
    return {
        "key": {"city": city} if topic == "cities" else {"visitor": draw.choice(VISITORS)},
        "value": None if gone else values[topic],
        "timestamp": max(0, time - draw.choice([0, 0, 0, 1_500, 6_000, 20_000])),
    }


def topology_of(path: Path) -> Topology:
    """As it was compiled last."""
    return topology_beside(path / "target" / "every" / "runner.py")


def application(path: Path, **changes: Any) -> LocalApplication:
    """What runs it in this process. `changes`: of its topology."""
    app = LocalApplication(path, [])
    app.topology = replace(topology_of(path), **changes)
    return app


def results(path: Path) -> dict[str, list[str]]:
    """All that anybody sees: the topics by key, and the rows of stores, from their files and from changelogs alone."""
    topology, log = topology_of(path), EmbeddedLog(path / "log")
    found = dict(written(path, topology))
    for part in topology.subtopologies:
        for store in part.stores:
            opened = ChosenPlugins(("", (), ())).backend(store).open_to_read
            for place in (path / "state", None):
                query = StoreQuery(topology.application, part.name, store, log, place, opened)
                rows = sorted(HIDDEN.sub("", repr(row)) for row in query.rows())
                found[f"{store.name}, {'files' if place else 'changelog'}"] = rows
    return found


def written(path: Path, topology: Topology) -> Iterator[tuple[str, list[str]]]:
    """Each topic that it writes for others: the records of each key in order, of `TABLES` the rows that are left."""
    project = Project(path)
    for topic in (sink.name for part in topology.subtopologies for sink in part.sinks if "-" not in sink.name):
        of_key: dict[str, list[tuple[Any, int]]] = {}
        for each in project.read(topic):
            of_key.setdefault(repr(each.key), []).append((each.value, each.timestamp))
        if topic in TABLES:
            of_key = {key: records[-1:] for key, records in of_key.items() if records[-1][0] is not None}
        yield topic, [f"{key}: {record}" for key, records in sorted(of_key.items()) for record in records]
