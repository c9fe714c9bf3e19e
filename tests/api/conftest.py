"""The project of `headwater init`, as it is and built."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from headwater import Project
from headwater.api import runs
from headwater.cli.commands.init import command as init
from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.cluster.spark.cluster import SparkCluster
from headwater.runtime.cluster.spark.on_demand import SparkOnDemand
from headwater.runtime.driver.cluster import Cluster


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    project = tmp_path / "shop"
    init.main(["shop", "--project-dir", str(project)], standalone_mode=False)
    shutil.rmtree(project / "tests")  # what it is changed to here is not what its own tests expect
    return project


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> Any:
    """In place of a session, for projects whose expressions tasks compute: they run on clients in this process.

    For what a run gives and raises whatever it runs on. Needs no Java.
    """
    session, ask = object(), SparkOnDemand.session

    def cluster(given: Any, *arguments: Any, **options: Any) -> Cluster:
        return LocalCluster() if given is session else SparkCluster(given, *arguments, **options)

    monkeypatch.setattr(SparkOnDemand, "session", lambda self: session if self._given is session else ask(self))
    monkeypatch.setattr(runs, "SparkCluster", cluster)
    return session


@pytest.fixture
def built(shop: Path, local: Any) -> Project:
    project = Project(shop, session=local)
    project.build()
    return project
