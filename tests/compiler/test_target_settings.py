"""A target's settings: what `profiles.yml` says, with paths from the project's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater import Project
from headwater.runtime.ir.topology import Settings

HEAD = "here:\n  target: local\n  targets:\n    local:\n"


def settings(root: Path, *lines: str) -> Settings:
    (root / "headwater.yml").write_text('name: shop\nversion: "1"\nprofile: here\n')
    (root / "profiles.yml").write_text(HEAD + "".join(f"      {line}\n" for line in lines))
    (root / "topologies").mkdir()
    with Project.load(root) as project:
        return project.settings()


def test_racks_and_tags_are_by_host(tmp_path: Path) -> None:
    found = settings(tmp_path, "racks:", "  host-1: left", "client_tags:", "  host-1:", "    zone: a")
    assert found.racks == {"host-1": "left"}
    assert found.client_tags == {"host-1": {"zone": "a"}}
    assert found.rack_script == ""


@pytest.mark.parametrize("script", ["bin/rack", "/etc/rack"])
def test_script_of_racks_is_from_the_projects_folder(tmp_path: Path, script: str) -> None:
    found = settings(tmp_path, "racks:", f"  script: {script}")
    assert found.racks == {}
    assert found.rack_script == str(tmp_path / script)


def test_file_of_lineage_is_from_the_projects_folder_and_a_url_stays(tmp_path: Path) -> None:
    found = settings(tmp_path, "lineage:", "  file: runs/lineage.jsonl", "  namespace: prod", "  description: ours")
    assert found.lineage == {"file": str(tmp_path / "runs" / "lineage.jsonl"), "namespace": "prod"}
