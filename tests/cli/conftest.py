"""A small project, and a way to run commands on it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headwater.cli.main import main


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The project that `headwater init` makes: compiling it needs no Java."""
    project = tmp_path / "shop"
    assert CliRunner().invoke(main, ["init", "shop", "--project-dir", str(project)]).exit_code == 0
    shutil.rmtree(project / "tests")  # what it is changed to here is not what its own tests expect
    return project


@pytest.fixture
def headwater(shop: Path) -> Callable[..., Result]:
    """Runs `headwater COMMAND --project-dir shop ...`."""

    def run(command: str, *arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(main, [command, "--project-dir", str(shop), *arguments], input=stdin)

    return run


@pytest.fixture
def break_it(shop: Path) -> None:
    """Gives the project an error: a flow reads a topic that is not there."""
    path = shop / "topologies" / "sales.yml"
    path.write_text(path.read_text().replace("from: orders", "from: oders"))


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which is in no project."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("HEADWATER_PROJECT_DIR", raising=False)
    return folder
