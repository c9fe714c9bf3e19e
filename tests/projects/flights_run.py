"""The example project in a folder of its own: built by the real runtime, its outputs as plain Python."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from headwater import Project
from headwater.runtime.cluster.spark.cluster import SparkCluster
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.generated_code import load_runner
from headwater.tests.projects.expected import Row, Stream, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.runtime.driver.results import RunResults

FLIGHTS = Path(__file__).parents[2] / "projects" / "flights"
EVERYTHING = 10**8


def copy_of_flights(root: Path, max_records: int, clients: int = 1) -> Path:
    """The project's own files, with a target that takes at most `max_records` of a task in an epoch."""
    left_out = shutil.ignore_patterns(".headwater", "target", "tests", "__pycache__", ".*_cache")
    shutil.copytree(FLIGHTS, root, ignore=left_out, dirs_exist_ok=True)
    profile = yaml.safe_load((root / "profiles.yml").read_text())
    local = profile["flights"]["targets"]["local"]
    local["epoch"] = {"interval": "10ms", "max_records": max_records}
    local["clients"] = clients
    (root / "profiles.yml").write_text(yaml.safe_dump(profile))
    return root


def build_with_one_task_held(
    project: Project, session: SparkSession, held: Callable[[tuple[str, str, int]], bool]
) -> RunResults:
    """`Project.build`, but tasks (application, subtopology, partition) for which `held` is true take nothing."""
    runners = [load_runner(emitted.runner) for emitted in project.compile().emitted]
    project.seed()
    topologies = [runner.topology for runner in runners]
    return run_topologies(topologies, project.settings(), SparkCluster(session), until_caught_up=True, held=held)


def table(project: Project, topic: str) -> Table:
    """The last row of each key (and window), without deleted ones."""
    rows: Table = {}
    for record in project.read(topic):
        key = _key(record.key)
        rows.pop(key, None)
        if record.value is not None:
            rows[key] = record.value
    return rows


def stream(project: Project, topic: str) -> Stream:
    """Timestamp and row of each record, by key, in order."""
    records: Stream = {}
    for record in project.read(topic):
        row: Row = record.value or {}
        records.setdefault(_key(record.key), []).append((record.timestamp, row))
    return records


def _key(key: Mapping[str, Any] | None) -> tuple[Hashable, ...]:
    if key is None:
        return ()
    columns = {name: part for name, part in key.items() if not name.startswith("window_")}
    window = ((key["window_start"], key["window_end"]),) if "window_start" in key else ()
    return (*columns.values(), *window)
