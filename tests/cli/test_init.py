from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from headwater.cli.main import main


def test_named_project_is_scaffolded_into_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    result = CliRunner().invoke(main, ["init", "shop"])

    assert result.exit_code == 0
    assert yaml.safe_load(Path("shop/headwater.yml").read_text())["name"] == "shop"
    assert set(yaml.safe_load(Path("shop/profiles.yml").read_text())) == {"shop"}
    assert sorted(path.relative_to("shop").as_posix() for path in Path("shop").rglob("*") if path.is_file()) == [
        ".gitignore",
        "README.md",
        "headwater.yml",
        "profiles.yml",
        "seeds/orders.csv",
        *(f"target/.schemas/{name}.json" for name in ("profiles", "project", "tests", "topics", "topology")),
        "tests/sales.yml",
        "topics/orders.yml",
        "topologies/sales.yml",
    ]


def test_project_inside_another_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    alone = CliRunner().invoke(main, ["init", "shop"])
    monkeypatch.chdir(tmp_path / "shop")

    inside = CliRunner().invoke(main, ["init", "inner"])

    assert (alone.exit_code, alone.stderr) == (0, "")
    assert inside.exit_code == 0
    assert inside.stderr == (
        f"warning: inner lies inside the project {tmp_path / 'shop'}: commands use one of the two, the nearest\n"
    )


def test_project_without_name_is_called_like_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "my-shop"
    folder.mkdir()
    monkeypatch.chdir(folder)

    assert CliRunner().invoke(main, ["init"]).exit_code == 0
    assert yaml.safe_load((folder / "headwater.yml").read_text())["name"] == "my_shop"


def test_file_that_is_there_already_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics" / "orders.yml").write_text("mine")

    result = CliRunner().invoke(main, ["init", "shop", "--project-dir", str(tmp_path)])

    assert result.exit_code == 1
    assert "topics/orders.yml exists already" in result.stderr
    assert (tmp_path / "topics" / "orders.yml").read_text() == "mine"
    assert not (tmp_path / "headwater.yml").exists()


def test_readme_and_gitignore_of_a_new_repository_are_kept(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / ".gitignore").write_text("*.pyc\n")

    result = CliRunner().invoke(main, ["init", "shop", "--project-dir", str(tmp_path)])

    assert result.exit_code == 0
    assert (tmp_path / "README.md").read_text() == "mine"
    assert (tmp_path / "headwater.yml").exists()
    assert f"Add to {tmp_path / '.gitignore'}: .headwater/ target/" in result.stdout


def test_name_that_is_no_name_is_wrong_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert CliRunner().invoke(main, ["init", "1-shop"]).exit_code == 2
    assert list(tmp_path.iterdir()) == []
