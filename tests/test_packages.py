"""What is installed: pyproject.toml lists the packages by hand, since the repository is itself the package."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOT_INSTALLED = ("tests", "projects", "benchmarks")


def test_every_folder_of_the_package_is_installed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"]
    folders = [file.parent.relative_to(ROOT) for file in ROOT.rglob("__init__.py")]
    mine = [folder for folder in folders if folder.parts[:1] not in [(each,) for each in NOT_INSTALLED]]
    visible = [folder for folder in mine if not any(part.startswith(".") or part == "build" for part in folder.parts)]
    assert sorted(listed) == sorted(".".join(("headwater", *folder.parts)) for folder in visible)


@pytest.fixture(scope="module")
def user_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with an editable install of Headwater and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    build = f"from setuptools.build_meta import build_editable; build_editable({str(folder)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv")
    (packages,) = folder.glob("venv/lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(packages)
    return folder / "venv" / "bin" / "python"


def test_editable_install_imports_the_checkout(user_python: Path, tmp_path: Path) -> None:
    code = "import headwater, pathlib; print(pathlib.Path(headwater.__file__).resolve().parent)"
    done = subprocess.run([user_python, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)

    assert done.stdout.strip() == str(ROOT.resolve())


def test_type_checker_finds_the_types_of_an_editable_install(user_python: Path, tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text("from headwater import Project\nproject = Project.load()\n")
    mypy = [sys.executable, "-m", "mypy", "--python-executable", str(user_python), "--cache-dir", str(tmp_path)]
    # The module must be found, with types; what is in it is for `make lint` to look at.
    done = subprocess.run([*mypy, "--follow-imports", "skip", "use.py"], cwd=tmp_path, capture_output=True, text=True)

    assert done.stdout == "Success: no issues found in 1 source file\n", done.stdout + done.stderr
