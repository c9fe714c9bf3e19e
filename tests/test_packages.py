"""What is installed: pyproject.toml lists the packages by hand, since the repository is itself the package."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_INSTALLED = ("tests", "projects", "benchmarks")


def test_every_folder_of_the_package_is_installed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"]
    folders = [file.parent.relative_to(ROOT) for file in ROOT.rglob("__init__.py")]
    mine = [folder for folder in folders if folder.parts[:1] not in [(each,) for each in NOT_INSTALLED]]
    visible = [folder for folder in mine if not any(part.startswith(".") or part == "build" for part in folder.parts)]
    assert sorted(listed) == sorted(".".join(("headwater", *folder.parts)) for folder in visible)
