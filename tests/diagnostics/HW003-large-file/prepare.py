from pathlib import Path


def prepare(project: Path) -> None:
    (project / "topics").mkdir()
    with (project / "topics" / "huge.yml").open("wb") as file:
        file.truncate(50_000_000)
