"""A project that holds data already, and what becomes of it when its files change.

Records are fed in three parts: `seeded`, `before` the change and `after` it. A fresh project has the changed files from
the start, and gets the same records in the same order.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os.path import relpath
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from headwater import Project
from headwater.cli.main import main
from headwater.runtime.driver.cluster import Cluster
from headwater.runtime.driver.events import Observer
from headwater.runtime.driver.results import ApplicationResult
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.engine.operators.topics import Sink
from headwater.runtime.ir.topology import Subtopology
from headwater.runtime.log.placed_log import PlacedLog
from headwater.runtime.log.state import LogState
from headwater.tests.runtime.local.arrow_sql import ArrowCluster

Records = Mapping[str, Sequence[Mapping[str, Any]]]
"""Topic -> records in record form."""


@dataclass(frozen=True)
class Planned:
    """A plan as text and as JSON, and the exit code."""

    text: str
    exit_code: int
    plan: Mapping[str, Any]

    @property
    def refused(self) -> set[str]:
        """The topologies that a run would not start."""
        return {each["topology"] for each in self.plan["topologies"] if each["verdict"] == "error"}

    @property
    def commands(self) -> list[str]:
        """The ways out that are commands."""
        changes = [change for each in self.plan["topologies"] for change in each["changes"]]
        ways = [way for change in changes for way in change["ways"]]
        return [way["command"] for way in ways if way.get("command")]


class NoSpark:
    """In place of a session that nothing should need."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError("a type is not known without Spark: `headwater compile -v` says why")


@dataclass(frozen=True)
class Deployed:
    """A project in `root`. `fed`: what it gets from outside. `select`: the topologies that are run."""

    root: Path
    fed: Mapping[str, Records]
    select: tuple[str, ...] = ()
    cluster: Callable[[], Cluster] = ArrowCluster

    @classmethod
    def made(cls, root: Path, fed: Mapping[str, Records], cluster: Callable[[], Cluster]) -> Deployed:
        """Seeded, run, appended to, and run again."""
        made = cls(root, fed, cluster=cluster)
        for feed in (made.seed, lambda: made.append("before")):
            feed()
            assert {each.status for each in made.run()} == {"caught_up"}
        return made

    def copy(self, root: Path) -> Deployed:
        """The same project with all its data."""
        return replace(self, root=Path(shutil.copytree(self.root, root)))

    def fresh(self, root: Path) -> Deployed:
        """What it would be, had its files always been as they are now."""
        left_out = shutil.ignore_patterns(".headwater")
        other = replace(self, root=Path(shutil.copytree(self.root, root, ignore=left_out)))
        other.seed()
        for part in ("before", "after"):
            other.append(part)
        assert {each.status for each in other.run()} == {"caught_up"}
        return other

    @cached_property
    def project(self) -> Project:
        """As its files are when this is asked first."""
        return Project(self.root, select=self.select, session=NoSpark())

    def seed(self) -> None:
        self.project.seed(keep_unchanged=True)

    def append(self, part: str) -> None:
        """The records of a part, without the columns that their topics do not have any more."""
        topics = self.project._files.checked.topics
        for topic, records in self.fed.get(part, {}).items():
            declared = topics.get(topic)
            if declared is None:
                continue
            known = [name for name, _ in (column.split(" ", 1) for column in declared.value.split(", "))]
            fitting = [
                {**each, "value": each["value"] and {k: v for k, v in each["value"].items() if k in known}}
                for each in records
            ]
            self.project.append(topic, fitting)

    def run(self, observer: Observer | None = None) -> tuple[ApplicationResult, ...]:
        topologies = self.project._code.topologies()
        results = run_topologies(
            topologies, self.project.settings(), self.cluster(), until_caught_up=True, observer=observer
        )
        return results.applications

    def headwater(self, *arguments: str) -> Result:
        """What a command prints."""
        command, *rest = arguments
        chosen = [f"--select={each}" for each in self.select]
        return CliRunner().invoke(main, [command, "--project-dir", str(self.root), *chosen, *rest])

    def plan(self) -> Planned:
        """What `headwater plan` prints, without what depends on the machine, and how it ends."""
        shown = self.headwater("plan", "--out", str(self.root / "plan.json"))
        text = shown.output.replace(f"{relpath(self.root)}/", "").replace(str(self.root), "")
        text = re.sub(r", in about \d+ s", "", re.sub(r" \([\d.,]+ k?B\)", "", text))
        text = re.sub(r"last commit [\dTZ:-]+", "last commit", text)
        text = re.sub(r"take about .*, in addition", "take so much room, in addition", text)
        return Planned(text, shown.exit_code, json.loads((self.root / "plan.json").read_text()))

    def result(self, *, whole: bool = False) -> dict[str, Any]:
        """All that anybody can see of it: topics by key, in order and with timestamps, and stores.

        Of a topic that has one record for each key and epoch only the last ones, unless `whole`: others depend on where
        epochs end, and so do deletions of rows that came and went.
        """
        found: dict[str, Any] = {}
        topologies = self.project._code.topologies()
        for part in (part for topology in topologies for part in topology.subtopologies):
            modes = sink_modes(part)
            for topic in (each.name for each in part.sinks if modes.get(each.name) != "repartition"):
                records = self.records(topic)
                last = modes.get(topic) == "per_epoch" and not whole
                found[topic] = current(records) if last else records
        for topology in topologies:
            for store in (each.name for part in topology.subtopologies for each in part.stores):
                rows = self.project.query(f"{topology.name}.{store}")
                found[f"store {store}"] = sorted(json.dumps([r.key, r.value, r.timestamp], default=str) for r in rows)
        return found

    def commits(self, topologies: Iterable[str]) -> dict[str, int]:
        """Topology -> how often it has committed."""
        log, project = PlacedLog(self.project.log()), self.project._files.name
        return {each: LogState.load(log.commits(f"{project}-{each}")).number for each in topologies}

    def records(self, topic: str) -> dict[str, list[tuple[int, Any]]]:
        """By key, in order: timestamp and value."""
        found: dict[str, list[tuple[int, Any]]] = {}
        for record in self.project.read(topic):
            found.setdefault(json.dumps(record.key), []).append((record.timestamp, record.value))
        return found


