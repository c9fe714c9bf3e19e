"""Modules that `plugins:` names, as far as they are judged without being imported."""

from __future__ import annotations

from pathlib import Path

from headwater.compiler.checks.project import check_modules
from headwater.compiler.diagnostics import Diagnostics, Position
from headwater.compiler.reading.source import FixedOrigin, ScalarNode, SequenceNode


def test_module_that_is_very_long_is_not_taken_for_one_that_ends_in_the_middle(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("values = [\n" + "1,\n" * 200_000 + "]\n")
    at = Position("headwater.yml", 4)
    diagnostics = Diagnostics()

    fine = check_modules(
        SequenceNode((ScalarNode("long", "long", at, FixedOrigin(at)),), at), tmp_path, (), None, diagnostics
    )

    assert (fine, list(diagnostics)) == (True, [])
