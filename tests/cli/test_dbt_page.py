"""docs/from-dbt.md: its files make a project, its test passes, and its selectors select."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater import Project
from headwater.errors import HeadwaterError

PAGE = (Path(__file__).parents[2] / "docs" / "from-dbt.md").read_text("utf-8")
FILES = dict(re.findall(r"```yaml\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
MISSING = r"`--select (.*?)`"
SELECTION = [
    line.strip("|").split(" | ")[:2]
    for line in re.findall(r"^\| `--.*\|$", PAGE.partition("\n## Selection\n")[2].partition("\n## ")[0], re.MULTILINE)
]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    for name, text in {**FILES, "seeds/products.csv": "product,name\nt1,Tea\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def test_files_make_a_project_without_findings_whose_test_passes(shop: Path) -> None:
    with Project.load(shop) as project:
        assert project.parse().diagnostics == ()
        assert repr(project.test()) == "<CaseResults: 1 passed, 0 failed>"


@pytest.mark.parametrize("selector", [here.strip("` ") for _, here in SELECTION if here.strip() != "-"])
def test_selector_of_the_page_selects(shop: Path, selector: str) -> None:
    with Project.load(shop, select=[selector]) as project:
        assert project.resources()


@pytest.mark.parametrize(
    "selector",
    [found[1] for dbt, here in SELECTION if here.strip() == "-" and (found := re.match(MISSING, dbt.strip()))],
)
def test_selector_that_the_page_calls_missing_is_refused(shop: Path, selector: str) -> None:
    with Project.load(shop, select=[selector]) as project, pytest.raises(HeadwaterError):
        project.resources()