def current(records: Mapping[str, list[tuple[int, Any]]]) -> dict[str, list[tuple[int, Any]]]:
    """The last record of each key that is not deleted."""
    return {key: each[-1:] for key, each in records.items() if each[-1][1] is not None}


@dataclass
class _Sinks:
    """An engine that does nothing but note the sinks, other than those of dead letters."""

    modes: dict[str, str] = field(default_factory=dict)

    def in_task(self, step: object, alone: bool) -> bool:
        return False

    def process(self, rows: Any, nodes: Iterable[Any], reads: object, yields: object) -> Any:
        self.modes |= {node.topic.name: node.mode for node in nodes if isinstance(node, Sink)}
        return rows

    def sql(self, rows: Any, step: str, arguments: object) -> Any:
        return rows


def sink_modes(part: Subtopology) -> dict[str, str]:
    """Topic -> how it is written, see `SinkMode`."""
    sinks = _Sinks()
    part.build((), sinks)
    return sinks.modes


@dataclass(frozen=True)
class Change:
    """One change of a project, as its file has it.

    `after`: the change that is made and run before it. `edit`: file -> what is replaced in it by what. `write`: whole
    files. `remove`: files. `select`: the topologies that are planned and run; all if empty. `verdict`: the worst of the
    plan. `result`: see `judging.py`. `plan`: what the plan says.
    """

    path: Path
    verdict: str
    result: str
    plan: str = ""
    edit: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    write: Mapping[str, str] = field(default_factory=dict)
    remove: Sequence[str] = ()
    select: Sequence[str] = ()
    after: str = ""

    @classmethod
    def read(cls, path: Path) -> Change:
        return cls(path, **yaml.safe_load(path.read_text()))

    @property
    def earlier(self) -> tuple[Change, ...]:
        """The changes that are made before it, in this order."""
        if not self.after:
            return ()
        last = Change.read(self.path.with_stem(self.after))
        return (*last.earlier, last)

    def done(self, project: Deployed) -> Deployed:
        """The project with changed files. What is replaced must be there."""
        for name, edits in self.edit.items():
            file = project.root / name
            text = file.read_text()
            for old, new in edits.items():
                assert old in text, f"{old!r} is not in {name}"
                text = text.replace(old, new)
            file.write_text(text)
        for name, text in self.write.items():
            (project.root / name).parent.mkdir(exist_ok=True)
            (project.root / name).write_text(text)
        for name in self.remove:
            (project.root / name).unlink()
        return replace(project, select=tuple(self.select))

    def keep(self, plan: str) -> None:
        """Write the plan into the file, as its last entry."""
        text = self.path.read_text()
        before = text.partition("\nplan:")[0].rstrip("\n")
        lines = "".join(f"  {line}".rstrip() + "\n" for line in plan.splitlines())
        self.path.write_text(f"{before}\nplan: |\n{lines}")


def changes(project: str) -> list[Any]:
    """All changes of a project, as parameters of a test."""
    folder = Path(__file__).with_name(project)
    return [pytest.param(Change.read(path), id=path.stem) for path in sorted(folder.glob("*.yml"))]
