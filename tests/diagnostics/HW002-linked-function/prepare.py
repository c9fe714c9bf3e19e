from pathlib import Path


def prepare(project: Path) -> None:
    (project / "functions" / "shared.py").symlink_to("/etc/passwd")
