from pathlib import Path


def prepare(project: Path) -> None:
    import os

    (project / "topics").mkdir()
    os.mkfifo(project / "topics" / "clicks.yml")
