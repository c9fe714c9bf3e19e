"""The example in `docs/generated.md` is the code that is generated; `pytest tests/golden --update-golden` renews it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater.runtime.engine.operators import operators

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "generated.md"
SHOWN = {
    "yaml": ROOT / "templates" / "init" / "topologies" / "sales.yml",
    "python": ROOT / "tests" / "golden" / "scaffold" / "expected" / "sales" / "job.py",
}


def renewed(page: str) -> str:
    """The page with the first block of each language as it should be."""
    for language, path in SHOWN.items():
        block = f"```{language}\n{path.read_text('utf-8')}```"
        page = re.sub(rf"```{language}\n.*?```", lambda _, block=block: block, page, count=1, flags=re.DOTALL)
    return page


def test_example_is_what_is_generated(update_golden: bool) -> None:
    page = PAGE.read_text("utf-8")
    if update_golden:
        PAGE.write_text(renewed(page), "utf-8")
    assert PAGE.read_text("utf-8") == renewed(page), "renew it with pytest tests/golden --update-golden"


@pytest.mark.parametrize("declared", operators().values(), ids=lambda declared: declared.__name__)
def test_table_has_every_operator(declared: type) -> None:
    assert f"`{declared.__name__}" in PAGE.read_text("utf-8")
