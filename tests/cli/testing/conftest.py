"""The project of `headwater init` with its tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from headwater.cli.main import main


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The scaffold, with its expressions judged already and its tests, as the current folder."""
    project = tmp_path / "shop"
    assert CliRunner().invoke(main, ["init", "shop", "--project-dir", str(project)]).exit_code == 0
    monkeypatch.chdir(project)
    return project
