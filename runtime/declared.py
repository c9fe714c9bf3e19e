"""Topics as applications last declared them, found in the log: who reads needs no project."""

from __future__ import annotations

from dataclasses import fields

from .log.log import Log
from .log.state import LogState
from .topology import Topic


def declared_topic(log: Log, project: str, name: str) -> Topic | None:
    """A topic of a project, repartition topics among them, as an application that ran has declared it; else None."""
    known = {field.name for field in fields(Topic)}
    for application in log.applications():
        if application.startswith(f"{project}-"):
            found = LogState.load(log.commits(application)).topology.get("topics", {}).get(name)
            if found is not None:
                return Topic(name, **{key: value for key, value in found.items() if key in known})
    return None
