"""A state_dir that leads to the log."""

from pathlib import Path


def prepare(project: Path) -> None:
    (project / "data").mkdir()
    (project / "stores").symlink_to("data")
