"""A pytest fixture for tests of plugins and projects: compiles and runs a project given as a dict of files.

pytest loads this module in every run where Headwater is installed, so only pytest is imported at its top.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest


@dataclass(frozen=True)
class ProjectFiles:
    """A project folder of a test."""

    path: Path

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Write `files`: path below the project -> content. Common indentation of text is removed."""
        for name, content in files.items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else dedent(content).lstrip("\n").encode())

    def project(self, **options: Any) -> Any:
        """The `headwater.Project` of the present files. Its `close` ends the Spark session that it has started."""
        return importlib.import_module("headwater").Project(self.path, **options)

    def compile(self, **options: Any) -> Any:
        """Call `Project.compile` with these options and return its result."""
        with self.project() as project:
            return project.compile(**options)

    def run(self, **options: Any) -> Any:
        """Call `Project.run` with these options and return its result."""
        with self.project() as project:
            return project.run(**options)


@pytest.fixture
def headwater_project(tmp_path: Path) -> Callable[[Mapping[str, str | bytes]], ProjectFiles]:
    """Makes a project of files: `headwater_project({"headwater.yml": ...})`, then `.compile()` or `.run()` it.

    Each test has one folder, `.path`; calling the fixture again adds files to it.
    """

    def make(files: Mapping[str, str | bytes]) -> ProjectFiles:
        project = ProjectFiles(tmp_path / "project")
        project.path.mkdir(exist_ok=True)
        project.write(files)
        return project

    return make
