from pathlib import Path


def prepare(project: Path) -> None:
    (project / "plugins").mkdir()
    (project / "plugins" / "packing.py").write_text("def headwater_register_assignors(register)\n    pass\n")
