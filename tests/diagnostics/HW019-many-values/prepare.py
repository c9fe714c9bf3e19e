from pathlib import Path


def prepare(project: Path) -> None:
    (project / "topics").mkdir()
    values = ", ".join(["1"] * 100_000)
    (project / "topics" / "many.yml").write_text(f"meta:\n  values: [{values}]\n")
