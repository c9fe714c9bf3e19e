"""The project of `headwater init`, as it is and built."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from headwater import Project
from headwater.cli.commands.init import command as init


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    project = tmp_path / "shop"
    init.main(["shop", "--project-dir", str(project)], standalone_mode=False)
    shutil.rmtree(project / "tests")  # what it is changed to here is not what its own tests expect
    return project


@pytest.fixture
def built(shop: Path, local: Any) -> Project:
    project = Project(shop, session=local)
    project.build()
    return project
