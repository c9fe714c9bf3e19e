"""Commands of an installed plugin: a real distribution on the path of a new Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = '''
import click

from headwater.plugins import hookimpl


@click.command()
def tide():
    """Say how high the tide is."""
    click.echo("high")


@hookimpl
def headwater_register_commands(register):
    register("tide", tide)
    register("parse", tide)
'''


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment in which a plugin with two commands is installed."""
    (tmp_path / "tidal.py").write_text(MODULE)
    info = tmp_path / "tidal-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tidal\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[headwater]\ntidal = tidal\n")
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


def headwater(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headwater.cli.main", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_command_of_a_plugin_is_listed_and_runs(installed: dict[str, str]) -> None:
    assert "  tide      Say how high the tide is.\n" in headwater(installed, "--help").stdout
    assert headwater(installed, "tide").stdout == "high\n"


def test_misspelt_command_of_a_plugin_is_told_with_the_right_one(installed: dict[str, str]) -> None:
    assert "There is no command 'tidee'; did you mean 'tide'?" in headwater(installed, "tidee").stderr


def test_project_option_before_a_command_without_it_is_refused(installed: dict[str, str]) -> None:
    done = headwater(installed, "-p", "no:other", "-s", "x", "tide")

    assert done.returncode == 2
    assert "The command 'tide' has no option '--select'." in done.stderr
    assert headwater(installed, "-p", "no:other", "tide").stdout == "high\n"


def test_built_in_command_is_not_replaced_by_a_plugin(installed: dict[str, str]) -> None:
    assert "Check the project's files" in headwater(installed, "parse", "--help").stdout


def test_plugin_that_is_left_out_has_no_commands(installed: dict[str, str]) -> None:
    assert headwater(installed, "-p", "no:tidal", "tide").returncode == 2


def test_plugin_that_cannot_be_imported_is_an_error_that_names_it(installed: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "tidal.py").write_text("import nothing_of_that_name")

    done = headwater(installed, "--help")

    assert done.returncode == 1
    assert done.stderr.startswith("error: plugin tidal cannot be imported")
