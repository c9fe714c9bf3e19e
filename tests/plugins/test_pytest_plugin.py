from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Make = Callable[[Mapping[str, str | bytes]], Any]


def test_project_has_the_files_given_without_their_common_indentation(headwater_project: Make) -> None:
    project = headwater_project(
        {
            "headwater.yml": """
                name: demo
                vars:
                  a: 1
            """,
            "seeds/rows.bin": b"\0\1",
        }
    )

    assert (project.path / "headwater.yml").read_text() == "name: demo\nvars:\n  a: 1\n"
    assert (project.path / "seeds" / "rows.bin").read_bytes() == b"\0\1"


def test_second_call_adds_to_the_same_project(headwater_project: Make, tmp_path: Path) -> None:
    first = headwater_project({"a.txt": "1"})
    second = headwater_project({"b.txt": "2"})

    assert first.path == second.path
    assert sorted(file.name for file in first.path.iterdir()) == ["a.txt", "b.txt"]
    assert first.path.is_relative_to(tmp_path)


PROJECT = {
    "headwater.yml": "name: demo\nversion: '1.0'\nprofile: demo\n",
    "profiles.yml": "demo:\n  target: local\n  targets:\n    local: {}\n",
    "topics/in.yml": "topics:\n  in:\n    partitions: 1\n    key: {k: string}\n    value: {v: int}\n",
    "topologies/copy.yml": "topology: copy\nflows:\n  all:\n    from: in\n    to: out\n",
}


def test_compile_gives_what_the_project_compiles_to(headwater_project: Make) -> None:
    compiled = headwater_project(PROJECT).compile()

    (emitted,) = compiled.emitted
    assert emitted.topology == "copy"
    assert "Topology copy of project demo" in emitted.job.read_text()


def test_compile_sees_the_files_as_they_are_now(headwater_project: Make) -> None:
    project = headwater_project(PROJECT)
    project.compile()
    project.write({"topologies/copy.yml": "topology: copy\nflows:\n  all:\n    from: nowhere\n    to: out\n"})

    (diagnostic,) = project.compile(check=False).diagnostics
    assert "nowhere" in diagnostic.message
