"""An example project in a folder of its own, built in this process with its SQL done by Arrow."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from headwater import Project
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.ingest.seed_rows import project_function
from headwater.tests.runtime.local.arrow_sql import ArrowCluster

PROJECTS = Path(__file__).parents[2] / "projects"


def copied(name: str, into: Path) -> Path:
    """The project's own files, without what a run of it has left."""
    left_out = shutil.ignore_patterns(".headwater", "target", "__pycache__", ".*_cache")
    return Path(shutil.copytree(PROJECTS / name, into / name, ignore=left_out))


def built(root: Path, max_records: int) -> Project:
    """The project, seeded and run until it has caught up, with at most so many records of a task in an epoch."""
    profiles = yaml.safe_load((root / "profiles.yml").read_text())
    (profile,) = profiles.values()
    profile["targets"]["local"]["epoch"] = {"interval": "0ms", "max_records": max_records}
    (root / "profiles.yml").write_text(yaml.safe_dump(profiles))
    project = Project(root)
    topologies = project._code.topologies()
    project.seed()
    results = run_topologies(topologies, project.settings(), ArrowCluster(), until_caught_up=True)
    assert [each.error for each in results.applications if each.error] == []
    return project


def seed_rows(root: Path, name: str) -> Any:
    """What a function of the project's `functions/seeds.py` yields, as a data frame."""
    with project_function(root, f"functions.seeds:{name}") as (function, _):
        return next(function()).to_pandas()
