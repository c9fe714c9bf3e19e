from pathlib import Path


def prepare(project: Path) -> None:
    (project / "topics").mkdir()
    (project / "topics" / "passwords.yml").symlink_to("/etc/passwd")
