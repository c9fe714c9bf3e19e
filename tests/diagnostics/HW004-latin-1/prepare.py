from pathlib import Path


def prepare(project: Path) -> None:
    (project / "topics").mkdir()
    (project / "topics" / "clicks.yml").write_bytes("topics:\n  # Besuche für alle\n".encode("latin-1"))
