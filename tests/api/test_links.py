"""Python that a link brings into a project from elsewhere is refused, and not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater import Project

RUN = "from pathlib import Path\nPath(__file__).resolve().with_name('run').touch()\ndef made(*given): return []\n"


def _seed(root: Path, name: str) -> None:
    topic = root / "topics" / "orders.yml"
    topic.write_text(topic.read_text().replace("path: seeds/orders.csv", f"function: {name}:made"))


def _udf(root: Path, name: str) -> None:
    project = root / "headwater.yml"
    declared = f"functions:\n  made:\n    udf: {name}:made\n    arguments: {{a: string}}\n    returns: string\n"
    project.write_text(project.read_text() + declared)


def _plugin(root: Path, name: str) -> None:
    project = root / "headwater.yml"
    project.write_text(project.read_text() + f"plugins: [{name}]\n")


@pytest.mark.parametrize(
    ("use", "linked"),
    [(use, linked) for use in (_seed, _udf, _plugin) for linked in ("file", "folder")]
    + [(use, "imported") for use in (_seed, _udf)],
)
def test_python_that_a_link_brings_from_elsewhere_is_refused_and_not_run(shop, tmp_path, use, linked):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "rows.py").write_text(RUN)
    folder = shop / "functions"
    if linked == "folder":
        folder.symlink_to(outside)
    else:
        folder.mkdir()
        (folder / "rows.py").symlink_to(outside / "rows.py")
    if linked == "imported":
        (folder / "first.py").write_text("from .rows import made\n")
    use(shop, "functions.first" if linked == "imported" else "functions.rows")

    with Project(shop) as project:
        (found,) = project.compile(check=False).errors

    assert found.code == "HW002"
    assert found.message == "The file 'functions/rows.py' is outside of the project."
    assert not (outside / "run").exists()


def test_python_that_a_link_brings_from_the_project_is_taken(shop):
    (shop / "functions").mkdir()
    (shop / "shared.py").write_text(RUN)
    (shop / "functions" / "rows.py").symlink_to(shop / "shared.py")
    _seed(shop, "functions.rows")

    assert Project(shop).parse().ok
