"""Every example of docs/language.md compiles."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.compiler.language.determinism import OPTIONS
from headwater.compiler.language.functions import AGGREGATES, GROUPS
from headwater.compiler.pipeline import CheckedProject

PAGE = (Path(__file__).parents[3] / "docs" / "language.md").read_text("utf-8")
TOPICS, *EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
FUNCTIONS = {
    f"functions__{module}": text
    for module, text in re.findall(r"```python\n# functions/(\w+)\.py\n(.*?)```", PAGE, re.DOTALL)
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_compiles(compiled: Callable[..., CheckedProject], example: str) -> None:
    project = compiled(textwrap.dedent(TOPICS.removeprefix("topics:\n")), example, **FUNCTIONS)
    assert {found.code for found in project.diagnostics} <= {"HW037"}  # of functions for other examples
    assert len(project.topologies) == 1


@pytest.mark.parametrize("name", sorted(AGGREGATES))
def test_aggregate_is_in_the_table(name: str) -> None:
    table = PAGE.partition("| aggregate | of a table too |")[2].partition("\n\n")[0]
    assert re.search(rf"\b{name}\b", table)


@pytest.mark.parametrize("text", OPTIONS)
def test_options_are_listed(text: str) -> None:
    listed = re.search(rf"- \*{text.upper()}\*: ([^*]*?)(?=\n- |\Z)", PAGE.partition("## Options of")[2], re.DOTALL)
    assert listed is not None
    assert tuple(re.findall(r"`(\w+)`", listed[1])) == OPTIONS[text]


@pytest.mark.parametrize("group", GROUPS)
def test_functions_are_listed(group: str) -> None:
    listed = re.search(rf"- \*{group}\*: (.*?)(?=\n- |\n\n|\Z)", PAGE, re.DOTALL)
    assert listed is not None
    assert re.findall(r"`(\w+)`", listed[1]) == GROUPS[group].split()
